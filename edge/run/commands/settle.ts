// Settles a running call with a signed statement of its end. A worker's statement is checked
// against the grant and countersigned; a skill's is the edge's own. `attest` stores either, in the
// transaction that ends the call (L5).

import { canonical } from '../../../shared/bytes/json.ts'
import type { Envelope } from '../../../shared/evidence/dsse.ts'
import { countersign } from '../../../shared/evidence/dsse.ts'
import type { CallState, Statement } from '../../../shared/evidence/statement.ts'
import { endingOf } from '../../../shared/evidence/statement.ts'
import { failure } from '../../../shared/failures.ts'
import type { OutputFiles } from '../../../shared/plan/call-files.ts'
import { isEdgePlan, mcpRequestOf } from '../../../shared/plan/plan.ts'
import type { Result } from '../../../shared/result.ts'
import { err, ok } from '../../../shared/result.ts'
import type { Settlement } from '../../../shared/wire/workers.ts'
import { identityOf, tenantUpstreams } from '../../bindings.ts'
import type { CallRecord, Running } from '../../call/lifecycle.ts'
import { hasEnded } from '../../call/lifecycle.ts'
import type { StoredOutput } from '../../call/run.ts'
import type { WorkerKey } from '../../call/settlement.ts'
import { checkSettlement, finishedOf } from '../../call/settlement.ts'
import type { RunContext } from '../context.ts'
import type { RunTransaction } from '../transaction.ts'

type Settled = { readonly state: CallState; readonly attestation: Envelope }
/** The executor of a call, and its claim. */
type Holder = { readonly worker: string; readonly fence: number }
/** A signed statement, and the output that it names. */
type SignedEnding = {
  readonly statement: Statement
  readonly envelope: Envelope
  readonly output: StoredOutput
}

const NO_CALL = failure('stale_fence', 'no such call')
const OTHER_FILES = failure('attestation_invalid', 'the statement names files that the worker did not upload')

/** A repeated settlement receives its first answer. */
export async function settleForWorker(
  run: RunContext,
  n: number,
  worker: WorkerKey,
  settlement: Settlement,
): Promise<Result<Settled>> {
  const settled = await run.transact((tx): Result<Settled> => {
    const record = run.store.call(n)
    if (record === undefined) return err(NO_CALL)
    const earlier = earlierSettlement(run, record, settlement)
    if (earlier !== undefined) return ok(earlier)
    const running = heldBy(record, { worker: worker.id, fence: settlement.fence })
    if (!running.ok) return running
    const { grant, cancelRequested } = running.value
    const expected = { worker, grant, plan: record.proposal.plan, cancelRequested, now_ms: Date.now() }
    const checked = checkSettlement(settlement, expected)
    if (!checked.ok) return checked
    const { statement, kept: output, ending } = checked.value
    const files = nameOutputFiles(run, tx, record, statement.predicate.execution.files)
    if (!files.ok) return files
    const envelope = countersign(settlement.envelope, identityOf(run.env).signer)
    const done = attest(tx, record, running.value, { statement, envelope, output })
    return done.ok ? ok({ state: ending.state, attestation: envelope }) : done
  })
  if (settled.ok && settled.value.state === 'failed') reportChangedTool(run, n)
  return settled
}

/**
 * Quarantines a tool of which the worker found another definition. If the report is lost, the next
 * worker compares again and refuses the call as well (U01).
 */
function reportChangedTool(run: RunContext, n: number): void {
  const record = run.store.call(n)
  const request = mcpRequestOf(record?.proposal.plan)
  if (run.row === undefined || request?.method !== 'tools/call') return
  if (record?.status.state !== 'failed' || record.status.error !== 'tool_changed') return
  const upstreams = tenantUpstreams(run.env, run.row.record.tenant)
  run.waitUntil(upstreams.differed(request.upstream, request.tool, request.definition).catch(() => undefined))
}

/**
 * Ends the call with a signed statement of a worker or of the edge. Its output replaces the
 * streamed one.
 */
export function attest(
  tx: RunTransaction,
  record: CallRecord,
  { worker, fence, grant }: Running,
  { statement, envelope, output }: SignedEnding,
): Result<CallRecord> {
  const { n } = record.proposal
  const { outcome } = statement.predicate.execution
  if (outcome === null) throw new Error('a statement of an execution has no outcome')
  const refused = outcome.kind === 'refused'
  const ended = tx.apply(record, {
    kind: 'settled',
    worker,
    fence,
    ...endingOf(outcome),
    refused,
    ...finishedOf(statement),
  })
  if (!ended.ok) return ended
  tx.saveAttestation(n, envelope, grant)
  tx.replaceOutput(n, output)
  return ended
}

/** The call, if it still runs under this claim (Q05). */
export function heldBy({ status }: CallRecord, { worker, fence }: Holder): Result<Running> {
  return status.state === 'running' && status.worker === worker && status.fence === fence
    ? ok(status)
    : err(failure('stale_fence', `the call is ${status.state}`))
}

/** The first answer to the same settlement, if it was settled before. */
function earlierSettlement(
  run: RunContext,
  { proposal, status }: CallRecord,
  { envelope }: Settlement,
): Settled | undefined {
  const stored = run.store.attestation(proposal.n)
  if (!hasEnded(status) || stored?.envelope.payload !== envelope.payload) return undefined
  return { state: status.state, attestation: stored.envelope }
}

/** Whether the plan lets the call leave files in `/output`. */
export const keepsOutputFiles = ({ proposal: { plan } }: CallRecord): boolean =>
  plan !== null && !isEdgePlan(plan) && plan.outputs === true

/**
 * Whether the plan lets the call keep files, and each file of the statement was put byte for byte.
 */
function nameOutputFiles(
  run: RunContext,
  tx: RunTransaction,
  record: CallRecord,
  named: OutputFiles | undefined,
): Result<true> {
  if (named === undefined) return ok(true)
  const stored = run.store.files.sized(named.files)
  if (!keepsOutputFiles(record) || !stored.ok || canonical(stored.value) !== canonical(named.files))
    return err(OTHER_FILES)
  tx.nameFiles(named.files)
  return ok(true)
}
