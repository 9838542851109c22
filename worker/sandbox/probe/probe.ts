// The probe: attacks the worker's own sandboxes with canaries, through the same code that runs
// calls, and records what they saw. A call that needs something unproven is refused later (L8).
// Each failed check comes with a fix.

import { randomInt } from 'node:crypto'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type ProcessPlan as Plan, Tier } from '../../../shared/plan/plan.ts'
import { ownFolder, removeFolder } from '../../host/owned-folders.ts'
import { type CallSetup, setUpCall } from '../call-setup.ts'
import type { Equipment } from '../equipment.ts'
import { launchUnproven, type SandboxCall } from '../launch.ts'
import { admit, commandFor } from '../plan/argv.ts'
import { type Ability, namespacesOff, obstacles, wrongPlatform } from '../plan/host-programs.ts'
import { type OperatorProfile, TMP_BYTES_MAX } from '../plan/operator-profiles.ts'
import { TMP_BYTES } from '../plan/profiles.ts'
import { type Check, type Facts, type Proof, proofOf, unprovenBecause } from '../plan/proven.ts'
import { endOrphans } from '../process/orphans.ts'
import { killGroup } from '../process/process-tree.ts'
import { type StartedProcess, start } from '../process/start.ts'
import type { WarmStock } from '../warm-stock.ts'
import { groupCanaries } from './cgroup-canaries.ts'
import { CANARIES, type Canary, kernelCanaries, OWN_PROGRAM, type Seen } from './shell-canaries.ts'

const LIMITS: Plan['limits'] = {
  timeout_ms: 30_000, // they end at once, unless the host is busy with calls
  cpu_ms: 2_000,
  memory_bytes: 64 * 1024 * 1024,
  pids: 16,
  open_files: 64,
  file_bytes: 1024 * 1024,
  workspace_bytes: 1024 * 1024,
  output_bytes: 64 * 1024,
}

/** For canaries that fill /tmp: the limit of file size must not end them first. */
const FILE_BYTES = 2 * TMP_BYTES_MAX

/** Proves the cgroups, at each probe again, because their delegation may be revoked. */
async function proveCgroups(equipment: Equipment): Promise<Proof> {
  const { groups, host } = equipment
  const fault = groups.ok ? groups.value.fault() : groups.error
  const detail = fault ?? (groups.ok ? groups.value.description : '')
  const groupCheck = {
    name: 'S28 memory and processes of a call are counted together',
    ok: fault === undefined,
    detail,
  }
  if (fault !== undefined || host.machine === undefined) return proofOf([groupCheck])
  return proofOf([
    groupCheck,
    ...(await Promise.all(groupCanaries(host.machine).map((canary) => runCanary(equipment, canary)))).flat(),
  ])
}

/** `prepared`: the stock of warm sandboxes, if calls are to use one. */
export async function probe(
  equipment: Equipment,
  offered: readonly Tier[] = Tier.options,
  prepared?: Pick<WarmStock, 'madeFor'>,
): Promise<Facts> {
  const started = performance.now()
  const listener = await listen()
  const canariesOf = (own?: OperatorProfile): Canary[] => [
    ...CANARIES,
    ...kernelCanariesFor(equipment, listener.port, own?.tmp_bytes ?? TMP_BYTES),
  ]
  const canaries = canariesOf()
  try {
    const [B, C, egress, cgroups, warm] = await Promise.all([
      proof(equipment, 'B', offered, canaries),
      proof(equipment, 'C', offered, canaries),
      proof(equipment, 'egress', offered, canaries),
      proveCgroups(equipment),
      proveWarmStart(equipment, offered, canaries, prepared),
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
      prepared: warm,
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
    return unprovenBecause('disabled', [`tier ${tier} is not in \`tiers\` of this worker’s configuration`])
  const wrong = wrongPlatform(equipment.host)
  if (wrong !== undefined) return unprovenBecause('unsupported_platform', [wrong])
  const lacking = obstacles(equipment.host, ability)
  if (lacking.length > 0) return unprovenBecause('sandbox_unavailable', lacking)
  const canaries = all
    .filter((canary) => canary.ability === ability)
    .map((canary) => runCanary(equipment, canary, own))
  const endings = ability === 'B' ? [] : [lifeline(equipment, ability), noOrphans()]
  return proofOf((await Promise.all([...canaries, ...endings])).flat())
}

/** Repeats the canaries of tier C in warm sandboxes, the only way that passes the gate. */
async function proveWarmStart(
  equipment: Equipment,
  offered: readonly Tier[],
  all: readonly Canary[],
  stock: Pick<WarmStock, 'madeFor'> | undefined,
): Promise<Proof> {
  if (stock === undefined || !offered.includes('C'))
    return unprovenBecause('disabled', ['this worker prepares no warm sandboxes'])
  const lacking = obstacles(equipment.host, 'prepared')
  const slower = 'until then every call starts cold, some ms slower'
  if (lacking.length > 0) return unprovenBecause('sandbox_unavailable', [`${lacking.join('; ')}; ${slower}`])
  const canaries = all
    .filter(({ ability }) => ability === 'C')
    .map((canary) => runCanary(equipment, overStandardInput(canary), undefined, stock))
  return proofOf((await Promise.all([...canaries, lifeline(equipment, 'C', stock), noOrphans()])).flat())
}

/** Ends a sandbox by its lifeline alone, as after the worker's death, without a signal (D1). */
async function lifeline(
  equipment: Equipment,
  ability: Ability,
  stock?: Pick<WarmStock, 'madeFor'>,
): Promise<readonly Check[]> {
  const name = 'D1 a sandbox ends when the worker closes its lifeline'
  // `sleep` starts later, so a look for it skips these: reading all takes 2 ms for 140 processes.
  const earlier = new Set(processIds())
  const secret = `${randomInt(10 ** 9, 10 ** 10)}`
  const plan = planFor(
    { ability, argv: () => ['setsid', '--fork', '--wait', 'sleep', secret] },
    secret,
    undefined,
  )
  const sandbox = await startSandbox(equipment, plan, stock)
  if (sandbox === undefined)
    return [{ name, ok: false, detail: `no sandbox could be set up${namespaceHint()}` }]
  const { place, closeConnections, tearDown } = sandbox.setting
  const { wired, pid, ended } = sandbox.started
  try {
    // bubblewrap's command line ends with it, too.
    const hasStarted = await eventually(() =>
      commandLines(processIds().filter((id) => !earlier.has(id))).includes(`sleep\0${secret}\0`),
    )
    wired.closeLifeline()
    const isAlive = !(await eventually(() => processesWith(secret) === 0))
    if (pid !== undefined) killGroup(pid)
    await ended
    const detail = hasStarted
      ? isAlive
        ? 'it is still running; report this kernel and the version of bubblewrap'
        : 'it ended'
      : 'it did not start'
    return [{ name, ok: hasStarted && !isAlive, detail }]
  } finally {
    wired.close()
    closeConnections()
    await place.group?.empty()
    await tearDown()
  }
}

async function startSandbox(
  equipment: Equipment,
  plan: Plan,
  stock: Pick<WarmStock, 'madeFor'> | undefined,
): Promise<{ readonly setting: CallSetup; readonly started: StartedProcess } | undefined> {
  const admitted = admit(plan)
  if (!admitted.ok) return undefined
  if (stock !== undefined) return stock.madeFor(admitted.value, undefined)
  const settled = await setUpCall(equipment, admitted.value, {})
  if (!settled.ok) return undefined
  const command = commandFor(admitted.value, equipment.host, settled.value.place)
  return { setting: settled.value, started: await start(equipment, command, { gated: false }) }
}

async function eventually(holds: () => boolean): Promise<boolean> {
  for (const until = Date.now() + WITHIN_MS; !holds(); await sleep(LOOK_MS))
    if (Date.now() > until) return false
  return true
}
const WITHIN_MS = 10_000
/** Reading the command lines of all processes takes about 10 ms, so look rarely. */
const LOOK_MS = 25

async function noOrphans(): Promise<readonly Check[]> {
  const { alive } = await endOrphans()
  const detail = alive.length === 0 ? 'none' : `process ${alive.join(', ')} can’t be ended; restart this host`
  return [{ name: 'D1 no sandbox outlived its worker', ok: alive.length === 0, detail }]
}

/**
 * Rewrites a canary to bring its program over standard input, because a warm sandbox has its own
 * workspace.
 */
function overStandardInput({ program, ...canary }: Canary): Canary {
  const written = `cat > ${OWN_PROGRAM} && chmod 500 ${OWN_PROGRAM} && exec ${OWN_PROGRAM}`
  return program === undefined
    ? canary
    : { ...canary, stdin: program, argv: () => ['sh', '-c', written], limits: { file_bytes: FILE_BYTES } }
}

const kernelCanariesFor = (
  { host: { machine }, folder }: Equipment,
  port: number,
  tmp_bytes: number,
): Canary[] =>
  machine === undefined ? [] : kernelCanaries(machine, { folder, port }, { pids: LIMITS.pids, tmp_bytes })

/** A listener on the host's loopback, which no sandbox with its own network may reach. */
async function listen(): Promise<{ port: number; close: () => void }> {
  const server = createServer((socket) => socket.destroy())
  await new Promise<void>((settle) => server.listen(0, '127.0.0.1', settle))
  // A TCP listener has one.
  return { port: (server.address() as AddressInfo).port, close: () => server.close() }
}

/**
 * Writes a canary's program. Synchronous, so that no fork inherits the file while it is open for
 * writing (ETXTBSY).
 */
function writeProgram(folder: string, program: Buffer): void {
  writeFileSync(join(folder, OWN_PROGRAM), program, { mode: 0o500 })
}

/** Runs one canary and judges its output. A canary that did not run counts as failed. */
async function runCanary(
  equipment: Equipment,
  canary: Canary,
  own?: string,
  stock?: Pick<WarmStock, 'madeFor'>,
): Promise<readonly Check[]> {
  if (canary.program === undefined) return runAndJudge(equipment, canary, { own, stock })
  const folder = await ownFolder(equipment.folder, 'canary')
  try {
    writeProgram(folder, canary.program)
    return await runAndJudge(equipment, canary, { own, stock, folder })
  } finally {
    await removeFolder(folder)
  }
}

type Surroundings = {
  readonly own: string | undefined
  readonly stock: Pick<WarmStock, 'madeFor'> | undefined
  readonly folder?: string
}

async function runAndJudge(
  equipment: Equipment,
  canary: Canary,
  { own, stock, folder }: Surroundings,
): Promise<readonly Check[]> {
  const secret = `${randomInt(10 ** 9, 10 ** 10)}`
  const plan = { ...planFor(canary, secret, folder), ...(own === undefined ? {} : { profile: own }) }
  const admitted = admit(plan, equipment.profiles)
  if (!admitted.ok) throw new Error(`a canary’s plan is not admitted: ${admitted.error.detail}`)
  const abort = new AbortController()
  const output = { stdout: '', stderr: '' }
  const stdin = canary.stdin === undefined ? undefined : Buffer.from(canary.stdin)
  const warm = await stock?.madeFor(admitted.value, stdin)
  if (stock !== undefined && warm === undefined)
    return [
      {
        name: `${canary.name}: a warm sandbox is ready`,
        ok: false,
        detail: `none could be prepared; ${namespaceHint()}`,
      },
    ]
  const call: SandboxCall = {
    plan,
    runFolder: plan.workspace === 'run' ? folder : undefined,
    stdin,
    signal: abort.signal,
    onOutput: ({ stream, bytes }) => {
      output[stream] += Buffer.from(bytes).toString('latin1')
      if (canary.endsAtOutput === true) abort.abort()
    },
  }
  const { outcome } = await launchUnproven(equipment, admitted.value, call, { take: () => warm })
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
  const seen: Seen = { outcome, ...output, uid: equipment.host.uid, left: () => processesWith(secret) }
  return canary
    .judge(seen)
    .map(({ name, ok, detail }) => ({ name, ok, detail: ok ? detail : `${detail}; ${canary.fix}` }))
}

/**
 * `folder`: holds the canary's program. Tier B calls share no folder, so there the path is
 * absolute.
 */
function planFor(
  { ability, argv, program, limits = {} }: Pick<Canary, 'ability' | 'argv' | 'program' | 'limits'>,
  secret: string,
  folder: string | undefined,
): Plan {
  const inB = ability === 'B'
  const programPath = inB && folder !== undefined ? join(folder, OWN_PROGRAM) : OWN_PROGRAM
  const words = argv(secret).map((word) => (word === OWN_PROGRAM ? programPath : word))
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

/** Counts processes with that word in their command line, without using the code under test. */
function processesWith(secret: string): number {
  return commandLines(processIds()).filter((line) => line.includes(secret)).length
}

const processIds = (): string[] => readdirSync('/proc').filter((name) => /^[0-9]+$/.test(name))
const commandLines = (ids: readonly string[]): string[] => ids.map((id) => read(`/proc/${id}/cmdline`))

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
