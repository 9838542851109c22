// Checks one answer to an approval: may this operator give it, does it name the current call, and
// what does the current policy decide with it. The result is one event, which a transaction
// applies.

import type { Failure } from '../../shared/failures.ts'
import { failure } from '../../shared/failures.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { Answer, Approval } from '../../shared/wire/approvals.ts'
import type { Decision } from '../../shared/wire/calls.ts'
import { assuranceOf, STRONGEST_CHANNEL } from '../approvals/assurance.ts'
import { isRevoked } from '../approvals/link.ts'
import { mayStand } from '../approvals/standing.ts'
import type { CallRecord, Event, RecordedAnswer } from '../call/lifecycle.ts'
import { withAnswer } from '../call/lifecycle.ts'
import { removalOf } from '../call/removal.ts'
import type { RunRow } from '../call/run.ts'
import { judgeAgain } from '../decision/proposal.ts'
import { type Revision, revise } from '../decision/revision.ts'
import type { Snapshot } from '../decision/snapshot.ts'
import type { LoadedDirectory } from '../directory/loaded-directory.ts'
import { escapeConfusables } from '../platform/visible-text.ts'
import type { RunContext } from './context.ts'
import type { UsageReservation } from './usage-ledger.ts'
import { approvalView } from './views.ts'

/** The operator who answers, and through which channel. */
export type Responder = { readonly by: string; readonly channel: string }

/** A stored call with an approval, and the facts to decide it again. */
export type Question = {
  readonly run: RunContext
  readonly directory: LoadedDirectory
  readonly row: RunRow
  readonly record: CallRecord
  readonly approval: Approval
  readonly reservation: UsageReservation | null
}
/** The event of an answer, and the policy snapshot to store with it. */
export type AnswerEvent = { readonly event: Event; readonly snapshot: Snapshot | null }

const NO_APPROVAL = failure('not_found', 'no such approval')
const REVOKED = failure('link_revoked', 'the link was revoked')
const OUTDATED = failure(
  'outdated',
  'the call has changed since it was shown to you; read it again before you answer',
)
const ONCE_ONLY = failure(
  'once_only',
  'policy does not let this approval cover further calls, or not for this long; nothing was recorded: answer for this call only, or for less time',
)
const STANDS_FOR_NONE = failure(
  'once_only',
  'the call brings files, runs a program outside of the system’s folders (`/usr`, `/opt`), or runs an interpreter in the folder of its run; other calls can change these, so the answer can’t cover further calls; nothing was recorded',
)
const SURER_ONLY = failure(
  'surer_only',
  'policy accepts an approval of this call only in the console or on the command line; nothing was recorded',
)

export function findApproval(
  { row, store }: RunContext,
  n: number,
): Result<{ row: RunRow; record: CallRecord; approval: Approval }> {
  const record = store.call(n)
  const removed = record?.status.approval == null ? undefined : removalOf(record, 'evidence')
  if (removed !== undefined) return err(removed)
  const approval = row === undefined || record === undefined ? undefined : approvalView(row.record, record)
  return row === undefined || record === undefined || approval === undefined
    ? err(NO_APPROVAL)
    : ok({ row, record, approval })
}

/** An approval by this operator of this call only. */
export const yesOf = ({ by, channel }: Responder, since_ms: number): RecordedAnswer => ({
  by,
  since_ms,
  decision: 'approve',
  channel,
  scope: 'once',
  reason: '',
  at_ms: Date.now(),
})

/**
 * The answer to record. Agents, journals and channels show the recorded reason, so secrets are
 * masked here.
 */
export function answeredBy(
  directory: LoadedDirectory,
  responder: Responder,
  since_ms: number,
  answer: Answer,
): RecordedAnswer {
  const { decision, scope, ttl_s } = answer
  const reason = escapeConfusables(String(directory.redaction.of(answer.reason)))
  return { ...yesOf(responder, since_ms), decision, scope, reason, ...(ttl_s === undefined ? {} : { ttl_s }) }
}

/**
 * The checks of an answer, in order. If the call waits for no answer, the lifecycle refuses the
 * event.
 */
export function judgeAnswer(question: Question, given: RecordedAnswer, answer: Answer): Result<AnswerEvent> {
  const { status } = question.record
  if (status.state !== 'awaiting_approval')
    return ok({ event: { kind: 'answered', answer: given, decision: status.decision }, snapshot: null })
  const refusal = refusalOf(question, given, answer)
  if (refusal !== undefined) return err(refusal)
  return answer.arguments === undefined
    ? judgeYesOrNo(question, given)
    : judgeEdit(question, given, answer, answer.arguments)
}

function refusalOf(
  { record, approval }: Question,
  given: RecordedAnswer,
  answer: Answer,
): Failure | undefined {
  const { plan } = record.proposal
  if (given.scope !== 'once' && plan !== null && !mayStand(plan)) return STANDS_FOR_NONE
  if (given.channel === 'link' && isRevoked(approval, given.by)) return REVOKED
  return meansThisCall(record, given, answer) ? undefined : OUTDATED
}

/**
 * L3: an answer may name the digest that it is for. An approval must name it once an operator has
 * changed the arguments.
 */
function meansThisCall(
  { proposal, status }: CallRecord,
  { decision }: RecordedAnswer,
  { digest }: Answer,
): boolean {
  const isEdited = (status.approval?.edits ?? []).length > 0
  return digest === undefined ? decision === 'deny' || !isEdited : digest === proposal.digest
}

function judgeYesOrNo(question: Question, given: RecordedAnswer): Result<AnswerEvent> {
  const { decision, snapshot } = decideWith(question, given)
  const refusal =
    given.decision === 'approve' && decision.effect === 'deny' ? otherYesOf(question, given) : undefined
  return refusal === undefined
    ? ok({ event: { kind: 'answered', answer: given, decision }, snapshot })
    : err(refusal)
}

/** The current policy's decision with this answer and the earlier ones. */
function decideWith({ run, directory, row, record, reservation }: Question, answer: RecordedAnswer) {
  const answers = withAnswer(record.status.approval?.answers ?? [], answer)
  return judgeAgain(
    directory,
    row,
    record,
    run.usage.decisionFacts(directory, row, record, answers, reservation),
  )
}

/**
 * Called if policy denies the call with this approval, which would end the call. If policy accepts
 * another approval of the same operator, for this call only or from the console, this one is
 * refused instead, and the refusal says which one to give.
 */
function otherYesOf(question: Question, given: RecordedAnswer): Failure | undefined {
  const isTaken = (answer: RecordedAnswer): boolean => decideWith(question, answer).decision.effect !== 'deny'
  const once: RecordedAnswer = { ...given, scope: 'once' }
  if (given.scope !== 'once' && isTaken(once)) return ONCE_ONLY
  if (assuranceOf(given.channel) === assuranceOf(STRONGEST_CHANNEL)) return undefined
  const surer: RecordedAnswer = { ...given, channel: STRONGEST_CHANNEL }
  return isTaken(surer) || isTaken({ ...surer, scope: 'once' }) ? SURER_ONLY : undefined
}

type Arguments = Record<string, unknown>

/**
 * An approval of changed arguments. If policy denies these, the answer is refused and the approval
 * does not change.
 */
function judgeEdit(
  question: Question,
  given: RecordedAnswer,
  answer: Answer,
  args: Arguments,
): Result<AnswerEvent> {
  const revised = reviseCall(question, given, args)
  if (!revised.ok) return revised
  const { permitted, revision } = revised.value
  if (answer.becomes !== undefined && answer.becomes !== revision.proposal.digest) return err(OUTDATED)
  const { snapshot, changes, more, ...rest } = revision
  const { by, channel, at_ms } = given
  const edit = { by, channel, at_ms, from: question.record.proposal.digest, changes, more }
  return ok({ event: { kind: 'edited', answer: given, revised: rest, edit, permitted }, snapshot })
}

/** The call with changed arguments, and its decision with this answer. */
export function reviseCall(
  { run, directory, row, record, reservation }: Question,
  given: RecordedAnswer,
  args: Arguments,
): Result<{ revision: Revision; permitted: Decision }> {
  const before = run.usage.decisionFacts(directory, row, record, [], reservation)
  const revised = revise(directory, row, record, { args, channel: given.channel }, before)
  if (!revised.ok) return revised
  const { proposal, decision } = revised.value
  const changed: CallRecord = { proposal, status: { ...record.status, decision } }
  const facts = run.usage.decisionFacts(directory, row, changed, [given], reservation)
  const { decision: permitted } = judgeAgain(directory, row, changed, facts)
  return permitted.effect === 'deny'
    ? err(failure('denied', `policy denies the changed call: ${permitted.reason}`))
    : ok({ revision: revised.value, permitted })
}
