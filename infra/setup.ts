// Owns the set-up of a machine and of a state folder: every step of it, in order, each cheap when already done. Starts nothing.

import { existsSync, readFileSync } from 'node:fs'
import { ok, type Result } from '../shared/result.ts'
import { buildEdge, type EdgeBuild } from './edge-build.ts'
import { installPackages, makeUser, WORKER_USER } from './packages.ts'
import { openState, type Refusal, readSecrets, type Secrets, type State } from './state.ts'

export type Ready = { readonly state: State; readonly secrets: Secrets; readonly build: EdgeBuild }

export type Say = (text: string) => void
export const sayOnStderr: Say = (text) => void process.stderr.write(`countersign: ${text}\n`)

export async function setUp(dir: string, say: Say): Promise<Result<Ready, Refusal>> {
  const packages = installPackages(say)
  if (!packages.ok) return packages
  const user = makeUser(WORKER_USER, say)
  if (!user.ok) return user
  const state = openState(dir)
  if (!state.ok) return state
  if (!existsSync(state.value.secrets)) say('making the edge key, the operator key, the installation key and the passwords of Redis')
  const secrets = readSecrets(state.value)
  const build = await buildEdge(say)
  if (!build.ok) return build
  noteUserNamespaces(say)
  return ok({ state: state.value, secrets, build: build.value })
}

/** Switches of distributions that forbid the namespaces of tier C to ordinary users. The worker proves it by trying; this says why. */
const SWITCHES = [
  { file: '/proc/sys/kernel/unprivileged_userns_clone', forbids: '0', mend: 'sysctl kernel.unprivileged_userns_clone=1' },
  { file: '/proc/sys/user/max_user_namespaces', forbids: '0', mend: 'sysctl user.max_user_namespaces=15000' },
  {
    file: '/proc/sys/kernel/apparmor_restrict_unprivileged_userns',
    forbids: '1',
    mend: 'install infra/apparmor/countersign-bwrap (its head says how)',
  },
] as const

function noteUserNamespaces(say: Say): void {
  for (const { file, forbids, mend } of SWITCHES) {
    if (!existsSync(file) || readFileSync(file, 'utf8').trim() !== forbids) continue
    say(`this system keeps user namespaces from ordinary users (${file} is ${forbids}): tier C will be refused; ${mend}`)
  }
}
