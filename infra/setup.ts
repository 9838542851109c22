// Sets up a machine and a state folder, step by step; each step is cheap if it is already done.
// Starts nothing.

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
  if (!existsSync(state.value.secrets))
    say('creating the edge key, the operator key, the installation key and the Redis passwords')
  const secrets = readSecrets(state.value)
  const build = await buildEdge(say)
  if (!build.ok) return build
  noteUserNamespaces(say)
  return ok({ state: state.value, secrets, build: build.value })
}

/**
 * Kernel settings by which distributions forbid user namespaces, which tier C needs. The worker
 * tests tier C itself; this names the cause.
 */
const SWITCHES = [
  {
    file: '/proc/sys/kernel/unprivileged_userns_clone',
    forbids: '0',
    mend: 'sysctl kernel.unprivileged_userns_clone=1',
  },
  { file: '/proc/sys/user/max_user_namespaces', forbids: '0', mend: 'sysctl user.max_user_namespaces=15000' },
  {
    file: '/proc/sys/kernel/apparmor_restrict_unprivileged_userns',
    forbids: '1',
    mend: 'install infra/apparmor/countersign-bwrap as its header describes',
  },
] as const

function noteUserNamespaces(say: Say): void {
  for (const { file, forbids, mend } of SWITCHES) {
    if (!existsSync(file) || readFileSync(file, 'utf8').trim() !== forbids) continue
    say(
      `unprivileged user namespaces are disabled on this system (${file} is ${forbids}), so tier C calls will be refused; to enable them: ${mend}`,
    )
  }
}
