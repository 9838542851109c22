// Owns the handing of a verified call to the sandbox, and of what the sandbox saw to the statement. It decides nothing: the plan is
// obeyed to the letter, and what happened is passed on as it was reported, on the edge's clock.

import type { Limits, Outcome, ProcessPlan as Plan } from '../../shared/plan/plan.ts'
import { err, ok, type Result } from '../../shared/result.ts'
import type { Config } from '../config.ts'
import { ownFolder, removeFolder } from '../host/owned-folders.ts'
import type { Link } from '../link/client.ts'
import { launch, type Sandbox } from '../sandbox/launch.ts'
import { Veil } from '../sandbox/streams/secret-mask.ts'
import { type Ran, unrun } from './attestation.ts'
import { judged } from './check-output.ts'
import type { InHand, StopReason } from './in-flight.ts'
import { layInputs } from './input-files.ts'
import { collect } from './output-files.ts'
import type { CallOutput } from './output-stream.ts'
import type { NoFolder, RunFolders } from './run-folders.ts'
import type { Verified } from './verify-grant.ts'

type Means = {
  readonly link: Link
  readonly runFolders: RunFolders
  readonly sandbox: Sandbox
  readonly output: CallOutput
  /** Of this worker. */
  readonly ceilings: Config['limits']
}

/** What is kept of a grant's time for the settlement that follows the files. */
const SETTLING_MS = 5_000

/** A tier that this host has not proven is refused by the sandbox itself, never downgraded (L8). */
export async function perform(verified: Verified, inHand: InHand, means: Means): Promise<Ran> {
  const { grant, plan, args, argsText } = verified
  const { link, runFolders, output } = means
  const stdin = stdinOf(plan, args, argsText)
  if (!stdin.ok)
    return unrun({ kind: 'refused', code: 'invalid_input', detail: stdin.error }, link.clock.now())
  const { run } = grant.facts
  const runFolder =
    plan.workspace === 'run'
      ? await runFolders.enter(run, grant.folder, lowered(plan.limits, means.ceilings))
      : ok(undefined)
  if (!runFolder.ok) return unrun(withoutFolder(runFolder.error), link.clock.now())
  try {
    return await performIn(runFolder.value, stdin.value, verified, inHand, means)
  } finally {
    output.end()
    if (runFolder.value !== undefined) runFolders.leave(run)
  }
}

async function performIn(
  runFolder: string | undefined,
  stdin: Buffer | undefined,
  { grant, plan, secrets }: Verified,
  { stop: { signal }, leaving }: InHand,
  { link, runFolders, sandbox, output, ceilings }: Means,
): Promise<Ran> {
  const { call } = grant.facts
  const root = sandbox.equipment.folder
  const inputs = await layInputs(plan.files, { call, link, root, signal })
  if (!inputs.ok) return unrun(signal.aborted ? stopped(signal) : inputs.error, link.clock.now())
  const laid = [inputs.value]
  try {
    const outputs = plan.outputs === undefined ? undefined : await ownFolder(root, 'output')
    laid.push(outputs)
    const limits = least(plan.limits, ceilings, grant.deadline_ms - link.clock.now())
    const started_at_ms = Math.max(grant.issued_at_ms, link.clock.now()) // L9: on the edge's clock, without steps of the host's clock
    const { enforcement, cgroup, ...seen } = await launch(sandbox, {
      plan: { ...plan, limits },
      stdin,
      secrets,
      runFolder,
      inputs: inputs.value,
      outputs,
      signal,
      leaving: (gone) => leaving.push(gone.catch(() => undefined)), // or it goes at the next start
      onSurvivors: () => runFolders.taint(grant.facts.run),
      onOutput: (chunk) => output.take(chunk.stream, chunk.bytes),
    })
    const ended_at_ms = Math.max(started_at_ms, link.clock.now())
    const still = outputs !== undefined && seen.outcome.kind !== 'infra' && seen.outcome.kind !== 'refused'
    const until_ms = grant.deadline_ms - SETTLING_MS
    const files = still
      ? await collect(outputs, { call, veil: new Veil(secrets), link, until_ms, signal })
      : undefined
    const kept = output.end()
    const execution = {
      ...seen,
      connections: [...seen.connections],
      outcome: interrupted(signal, seen.outcome) ?? judged(seen.outcome, plan, seen.stdout, kept.stdout),
      sandbox_enforcement: enforcement,
      limits,
      ...(files === undefined ? {} : { files }),
      ...(cgroup === undefined ? {} : { cgroup: cgroup && grant.proven?.cgroups !== false }), // never attest more than was proven
      started_at_ms,
      ended_at_ms,
    }
    return { execution, ...kept }
  } finally {
    for (const folder of laid) if (folder !== undefined) leaving.push(removeFolder(folder)) // or it goes at the next start
  }
}

const withoutFolder = (why: NoFolder): Unrun => {
  if (why === 'lost')
    return {
      kind: 'refused',
      code: 'workspace_lost',
      detail: 'this worker has the folder of the run no more; make a new run and begin there',
    }
  if (why === 'full') return { kind: 'refused', code: 'quota_exceeded', detail: FULL }
  return { kind: 'infra', detail: `the run’s folder can’t be made (${why.reason})` }
}

const FULL =
  'the disk of this worker has no room for the folder of another run; try again in some minutes, or have its operator raise `runs_bytes` or lower `free_bytes`'

/** Standard input as the plan says: nothing, all arguments in the form that the digest covers, or the text of one. */
function stdinOf(
  { executor: { stdin } }: Plan,
  args: Record<string, unknown>,
  argsText: string,
): Result<Buffer | undefined, string> {
  if (stdin === 'none') return ok(undefined)
  if (stdin === 'args') return ok(Buffer.from(argsText))
  if (!Object.hasOwn(args, stdin.arg)) return ok(undefined) // an optional argument that was not given
  const text = args[stdin.arg]
  return typeof text === 'string'
    ? ok(Buffer.from(text))
    : err(`the argument \`${stdin.arg}\` is to be standard input and is no text`)
}

/**
 * No process gets more than this worker gives, and none outlives its grant: what is left until the deadline may be less than the plan's
 * time.
 */
function least(limits: Limits, ceilings: Config['limits'], left_ms: number): Limits {
  const within = lowered(limits, ceilings)
  return { ...within, timeout_ms: Math.max(1, Math.min(within.timeout_ms, left_ms)) }
}

function lowered(limits: Limits, ceilings: Config['limits']): Limits {
  const names = Object.keys(ceilings) as (keyof Limits)[] // the keys of limits
  const least = names.map((name) => [
    name,
    Math.min(limits[name] ?? Number.POSITIVE_INFINITY, ceilings[name] ?? Number.POSITIVE_INFINITY),
  ])
  return { ...limits, ...Object.fromEntries(least.filter(([, value]) => value !== Number.POSITIVE_INFINITY)) }
}

type Unrun = Parameters<typeof unrun>[0]

/** The ends that nobody asked for: no call was cancelled. */
const INTERRUPTED = new Map<unknown, Unrun>([
  ['shutdown', { kind: 'infra', detail: 'the worker was stopped while the call ran' }],
  ['disowned', { kind: 'infra', detail: 'the edge knew this worker no more while the call ran' }],
] satisfies [StopReason, Unrun][])

const interrupted = ({ reason }: AbortSignal, outcome: Outcome): Outcome | undefined =>
  outcome.kind === 'cancelled' ? INTERRUPTED.get(reason) : undefined

/** Before anything of it ran. */
const stopped = ({ reason }: AbortSignal): Unrun => INTERRUPTED.get(reason) ?? { kind: 'cancelled' }
