// Owns the one place that starts a tool: one call in, one result out, whatever happens. Plan → argv → spawn → streams → the end of every
// process → verdict. Whether the call may run was decided before. A call may find a sandbox that was set up in advance; from there on its
// way is the same.

import type {
  Connection,
  EgressMode,
  Outcome,
  ProcessPlan as Plan,
  StreamSummary,
} from '../../shared/plan/plan.ts'
import { err, ok, type Result } from '../../shared/result.ts'
import { type Setting, settle } from './call-setup.ts'
import type { Equipment } from './equipment.ts'
import type { Group } from './limits/cgroups.ts'
import { watchCpu } from './limits/cpu-watch.ts'
import { watchFolder } from './limits/disk-watch.ts'
import { Unlinked } from './limits/unlinked-files.ts'
import { type Admitted, admit, argvDigest, commandFor, type Place } from './plan/argv.ts'
import { ownDigest } from './plan/operator-profiles.ts'
import { PROFILES, type ProfileName } from './plan/profiles.ts'
import { type Facts, unproven } from './plan/proven.ts'
import {
  endedItself,
  infra,
  type NotRun,
  outcomeOf,
  parseStatus,
  refused,
  type Status,
  type Stop,
} from './plan/verdict.ts'
import { endMarked, endSandbox, killGroup, killInit } from './process/process-tree.ts'
import { type Started, start } from './process/start.ts'
import { drained, follow, type Wiring } from './process/stdio.ts'
import { OutputCapture, type OutputChunk, type StreamName } from './streams/output-capture.ts'
import { Veil } from './streams/secret-mask.ts'
import type { PreparedStock } from './warm-stock.ts'

/** What a worker has, and what it has proven of it. */
export type Sandbox = {
  readonly equipment: Equipment
  readonly facts: Facts
  /** Without it every call is started cold. */
  readonly prepared?: PreparedStock | undefined
}

export type Call = {
  readonly plan: Plan
  /** Undefined is an empty standard input. */
  readonly stdin?: Uint8Array | undefined
  /** The values of the secrets that the plan names. */
  readonly secrets?: Readonly<Record<string, string>> | undefined
  /** The host folder that the calls of the run share; there exactly where the plan's workspace is `run`. */
  readonly runFolder?: string | undefined
  /** What is kept of the output, as it comes; the end of an overlong stream comes last. */
  readonly onOutput?: ((chunk: OutputChunk) => void) | undefined
  /** The host folder with the files that the call brings; there exactly where the plan names some. */
  readonly inputs?: string | undefined
  /** The host folder for what the call leaves; there exactly where the plan keeps that. */
  readonly outputs?: string | undefined
  /** Is handed what is still to go when the end is known; without it the end waits for that. It never fails. */
  readonly leaving?: ((gone: Promise<unknown>) => void) | undefined
  /** A process of the call may still be alive. */
  readonly onSurvivors?: (() => void) | undefined
  /** Ends the call at once. */
  readonly signal?: AbortSignal | undefined
}

/** With what stands before all that it says. */
type Veiled = Call & { readonly veil: Veil }

export type Execution = {
  readonly outcome: Outcome
  readonly stdout: StreamSummary
  readonly stderr: StreamSummary
  readonly started_at_ms: number
  readonly ended_at_ms: number
  readonly connections: readonly Connection[]
  readonly executor: string
  /** The egress mode that was in force. */
  readonly enforcement: EgressMode
  /** Whether a cgroup counted it; of nothing, where nothing was started. */
  readonly cgroup?: boolean
  /** Of nothing, where nothing was started. */
  readonly profile_sha256: string
  readonly argv_sha256: string
}

/** Enough of standard error to know bubblewrap's own complaint. */
const COMPLAINT_CHARS = 2_048

/** Runs a call on what this worker has proven of itself (L8). */
export async function launch({ equipment, facts, prepared }: Sandbox, call: Call): Promise<Execution> {
  const started = Date.now()
  const admitted = admit(call.plan, equipment.profiles)
  if (!admitted.ok) return notRun(call.plan, undefined, admitted.error, started)
  const { profile } = admitted.value
  const lacking = unproven(facts, call.plan, profile) ?? ungrouped(facts, call.plan)
  if (lacking !== undefined) return notRun(call.plan, profile, lacking, started)
  return attempt(equipment, admitted.value, call, prepared)
}

/** What the plan wants counted together can't be where rlimits stand alone. */
const ungrouped = ({ cgroups }: Facts, { cgroup }: Plan): NotRun | undefined =>
  cgroup === true && !cgroups.ok
    ? refused('sandbox_unavailable', cgroups.checks.find(({ ok }) => !ok)?.detail ?? 'no cgroup')
    : undefined

/** The same for what is not proven yet: for probe.ts alone. */
export async function attempt(
  equipment: Equipment,
  admitted: Admitted,
  call: Call,
  prepared?: Pick<PreparedStock, 'take'>,
): Promise<Execution> {
  const started = Date.now()
  const { plan, profile } = admitted
  const begun = await begin(equipment, admitted, call, prepared)
  if (!begun.ok) return notRun(plan, profile, begun.error, started)
  const { place, hangUp, leave } = begun.value.setting
  try {
    const veil = new Veil(call.secrets)
    const ran = await followed(begun.value.started, place, { ...call, veil })
    return {
      ...notRun(plan, profile, ran.outcome, started),
      stdout: ran.stdout,
      stderr: ran.stderr,
      connections: hangUp().map((connection) => ({ ...connection, host: veil.text(connection.host) })),
      cgroup: place.group !== undefined,
      profile_sha256: ownDigest(equipment.profileDigests[profile], admitted.own),
      argv_sha256: begun.value.argv_sha256,
    }
  } finally {
    begun.value.started.wired.close()
    hangUp()
    const gone = leave()
    if (call.leaving === undefined) await gone
    else call.leaving(gone)
  }
}

type Begun = { readonly setting: Setting; readonly started: Started; readonly argv_sha256: string }

/** In a sandbox that waits for such a call, or in one of its own. */
async function begin(
  equipment: Equipment,
  admitted: Admitted,
  { stdin, secrets, runFolder, inputs, outputs, signal }: Call,
  prepared: Pick<PreparedStock, 'take'> | undefined,
): Promise<Result<Begun, Outcome>> {
  const cancelled = (): boolean => signal?.aborted === true
  if (cancelled()) return err({ kind: 'cancelled' })
  const released = prepared?.take(admitted, stdin)
  if (released !== undefined)
    return ok({ ...released, argv_sha256: argvDigest(released.started.command, released.delivery) })
  const settled = await settle(equipment, admitted, { runFolder, inputs, outputs, secrets })
  if (!settled.ok) return settled
  const setting = settled.value
  const unused = async (outcome: Outcome): Promise<Result<never, Outcome>> => {
    setting.hangUp()
    await setting.leave()
    return err(outcome)
  }
  if (cancelled()) return unused({ kind: 'cancelled' })
  const command = commandFor(admitted, equipment.host, setting.place)
  try {
    return ok({
      setting,
      started: await start(equipment, command, { gated: false, stdin, secrets }),
      argv_sha256: argvDigest(command),
    })
  } catch (error) {
    return unused(
      infra(
        `this worker could not open the call's descriptors: ${error instanceof Error ? error.message : error}`,
      ),
    )
  }
}

const ignore = (): void => undefined
const NOTHING = new OutputCapture('stdout', 1, ignore, ignore).finish()

function notRun(
  plan: Plan,
  profile: ProfileName | undefined,
  outcome: Outcome,
  started_at_ms: number,
): Execution {
  return {
    outcome,
    stdout: NOTHING,
    stderr: NOTHING,
    started_at_ms,
    ended_at_ms: Date.now(),
    connections: [],
    executor: PROFILES[profile ?? (plan.tier === 'B' ? 'b_host' : 'c_offline')].executor,
    enforcement: plan.egress.mode,
    profile_sha256: NOTHING.sha256,
    argv_sha256: NOTHING.sha256,
  }
}

type Ran = { readonly outcome: Outcome; readonly stdout: StreamSummary; readonly stderr: StreamSummary }

async function followed(
  { command, wired, pid, ended }: Started,
  { folder, outputs, mark, group }: Place,
  call: Veiled,
): Promise<Ran> {
  const stopper = new Stopper(group, wired)
  let complaint = ''
  const keep = (chunk: OutputChunk): void => {
    if (chunk.stream === 'stderr' && complaint.length < COMPLAINT_CHARS)
      complaint += Buffer.from(chunk.bytes).toString('latin1')
    call.onOutput?.(chunk)
  }
  const capture = (name: StreamName): OutputCapture =>
    new OutputCapture(name, call.plan.limits.output_bytes, keep, () => stopper.stop('output_cap'))
  const [stdout, stderr] = [capture('stdout'), capture('stderr')]
  const [veiledOut, veiledErr] = [call.veil.stream(), call.veil.stream()]
  const streams = [follow(wired.stdout, veiledOut, stdout), follow(wired.stderr, veiledErr, stderr)]

  const started = Date.now()
  stopper.watch(pid, call)
  const onDisk = [folder, outputs].filter((one) => one !== undefined)
  const { limits, tier } = call.plan
  const init = (): number | undefined => parseStatus(wired.status()).child
  const watches = onDisk.map((one) => {
    // Of the host's disk, a call of tier B may have removed what is no business of its folder; one of tier C has nothing but that.
    const sight = tier === 'B' ? { below: `${one}/`, strict: false } : { below: '/', strict: true }
    const unlinked =
      group === undefined ? undefined : new Unlinked({ folder: one, threads: group.threads, init, ...sight })
    return watchFolder(one, limits, unlinked, () => stopper.stop('workspace_cap'))
  })
  const stopCounting = watchCpu(group, limits.cpu_ms, () => stopper.stop('cpu_cap'))
  const { exitCode, signal, code, lost } = await ended
  wired.letGo()
  stopCounting()
  const status = command.bwrap === undefined ? undefined : parseStatus(wired.status())
  stopper.over(endedItself({ code: exitCode, signal, status }))
  const emptied = (await group?.empty()) ?? true
  const gone = emptied && (await everyoneIsGone(pid, status, mark, started))
  if (!gone) call.onSurvivors?.()
  await drained(streams)
  stdout.take(veiledOut.end())
  stderr.take(veiledErr.end())
  if ((await Promise.all(watches.map((watch) => watch.end()))).includes(true)) stopper.stop('workspace_cap')

  const spawnError = code ?? (pid === undefined ? 'unknown' : undefined)
  const outOfMemory = group?.outOfMemory() ?? false
  const told = {
    spawnError,
    code: exitCode,
    stop: stopper.why,
    outOfMemory,
    survivors: !gone,
    status,
    complaint,
  }
  const outcome = outcomeOf({ ...told, signal: lost && status === undefined ? undefined : signal }) // tier B: no signal of the tool's (S49)
  return { outcome, stdout: stdout.finish(), stderr: stderr.finish() }
}

/** Ends the call early: once, for the first reason. SIGKILL only; no one is asked to stop (S36). */
class Stopper {
  why: Stop | undefined
  readonly #group: Group | undefined
  readonly #wired: Pick<Wiring, 'letGo' | 'status'>
  #pid: number | undefined
  #timer: NodeJS.Timeout | undefined
  #turn: NodeJS.Immediate | undefined
  #unsubscribe: () => void = ignore

  constructor(group: Group | undefined, wired: Pick<Wiring, 'letGo' | 'status'>) {
    this.#group = group
    this.#wired = wired
  }

  watch(pid: number | undefined, { plan, signal }: Call): void {
    this.#pid = pid
    this.#timer = setTimeout(() => {
      this.#turn = setImmediate(() => this.stop('timeout')) // where this process was held up, its end may have come before
    }, plan.limits.timeout_ms)
    const cancel = (): void => this.stop('cancelled')
    signal?.addEventListener('abort', cancel, { once: true })
    this.#unsubscribe = () => signal?.removeEventListener('abort', cancel)
    if (signal?.aborted === true) cancel() // while the call waited for its pipes
  }

  stop(why: Stop): void {
    if (this.why !== undefined) return
    this.why = why
    if (this.#pid === undefined) return
    killGroup(this.#pid) // bubblewrap first, so that it can't report the end that we cause (see `endedItself`)
    this.#wired.letGo()
    const { child } = parseStatus(this.#wired.status())
    if (child !== undefined) killInit(child)
    this.#group?.kill()
  }

  /** From here on the number may be another process's. What came too late for a call that ended itself has not ended it. */
  over(endedItself: boolean): void {
    this.#pid = undefined
    clearTimeout(this.#timer)
    clearImmediate(this.#turn)
    if (endedItself && (this.why === 'timeout' || this.why === 'cancelled')) this.why = undefined
    this.#unsubscribe()
  }
}

/** Waits for the last process of the call. Only then is its output whole and its folder still. */
function everyoneIsGone(
  pid: number | undefined,
  status: Status | undefined,
  mark: number | undefined,
  since_ms: number,
): Promise<boolean> | true {
  if (pid === undefined) return true
  if (mark !== undefined) return endMarked(pid, mark, since_ms)
  return status?.child === undefined || endSandbox(status.child)
}
