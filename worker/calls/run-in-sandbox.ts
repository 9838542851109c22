// Runs a verified call in the sandbox: prepares input files and folders, launches the plan as
// granted, collects output files, and assembles the execution that the statement reports, with
// times by the edge's clock (L9).

import type { Limits, Outcome, ProcessPlan as Plan } from '../../shared/plan/plan.ts'
import { err, ok, type Result } from '../../shared/result.ts'
import type { Config } from '../config.ts'
import { ownFolder, removeFolder } from '../host/owned-folders.ts'
import type { EdgeLink } from '../link/client.ts'
import { launch, type Sandbox } from '../sandbox/launch.ts'
import { SecretMask } from '../sandbox/streams/secret-mask.ts'
import { ServerCall } from '../upstreams/server-call.ts'
import { type ExecutionResult, notStarted } from './attestation.ts'
import { checkOutput } from './check-output.ts'
import type { CallInFlight, StopReason } from './in-flight.ts'
import { fetchInputFiles } from './input-files.ts'
import { collectOutputFiles } from './output-files.ts'
import type { CallOutput } from './output-stream.ts'
import type { NoFolder, RunFolders } from './run-folders.ts'
import type { VerifiedClaim } from './verify-grant.ts'

type Resources = {
  readonly link: EdgeLink
  readonly runFolders: RunFolders
  readonly sandbox: Sandbox
  readonly output: CallOutput
  /** This worker's own limits. */
  readonly ceilings: Config['limits']
}

/**
 * The part of the grant's time reserved for the settlement, after the files have been collected.
 */
const SETTLING_MS = 5_000

/** The sandbox refuses a tier that this host has not proven; it never downgrades (L8). */
export async function runInSandbox(
  verified: VerifiedClaim,
  inFlight: CallInFlight,
  resources: Resources,
): Promise<ExecutionResult> {
  const { grant, plan, args, argsText } = verified
  const { link, runFolders, output } = resources
  const stdin = stdinOf(plan, args, argsText)
  if (!stdin.ok)
    return notStarted({ kind: 'refused', code: 'invalid_input', detail: stdin.error }, link.clock.now())
  const { run } = grant.facts
  const runFolder =
    plan.workspace === 'run'
      ? await runFolders.enter(run, grant.folder, atMostCeilings(plan.limits, resources.ceilings))
      : ok(undefined)
  if (!runFolder.ok) return notStarted(noFolderEnding(runFolder.error), link.clock.now())
  try {
    return await runInFolder(runFolder.value, stdin.value, verified, inFlight, resources)
  } finally {
    output.end()
    if (runFolder.value !== undefined) runFolders.leave(run)
  }
}

async function runInFolder(
  runFolder: string | undefined,
  stdin: Buffer | undefined,
  { grant, plan, args, secrets }: VerifiedClaim,
  { stop: { signal }, cleanups }: CallInFlight,
  { link, runFolders, sandbox, output, ceilings }: Resources,
): Promise<ExecutionResult> {
  const { call } = grant.facts
  const root = sandbox.equipment.folder
  const inputs = await fetchInputFiles(plan.files, { call, link, root, signal })
  if (!inputs.ok) return notStarted(signal.aborted ? abortedBefore(signal) : inputs.error, link.clock.now())
  const folders = [inputs.value]
  try {
    const outputs = plan.outputs === undefined ? undefined : await ownFolder(root, 'output')
    folders.push(outputs)
    const limits = effectiveLimits(plan.limits, ceilings, grant.deadline_ms - link.clock.now())
    const started_at_ms = Math.max(grant.issued_at_ms, link.clock.now()) // L9
    const { mcp } = plan.executor
    const server =
      mcp === undefined ? undefined : new ServerCall(call, mcp, plan, args, new SecretMask(secrets))
    const { enforcement, cgroup, ...report } = await launch(sandbox, {
      plan: { ...plan, limits },
      stdin,
      converse: server?.converse,
      secrets,
      runFolder,
      inputs: inputs.value,
      outputs,
      signal,
      // A folder that can't be removed now is removed at the next start.
      leaving: (gone) => cleanups.push(gone.catch(() => undefined)),
      onSurvivors: () => runFolders.taint(grant.facts.run),
      onOutput: (chunk) => output.take(chunk.stream, chunk.bytes),
    })
    const ended_at_ms = Math.max(started_at_ms, link.clock.now())
    const hasOutputs =
      outputs !== undefined && report.outcome.kind !== 'infra' && report.outcome.kind !== 'refused'
    const until_ms = grant.deadline_ms - SETTLING_MS
    const files = hasOutputs
      ? await collectOutputFiles(outputs, { call, mask: new SecretMask(secrets), link, until_ms, signal })
      : undefined
    const streams = output.end()
    const outcome =
      server?.outcome(report.outcome, interruption(signal, report.outcome) === undefined) ??
      interruption(signal, report.outcome) ??
      checkOutput(report.outcome, plan, report.stdout, streams.stdout)
    const execution = {
      ...report,
      connections: [...report.connections],
      outcome,
      sandbox_enforcement: enforcement,
      limits,
      ...(files === undefined ? {} : { files }),
      ...(server?.exchange === undefined ? {} : { upstream: server.exchange }),
      // A cgroup that was not proven to the edge is not attested.
      ...(cgroup === undefined ? {} : { cgroup: cgroup && grant.proven?.cgroups !== false }),
      started_at_ms,
      ended_at_ms,
    }
    return { execution, ...streams }
  } finally {
    for (const folder of folders) if (folder !== undefined) cleanups.push(removeFolder(folder))
  }
}

const noFolderEnding = (why: NoFolder): NotStarted => {
  if (why === 'lost')
    return {
      kind: 'refused',
      code: 'workspace_lost',
      detail: 'this worker has removed the folder of the run; create a new run and start over there',
    }
  if (why === 'full') return { kind: 'refused', code: 'quota_exceeded', detail: NO_ROOM }
  return { kind: 'infra', detail: `the run’s folder can’t be created (${why.reason})` }
}

const NO_ROOM =
  'the disk of this worker has no room for the folder of another run; try again in a few minutes, or have its operator raise `runs_bytes` or lower `free_bytes`'

/**
 * Standard input by the plan: nothing, all arguments in the canonical form that the digest covers,
 * or the text of one argument.
 */
function stdinOf(
  { executor: { stdin } }: Plan,
  args: Record<string, unknown>,
  argsText: string,
): Result<Buffer | undefined, string> {
  if (stdin === 'none') return ok(undefined)
  if (stdin === 'args') return ok(Buffer.from(argsText))
  if (!Object.hasOwn(args, stdin.arg)) return ok(undefined) // an optional argument that was left out
  const text = args[stdin.arg]
  return typeof text === 'string'
    ? ok(Buffer.from(text))
    : err(`the argument \`${stdin.arg}\` must be a text, because it becomes standard input`)
}

/**
 * The plan's limits, lowered to this worker's ceilings and to the time left until the grant's
 * deadline.
 */
function effectiveLimits(limits: Limits, ceilings: Config['limits'], remaining_ms: number): Limits {
  const within = atMostCeilings(limits, ceilings)
  return { ...within, timeout_ms: Math.max(1, Math.min(within.timeout_ms, remaining_ms)) }
}

function atMostCeilings(limits: Limits, ceilings: Config['limits']): Limits {
  const names = Object.keys(ceilings) as (keyof Limits)[] // the keys of limits
  const lowered = names.map((name) => [
    name,
    Math.min(limits[name] ?? Number.POSITIVE_INFINITY, ceilings[name] ?? Number.POSITIVE_INFINITY),
  ])
  return {
    ...limits,
    ...Object.fromEntries(lowered.filter(([, value]) => value !== Number.POSITIVE_INFINITY)),
  }
}

type NotStarted = Parameters<typeof notStarted>[0]

/** Aborts that are not cancellations of the call. */
const INTERRUPTED = new Map<unknown, NotStarted>([
  ['shutdown', { kind: 'infra', detail: 'the worker was stopped while the call ran' }],
  ['disowned', { kind: 'infra', detail: 'the edge stopped accepting this worker while the call ran' }],
] satisfies [StopReason, NotStarted][])

const interruption = ({ reason }: AbortSignal, outcome: Outcome): Outcome | undefined =>
  outcome.kind === 'cancelled' ? INTERRUPTED.get(reason) : undefined

/** For a call that was aborted before its process started. */
export const abortedBefore = ({ reason }: AbortSignal): NotStarted =>
  INTERRUPTED.get(reason) ?? { kind: 'cancelled' }
