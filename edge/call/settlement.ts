// Checks a worker's settlement against its grant, and writes the edge's own statements. Pure. The
// edge countersigns only what has passed `checkSettlement`.

import { canonical, digestOf, parseJson } from '../../shared/bytes/json.ts'
import { faultIn } from '../../shared/evidence/bundle.ts'
import { CHECK_NAMES } from '../../shared/evidence/checks.ts'
import { contradictions } from '../../shared/evidence/contradictions.ts'
import type { Envelope } from '../../shared/evidence/dsse.ts'
import { payloadBytes, signedByExactly } from '../../shared/evidence/dsse.ts'
import type { Execution, Facts, Grant } from '../../shared/evidence/statement.ts'
import {
  BY_EDGE,
  EDGE_EXECUTOR,
  endingOf,
  STATEMENT_TYPE,
  Statement,
  statementOf,
} from '../../shared/evidence/statement.ts'
import { isStreamOf } from '../../shared/evidence/usage-rules.ts'
import { failure } from '../../shared/failures.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Plan } from '../../shared/plan/plan.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { Settlement } from '../../shared/wire/workers.ts'
import { type AttestationRecord, type EndState, type FinishedExecution, NOT_CANCELLED } from './lifecycle.ts'
import type { StoredOutput } from './run.ts'

/** `until_ms`: when the worker replaced the key; absent for its present key. */
export type WorkerKey = { id: string; kid: string; x: string; until_ms?: number }
export type CheckedSettlement = {
  statement: Statement
  kept: StoredOutput
  ending: ReturnType<typeof endingOf>
}

/** The edge's record of the call that a worker settles. */
export type Expected = {
  readonly worker: WorkerKey
  readonly grant: Envelope
  readonly plan: Plan | null
  readonly cancelRequested: boolean
  readonly now_ms: number
}

export function checkSettlement(
  { envelope, output }: Settlement,
  { worker, grant: granted, plan, cancelRequested, now_ms }: Expected,
): Result<CheckedSettlement> {
  const refuse = (detail: string, at?: readonly string[]) =>
    err(
      failure(
        'attestation_invalid',
        detail,
        at?.slice(0, MAX_ERRORS).map((place) => ({ at: place, message: detail })),
      ),
    )
  if (!signedByExactly(envelope, STATEMENT_TYPE, new Map([[worker.kid, worker.x]])))
    return refuse('the statement is not signed by the worker alone')
  const bytes = payloadBytes(envelope)
  const parsed = parseJson(bytes)
  const read = Statement.safeParse(parsed.ok ? parsed.value : undefined)
  if (!read.success) return refuse('the payload is not a Countersign statement', [faultIn(read.error)])
  const statement = read.data
  if (canonical(statement) !== new TextDecoder().decode(bytes))
    return refuse('the payload is not in canonical form')

  const { execution } = statement.predicate
  if (execution.outcome === null || BY_EDGE.includes(execution.executor))
    return refuse('a worker has to name its own sandbox and an outcome', [
      '/predicate/execution/executor',
      '/predicate/execution/outcome',
    ])
  if (execution.outcome.kind === 'cancelled' && !cancelRequested)
    return refuse(NOT_CANCELLED, ['/predicate/execution/outcome'])
  if (execution.ended_at_ms > (worker.until_ms ?? Number.POSITIVE_INFINITY) + LIMITS.clock_slack_ms)
    return refuse('the statement is signed with a key that the worker had already replaced', [
      '/predicate/execution/ended_at_ms',
    ])
  const found = contradictions(statement, { grant: grantIn(granted), plan, now_ms })
  const [first] = found
  if (first !== undefined) {
    const detail = `the statement contradicts its grant at ${first.at}; this check failed: ${CHECK_NAMES[first.what]}`
    return refuse(
      detail,
      found.map(({ at }) => at),
    )
  }
  const kept = { stdout: Buffer.from(output.stdout, 'base64'), stderr: Buffer.from(output.stderr, 'base64') }
  if (!isStreamOf(execution.stdout, kept.stdout) || !isStreamOf(execution.stderr, kept.stderr))
    return refuse('the output does not match the statement', [
      '/predicate/execution/stdout',
      '/predicate/execution/stderr',
    ])
  return ok({ statement, kept, ending: endingOf(execution.outcome) })
}

const MAX_ERRORS = 16

/** The edge signed and stored this grant itself, so it is not checked again. */
const grantIn = (envelope: Envelope): Grant =>
  JSON.parse(Buffer.from(envelope.payload, 'base64').toString()) as Grant

/** The edge's statement about a call that nobody executed, or whose end nobody saw. */
export function edgeStatement(
  id: string,
  facts: Facts,
  { state, error, at }: { state: EndState; error: string | null; at: number },
  granted: Envelope | null,
): Statement {
  const grant = granted === null ? null : grantIn(granted)
  return statementOf({
    attestation_id: id,
    state,
    error,
    facts,
    grant:
      grant === null
        ? null
        : {
            sha256: digestOf(grant),
            worker: grant.worker,
            fence: grant.fence,
            deadline_ms: grant.deadline_ms,
          },
    execution: {
      outcome: null,
      stdout: null,
      stderr: null,
      connections: [],
      executor: EDGE_EXECUTOR,
      sandbox_enforcement: 'policy',
      profile_sha256: null,
      argv_sha256: null,
      started_at_ms: null,
      ended_at_ms: at,
    },
  })
}

/**
 * The edge's statement about a call that it executed itself, under its own grant. The edge signs none
 * that contradicts grant or plan; the error is the place of the contradiction.
 */
export function executedAtEdge(
  id: string,
  grant: Grant,
  plan: Plan,
  execution: Execution,
): Result<Statement, string> {
  const { facts, worker, fence, deadline_ms } = grant
  if (execution.outcome === null) throw new Error('a statement of an execution has no outcome')
  const statement = statementOf({
    attestation_id: id,
    ...endingOf(execution.outcome),
    facts,
    grant: { sha256: digestOf(grant), worker, fence, deadline_ms },
    execution,
  })
  const [fault] = contradictions(statement, { grant, plan })
  return fault === undefined ? ok(statement) : err(fault.at)
}

/** The part of a statement that the call record stores. */
export function finishedOf({ predicate }: Statement): {
  finished: FinishedExecution
  attestation: AttestationRecord
} {
  const { attestation_id, execution_sha256, execution } = predicate
  const { outcome, stdout, stderr, executor, sandbox_enforcement, cgroup } = execution
  return {
    finished: {
      exit_code: outcome?.kind === 'exit' ? outcome.code : null,
      truncated: (stdout?.truncated ?? false) || (stderr?.truncated ?? false),
      detail: outcome !== null && 'detail' in outcome ? outcome.detail : '',
      ...(execution.files === undefined ? {} : { files: execution.files }),
    },
    attestation: {
      id: attestation_id,
      execution_sha256,
      executor,
      sandbox_enforcement,
      ...(cgroup === undefined ? {} : { cgroup }),
    },
  }
}
