// Starts a tool: the only place that does. Takes one call and always returns one result: plan →
// argv → process → streams → end of every process → verdict. A call may take a warm sandbox; after
// that the two ways are the same.

import { LIMITS } from '../../shared/limits.ts'
import { maskedHost } from '../../shared/plan/egress-hosts.ts'
import type {
  Connection,
  EgressMode,
  Outcome,
  ProcessPlan as Plan,
  StreamSummary,
} from '../../shared/plan/plan.ts'
import { err, ok, type Result } from '../../shared/result.ts'
import { type CallSetup, setUpCall } from './call-setup.ts'
import type { Equipment } from './equipment.ts'
import type { Group } from './limits/cgroups.ts'
import { watchCpu } from './limits/cpu-watch.ts'
import { watchFolder } from './limits/disk-watch.ts'
import { Unlinked } from './limits/unlinked-files.ts'
import { type AdmittedPlan, admit, argvDigest, type CallResources, commandFor } from './plan/argv.ts'
import { profileDigest } from './plan/operator-profiles.ts'
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
import { type StartedProcess, start } from './process/start.ts'
import { drained, follow, type Stdio } from './process/stdio.ts'
import { OutputCapture, type OutputChunk, type StreamName } from './streams/output-capture.ts'
import { SecretMask } from './streams/secret-mask.ts'
import type { WarmStock } from './warm-stock.ts'

/** A worker's equipment, and what the probe has proven about it. */
export type Sandbox = {
  readonly equipment: Equipment
  readonly facts: Facts
  /** Undefined if every call starts cold. */
  readonly prepared?: WarmStock | undefined
}

export type SandboxCall = {
  readonly plan: Plan
  /** Undefined is an empty standard input. */
  readonly stdin?: Uint8Array | undefined
  /**
   * Speaks with the program over its standard input and output. When it returns, the program is
   * ended; what it returns is the call's output instead of what the program wrote.
   */
  readonly converse?: ((pipes: LivePipes) => Promise<Uint8Array>) | undefined
  /** The values of the secrets that the plan names. */
  readonly secrets?: Readonly<Record<string, string>> | undefined
  /**
   * The host folder that the calls of the run share; required if and only if the plan's workspace
   * is `run`.
   */
  readonly runFolder?: string | undefined
  /** Receives the captured output as it comes; the tail of an overlong stream comes last. */
  readonly onOutput?: ((chunk: OutputChunk) => void) | undefined
  /** The host folder with the call's input files; required if and only if the plan names some. */
  readonly inputs?: string | undefined
  /**
   * The host folder for the call's output files; required if and only if the plan collects them.
   */
  readonly outputs?: string | undefined
  /**
   * Receives the clean-up that is still running when the result is known. Without it `launch` waits
   * for the clean-up, which never rejects.
   */
  readonly leaving?: ((gone: Promise<unknown>) => void) | undefined
  /** Called if a process of the call may still be alive. */
  readonly onSurvivors?: (() => void) | undefined
  /** Ends the call at once. */
  readonly signal?: AbortSignal | undefined
}

/** Standard input and output of a running program. `output` is not masked. */
export type LivePipes = {
  readonly write: (text: string) => void
  readonly output: AsyncIterable<Uint8Array>
}

/** A call with the mask that all its output passes through. */
type MaskedCall = SandboxCall & { readonly mask: SecretMask }

export type SandboxExecution = {
  readonly outcome: Outcome
  readonly stdout: StreamSummary
  readonly stderr: StreamSummary
  readonly started_at_ms: number
  readonly ended_at_ms: number
  readonly connections: readonly Connection[]
  readonly executor: string
  /** The egress mode that was in force. */
  readonly enforcement: EgressMode
  /** Whether a cgroup limited the call. Undefined if nothing was started. */
  readonly cgroup?: boolean
  /** This digest and the next are those of empty input if nothing was started. */
  readonly profile_sha256: string
  readonly argv_sha256: string
}

/** Enough of standard error to recognise bubblewrap's own error message. */
const ERROR_TEXT_CHARS = 2_048

/** Runs a call if the worker has proven what the plan needs (L8). */
export async function launch(
  { equipment, facts, prepared }: Sandbox,
  call: SandboxCall,
): Promise<SandboxExecution> {
  const started = Date.now()
  const admitted = admit(call.plan, equipment.profiles)
  if (!admitted.ok) return notRun(call.plan, undefined, admitted.error, started)
  const { profile } = admitted.value
  const lacking = unproven(facts, call.plan, profile) ?? withoutCgroup(facts, call.plan)
  if (lacking !== undefined) return notRun(call.plan, profile, lacking, started)
  return launchUnproven(equipment, admitted.value, call, prepared)
}

/** The refusal of a plan that requires a cgroup on a host without them. */
const withoutCgroup = ({ cgroups }: Facts, { cgroup }: Plan): NotRun | undefined =>
  cgroup === true && !cgroups.ok
    ? refused('sandbox_unavailable', cgroups.checks.find(({ ok }) => !ok)?.detail ?? 'no cgroup')
    : undefined

/** Runs a call without checking the proof: for probe.ts only. */
export async function launchUnproven(
  equipment: Equipment,
  admitted: AdmittedPlan,
  call: SandboxCall,
  prepared?: Pick<WarmStock, 'take'>,
): Promise<SandboxExecution> {
  const started = Date.now()
  const { plan, profile } = admitted
  const startedCall = await startCall(equipment, admitted, call, prepared)
  if (!startedCall.ok) return notRun(plan, profile, startedCall.error, started)
  const { place, closeConnections, tearDown } = startedCall.value.setting
  try {
    const mask = new SecretMask(call.secrets)
    const ending = await followToEnd(startedCall.value.started, place, { ...call, mask })
    return {
      ...notRun(plan, profile, ending.outcome, started),
      stdout: ending.stdout,
      stderr: ending.stderr,
      connections: closeConnections().map((connection) => ({
        ...connection,
        host: maskedHost(plan.egress.hosts, connection, (text) => mask.text(text)),
      })),
      cgroup: place.group !== undefined,
      profile_sha256: profileDigest(equipment.profileDigests[profile], admitted.own),
      argv_sha256: startedCall.value.argv_sha256,
    }
  } finally {
    startedCall.value.started.wired.close()
    closeConnections()
    const gone = tearDown()
    if (call.leaving === undefined) await gone
    else call.leaving(gone)
  }
}

type StartedCall = {
  readonly setting: CallSetup
  readonly started: StartedProcess
  readonly argv_sha256: string
}

/** Starts the call in a matching warm sandbox, or else in a new one. */
async function startCall(
  equipment: Equipment,
  admitted: AdmittedPlan,
  { stdin, converse, secrets, runFolder, inputs, outputs, signal }: SandboxCall,
  prepared: Pick<WarmStock, 'take'> | undefined,
): Promise<Result<StartedCall, Outcome>> {
  const cancelled = (): boolean => signal?.aborted === true
  if (cancelled()) return err({ kind: 'cancelled' })
  const live = converse !== undefined
  const released = live ? undefined : prepared?.take(admitted, stdin)
  if (released !== undefined)
    return ok({ ...released, argv_sha256: argvDigest(released.started.command, released.delivery) })
  const settled = await setUpCall(equipment, admitted, { runFolder, inputs, outputs, secrets })
  if (!settled.ok) return settled
  const setting = settled.value
  const unused = async (outcome: Outcome): Promise<Result<never, Outcome>> => {
    setting.closeConnections()
    await setting.tearDown()
    return err(outcome)
  }
  if (cancelled()) return unused({ kind: 'cancelled' })
  const command = commandFor(admitted, equipment.host, setting.place)
  try {
    return ok({
      setting,
      started: await start(equipment, command, { gated: false, stdin, live, secrets }),
      argv_sha256: argvDigest(command),
    })
  } catch (error) {
    return unused(
      infra(
        `this worker could not open the call’s descriptors: ${error instanceof Error ? error.message : error}`,
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
): SandboxExecution {
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

type Ending = { readonly outcome: Outcome; readonly stdout: StreamSummary; readonly stderr: StreamSummary }

async function followToEnd(
  { command, wired, pid, ended }: StartedProcess,
  { folder, outputs, mark, group }: CallResources,
  call: MaskedCall,
): Promise<Ending> {
  const stopper = new Stopper(group, wired)
  let errorText = ''
  const keep = (chunk: OutputChunk): void => {
    if (chunk.stream === 'stderr' && errorText.length < ERROR_TEXT_CHARS)
      errorText += Buffer.from(chunk.bytes).toString('latin1')
    call.onOutput?.(chunk)
  }
  const capture = (name: StreamName): OutputCapture =>
    new OutputCapture(name, call.plan.limits.output_bytes, keep, () => stopper.stop('output_cap'))
  const [stdout, stderr] = [capture('stdout'), capture('stderr')]
  const [maskedOut, maskedErr] = [call.mask.stream(), call.mask.stream()]
  const talk = call.converse === undefined ? undefined : new Talk(wired, call.converse, stopper)
  const streams = [
    talk?.over ?? follow(wired.stdout, maskedOut, stdout),
    follow(wired.stderr, maskedErr, stderr),
  ]

  const started = Date.now()
  stopper.watch(pid, call)
  const onDisk = [folder, outputs].filter((path) => path !== undefined)
  const { limits, tier } = call.plan
  const init = (): number | undefined => parseStatus(wired.status()).child
  const watches = onDisk.map((path) => {
    // A tier B process may hold removed files from anywhere on the host, so only those below its
    // folder count. A tier C process can hold none but its own.
    const scope = tier === 'B' ? { below: `${path}/`, strict: false } : { below: '/', strict: true }
    const unlinked =
      group === undefined ? undefined : new Unlinked({ folder: path, threads: group.threads, init, ...scope })
    return watchFolder(path, limits, unlinked, () => stopper.stop('workspace_cap'))
  })
  const stopCounting = watchCpu(group, limits.cpu_ms, () => stopper.stop('cpu_cap'))
  const { exitCode, signal, code, lost } = await ended
  wired.closeLifeline()
  stopCounting()
  const status = command.bwrap === undefined ? undefined : parseStatus(wired.status())
  stopper.over(endedItself({ code: exitCode, signal, status }))
  const emptied = (await group?.empty()) ?? true
  const gone = emptied && (await allProcessesGone(pid, status, mark, started))
  if (!gone) call.onSurvivors?.()
  await drained(streams)
  stdout.take(talk === undefined ? maskedOut.end() : talk.output)
  stderr.take(maskedErr.end())
  if ((await Promise.all(watches.map((watch) => watch.end()))).includes(true)) stopper.stop('workspace_cap')

  const spawnError = code ?? (pid === undefined ? 'unknown' : undefined)
  const outOfMemory = group?.outOfMemory() ?? false
  const evidence = {
    spawnError,
    code: exitCode,
    stop: stopper.why,
    outOfMemory,
    survivors: !gone,
    status,
    complaint: errorText,
  }
  // A lost tier B process: the signal is not the tool's (S49)
  const outcome = outcomeOf({ ...evidence, signal: lost && status === undefined ? undefined : signal })
  return { outcome, stdout: stdout.finish(), stderr: stderr.finish() }
}

/** A conversation with the program. `converse` masks its output. */
class Talk {
  output: Buffer = Buffer.alloc(0)
  readonly over: Promise<void>

  constructor(
    wired: Pick<Stdio, 'stdin' | 'stdout'>,
    converse: NonNullable<SandboxCall['converse']>,
    stopper: Stopper,
  ) {
    this.over = this.#hold(wired, converse).finally(() => {
      wired.stdin?.end() // most servers exit at the end of their input
      stopper.finishWithin(LIMITS.stdio_exit_ms)
    })
    this.over.catch(ignore) // `drained` reports it after the program's end
  }

  async #hold(
    { stdin, stdout }: Pick<Stdio, 'stdin' | 'stdout'>,
    converse: NonNullable<SandboxCall['converse']>,
  ) {
    stdout.on('error', () => stdout.destroy())
    const pipes = { write: (text: string) => void stdin?.write(text), output: stdout }
    this.output = Buffer.from(await converse(pipes))
  }
}

/**
 * Ends the call early, once, for the first reason. Sends SIGKILL only, which a tool can't ignore
 * (S36).
 */
class Stopper {
  why: Stop | undefined
  readonly #group: Group | undefined
  readonly #wired: Pick<Stdio, 'closeLifeline' | 'status'>
  #pid: number | undefined
  #timer: NodeJS.Timeout | undefined
  #turn: NodeJS.Immediate | undefined
  #finish: NodeJS.Timeout | undefined
  #unsubscribe: () => void = ignore

  constructor(group: Group | undefined, wired: Pick<Stdio, 'closeLifeline' | 'status'>) {
    this.#group = group
    this.#wired = wired
  }

  watch(pid: number | undefined, { plan, signal }: SandboxCall): void {
    this.#pid = pid
    this.#timer = setTimeout(() => {
      // If the worker stalled, the call's end may already wait in the event queue.
      this.#turn = setImmediate(() => this.stop('timeout'))
    }, plan.limits.timeout_ms)
    const cancel = (): void => this.stop('cancelled')
    signal?.addEventListener('abort', cancel, { once: true })
    this.#unsubscribe = () => signal?.removeEventListener('abort', cancel)
    if (signal?.aborted === true) cancel() // it was aborted while the call waited for its pipes
  }

  /** Ends a program that has nothing more to do, if it does not exit in time. */
  finishWithin(ms: number): void {
    if (this.#pid !== undefined) this.#finish = setTimeout(() => this.stop('finished'), ms)
  }

  stop(why: Stop): void {
    if (this.why !== undefined) return
    this.why = why
    if (this.#pid === undefined) return
    // Bubblewrap first, so that it can't report the end that we cause (see `endedItself`)
    killGroup(this.#pid)
    this.#wired.closeLifeline()
    const { child } = parseStatus(this.#wired.status())
    if (child !== undefined) killInit(child)
    this.#group?.kill()
  }

  /**
   * Disarms: the pid may be reused from now on. A timeout or cancellation that came after the
   * call's own end is dropped.
   */
  over(endedItself: boolean): void {
    this.#pid = undefined
    clearTimeout(this.#timer)
    clearTimeout(this.#finish)
    clearImmediate(this.#turn)
    if (endedItself && (this.why === 'timeout' || this.why === 'cancelled')) this.why = undefined
    this.#unsubscribe()
  }
}

/**
 * Waits for the last process of the call. Only then is its output complete and its folder
 * unchanging.
 */
function allProcessesGone(
  pid: number | undefined,
  status: Status | undefined,
  mark: bigint | undefined,
  since_ms: number,
): Promise<boolean> | true {
  if (pid === undefined) return true
  if (mark !== undefined) return endMarked(pid, mark, since_ms)
  return status?.child === undefined || endSandbox(status.child)
}
