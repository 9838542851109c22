// Owns the proof of what this host can do: when a worker starts, it attacks its own sandboxes with canaries through the same code that runs
// calls, and publishes what it saw. What is not proven here is refused later (L8). Each failed check says what to do.

import { randomInt } from 'node:crypto'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type ProcessPlan as Plan, Tier } from '../../../shared/plan/plan.ts'
import { ownFolder, removeFolder } from '../../host/owned-folders.ts'
import { type Setting, settle } from '../call-setup.ts'
import type { Equipment } from '../equipment.ts'
import { attempt, type Call } from '../launch.ts'
import { admit, commandFor } from '../plan/argv.ts'
import { type Ability, namespacesOff, obstacles, wrongPlatform } from '../plan/host-programs.ts'
import { type OwnProfile, TMP_BYTES_MAX } from '../plan/operator-profiles.ts'
import { TMP_BYTES } from '../plan/profiles.ts'
import { type Check, type Facts, lacks, type Proof, proofOf } from '../plan/proven.ts'
import { endOrphans } from '../process/orphans.ts'
import { killGroup } from '../process/process-tree.ts'
import { type Started, start } from '../process/start.ts'
import type { PreparedStock } from '../warm-stock.ts'
import { groupCanaries } from './cgroup-canaries.ts'
import { CANARIES, type Canary, kernelCanaries, OWN_PROGRAM, type Seen } from './shell-canaries.ts'

const LIMITS: Plan['limits'] = {
  timeout_ms: 30_000, // they end at once, but on a host that is busy with calls
  cpu_ms: 2_000,
  memory_bytes: 64 * 1024 * 1024,
  pids: 16,
  open_files: 64,
  file_bytes: 1024 * 1024,
  workspace_bytes: 1024 * 1024,
  output_bytes: 64 * 1024,
}

/** For what tries how much fits: the limit of one file must not end it before. */
const FILE_BYTES = 2 * TMP_BYTES_MAX

/** Tried anew each time: what was delegated can be taken away. */
async function counting(equipment: Equipment): Promise<Proof> {
  const { groups, host } = equipment
  const fault = groups.ok ? groups.value.fault() : groups.error
  const detail = fault ?? (groups.ok ? groups.value.told : '')
  const entered = {
    name: 'S28 memory and processes of a call are counted together',
    ok: fault === undefined,
    detail,
  }
  if (fault !== undefined || host.machine === undefined) return proofOf([entered])
  return proofOf([
    entered,
    ...(await Promise.all(groupCanaries(host.machine).map((canary) => release(equipment, canary)))).flat(),
  ])
}

/** `prepared`: where calls are to find sandboxes that were set up in advance. */
export async function probe(
  equipment: Equipment,
  offered: readonly Tier[] = Tier.options,
  prepared?: Pick<PreparedStock, 'madeFor'>,
): Promise<Facts> {
  const started = performance.now()
  const listener = await listen()
  const canariesOf = (own?: OwnProfile): Canary[] => [
    ...CANARIES,
    ...ofTheKernel(equipment, listener.port, own?.tmp_bytes ?? TMP_BYTES),
  ]
  const canaries = canariesOf()
  try {
    const [B, C, egress, cgroups, waiting] = await Promise.all([
      proof(equipment, 'B', offered, canaries),
      proof(equipment, 'C', offered, canaries),
      proof(equipment, 'egress', offered, canaries),
      counting(equipment),
      inAdvance(equipment, offered, canaries, prepared),
    ])
    const profiles: Record<string, Proof> = {}
    for (const [name, own] of Object.entries(equipment.profiles))
      profiles[name] = await proof(
        equipment,
        own.from === 'c_offline' ? 'C' : 'egress',
        offered,
        canariesOf(own),
        name,
      )
    const took_ms = Math.round(performance.now() - started)
    return {
      tiers: { B, C },
      egress,
      profiles,
      cgroups,
      prepared: waiting,
      versions: equipment.host.versions,
      took_ms,
    }
  } finally {
    listener.close()
  }
}

async function proof(
  equipment: Equipment,
  ability: Ability,
  offered: readonly Tier[],
  all: readonly Canary[],
  own?: string,
): Promise<Proof> {
  const tier = ability === 'B' ? 'B' : 'C'
  if (!offered.includes(tier))
    return lacks('disabled', [`tier ${tier} is not in \`tiers\` of this worker's configuration`])
  const wrong = wrongPlatform(equipment.host)
  if (wrong !== undefined) return lacks('unsupported_platform', [wrong])
  const lacking = obstacles(equipment.host, ability)
  if (lacking.length > 0) return lacks('sandbox_unavailable', lacking)
  const canaries = all
    .filter((canary) => canary.ability === ability)
    .map((canary) => release(equipment, canary, own))
  const endings = ability === 'B' ? [] : [lifeline(equipment, ability), noOrphans()]
  return proofOf((await Promise.all([...canaries, ...endings])).flat())
}

/** All that is tried of tier C, in sandboxes that were set up before anybody knew of what: the gate is on this way, and on no other. */
async function inAdvance(
  equipment: Equipment,
  offered: readonly Tier[],
  all: readonly Canary[],
  stock: Pick<PreparedStock, 'madeFor'> | undefined,
): Promise<Proof> {
  if (stock === undefined || !offered.includes('C'))
    return lacks('disabled', ['this worker sets up no sandbox in advance'])
  const lacking = obstacles(equipment.host, 'prepared')
  const slower = 'until then each call starts a sandbox of its own, some ms later'
  if (lacking.length > 0) return lacks('sandbox_unavailable', [`${lacking.join('; ')}; ${slower}`])
  const canaries = all
    .filter(({ ability }) => ability === 'C')
    .map((canary) => release(equipment, alone(canary), undefined, stock))
  return proofOf((await Promise.all([...canaries, lifeline(equipment, 'C', stock), noOrphans()])).flat())
}

/** Ends a sandbox by the lifeline alone, as when the worker is dead and nobody sends a signal (D1). */
async function lifeline(
  equipment: Equipment,
  ability: Ability,
  stock?: Pick<PreparedStock, 'madeFor'>,
): Promise<readonly Check[]> {
  const name = 'D1 a sandbox ends when the worker closes its lifeline'
  const secret = `${randomInt(10 ** 9, 10 ** 10)}`
  const plan = planFor(
    { ability, argv: () => ['setsid', '--fork', '--wait', 'sleep', secret] },
    secret,
    undefined,
  )
  const begun = await attemptToBegin(equipment, plan, stock)
  if (begun === undefined)
    return [{ name, ok: false, detail: `no sandbox could be set up${namespaceHint()}` }]
  const { place, hangUp, leave } = begun.setting
  const { wired, pid, ended } = begun.started
  try {
    const began = await within(() => commandLines().some((line) => line === `sleep\0${secret}\0`)) // bubblewrap's own has it in the end
    wired.letGo()
    const lives = !(await within(() => processesWith(secret) === 0))
    if (pid !== undefined) killGroup(pid)
    await ended
    const detail = began
      ? lives
        ? 'it is still running; report this kernel and the version of bubblewrap'
        : 'it ended'
      : 'it did not begin'
    return [{ name, ok: began && !lives, detail }]
  } finally {
    wired.close()
    hangUp()
    await place.group?.empty()
    await leave()
  }
}

async function attemptToBegin(
  equipment: Equipment,
  plan: Plan,
  stock: Pick<PreparedStock, 'madeFor'> | undefined,
): Promise<{ readonly setting: Setting; readonly started: Started } | undefined> {
  const admitted = admit(plan)
  if (!admitted.ok) return undefined
  if (stock !== undefined) return stock.madeFor(admitted.value, undefined)
  const settled = await settle(equipment, admitted.value, {})
  if (!settled.ok) return undefined
  const command = commandFor(admitted.value, equipment.host, settled.value.place)
  return { setting: settled.value, started: await start(equipment, command, { gated: false }) }
}

async function within(holds: () => boolean): Promise<boolean> {
  for (const until = Date.now() + LIFELINE_WITHIN_MS; !holds(); await sleep(5))
    if (Date.now() > until) return false
  return true
}
const LIFELINE_WITHIN_MS = 10_000

async function noOrphans(): Promise<readonly Check[]> {
  const { alive } = await endOrphans()
  const detail = alive.length === 0 ? 'none' : `process ${alive.join(', ')} can’t be ended; restart this host`
  return [{ name: 'D1 no sandbox outlived its worker', ok: alive.length === 0, detail }]
}

/** What waits has a workspace of its own, so a program of ours comes by standard input. */
function alone({ program, ...canary }: Canary): Canary {
  const written = `cat > ${OWN_PROGRAM} && chmod 500 ${OWN_PROGRAM} && exec ${OWN_PROGRAM}`
  return program === undefined
    ? canary
    : { ...canary, stdin: program, argv: () => ['sh', '-c', written], limits: { file_bytes: FILE_BYTES } }
}

const ofTheKernel = ({ host: { machine }, folder }: Equipment, port: number, tmp_bytes: number): Canary[] =>
  machine === undefined ? [] : kernelCanaries(machine, { folder, port }, { pids: LIMITS.pids, tmp_bytes })

/** Somebody on the host's loopback, whom no sandbox with a network of its own may reach. */
async function listen(): Promise<{ port: number; close: () => void }> {
  const server = createServer((socket) => socket.destroy())
  await new Promise<void>((settle) => server.listen(0, '127.0.0.1', settle))
  return { port: (server.address() as AddressInfo).port, close: () => server.close() } // it listens on TCP
}

/** The folder of a canary that brings its own program. Synchronous: nothing else is started while the program is open to be written. */
function furnish(folder: string, program: Buffer): void {
  writeFileSync(join(folder, OWN_PROGRAM), program, { mode: 0o500 })
}

/** Runs one canary and has it judge what it saw. A canary that did not run proves nothing, whatever it would have shown. */
async function release(
  equipment: Equipment,
  canary: Canary,
  own?: string,
  stock?: Pick<PreparedStock, 'madeFor'>,
): Promise<readonly Check[]> {
  if (canary.program === undefined) return released(equipment, canary, { own, stock })
  const folder = await ownFolder(equipment.folder, 'canary')
  try {
    furnish(folder, canary.program)
    return await released(equipment, canary, { own, stock, folder })
  } finally {
    await removeFolder(folder)
  }
}

type Where = {
  readonly own: string | undefined
  readonly stock: Pick<PreparedStock, 'madeFor'> | undefined
  readonly folder?: string
}

async function released(
  equipment: Equipment,
  canary: Canary,
  { own, stock, folder }: Where,
): Promise<readonly Check[]> {
  const secret = `${randomInt(10 ** 9, 10 ** 10)}`
  const plan = { ...planFor(canary, secret, folder), ...(own === undefined ? {} : { profile: own }) }
  const admitted = admit(plan, equipment.profiles)
  if (!admitted.ok) throw new Error(`a canary's plan is not admitted: ${admitted.error.detail}`)
  const abort = new AbortController()
  const output = { stdout: '', stderr: '' }
  const stdin = canary.stdin === undefined ? undefined : Buffer.from(canary.stdin)
  const waiting = await stock?.madeFor(admitted.value, stdin)
  if (stock !== undefined && waiting === undefined)
    return [
      {
        name: `${canary.name}: it is set up in advance`,
        ok: false,
        detail: `it could not be; ${namespaceHint()}`,
      },
    ]
  const call: Call = {
    plan,
    runFolder: plan.workspace === 'run' ? folder : undefined,
    stdin,
    signal: abort.signal,
    onOutput: ({ stream, bytes }) => {
      output[stream] += Buffer.from(bytes).toString('latin1')
      if (canary.endsAtOutput === true) abort.abort()
    },
  }
  const { outcome } = await attempt(equipment, admitted.value, call, { take: () => waiting })
  if (outcome.kind === 'refused' || outcome.kind === 'infra') {
    return [{ name: `${canary.name}: it runs`, ok: false, detail: `${outcome.detail}${namespaceHint()}` }]
  }
  if (outcome.kind === 'timeout')
    return [
      {
        name: `${canary.name}: it ends`,
        ok: false,
        detail: `not within ${LIMITS.timeout_ms / 1000} s; this host may be too busy`,
      },
    ]
  const seen: Seen = { outcome, ...output, uid: equipment.host.uid, left: processesWith(secret) }
  return canary
    .judge(seen)
    .map(({ name, ok, detail }) => ({ name, ok, detail: ok ? detail : `${detail}; ${canary.fix}` }))
}

/** `folder`: where its own program lies. No call of tier B shares one, so there it is named from outside. */
function planFor(
  { ability, argv, program, limits = {} }: Pick<Canary, 'ability' | 'argv' | 'program' | 'limits'>,
  secret: string,
  folder: string | undefined,
): Plan {
  const inB = ability === 'B'
  const placed = inB && folder !== undefined ? join(folder, OWN_PROGRAM) : OWN_PROGRAM
  const words = argv(secret).map((word) => (word === OWN_PROGRAM ? placed : word))
  return {
    tier: inB ? 'B' : 'C',
    executor: { kind: 'process', argv: words, stdin: 'none', env: {}, cwd: '' },
    egress: inB
      ? { mode: 'none', hosts: [] }
      : { mode: 'strict', hosts: ability === 'C' ? [] : ['canary.invalid'] },
    secrets: [],
    workspace: inB || folder === undefined ? 'call' : 'run',
    limits: { ...LIMITS, ...(program === undefined ? {} : { file_bytes: FILE_BYTES }), ...limits },
  }
}

/** Seen from the host, not by the code under test: whoever has that word in its command line is still there. */
function processesWith(secret: string): number {
  return commandLines().filter((line) => line.includes(secret)).length
}

const commandLines = (): string[] =>
  readdirSync('/proc')
    .filter((name) => /^[0-9]+$/.test(name))
    .map((name) => read(`/proc/${name}/cmdline`))

function read(path: string): string {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    return ''
  }
}

const namespaceHint = (): string =>
  namespacesOff(read)
    .map((todo) => `; ${todo}`)
    .join('')
