// Answers an approval, or revokes its links. The current policy judges the answer, which is one
// event of the call. The session then stores a standing answer.

import { failure } from '../../../shared/failures.ts'
import type { Result } from '../../../shared/result.ts'
import { err, ok } from '../../../shared/result.ts'
import type { Answer, Approval } from '../../../shared/wire/approvals.ts'
import { isRevoked } from '../../approvals/link.ts'
import type { CallRecord, RecordedAnswer } from '../../call/lifecycle.ts'
import type { RunRecord } from '../../call/run.ts'
import { directoryAt, directoryOf } from '../../directory/directory.ts'
import type { LoadedDirectory } from '../../directory/loaded-directory.ts'
import { answeredBy, findApproval, judgeAnswer, type Responder } from '../approval-answers.ts'
import { viewApproval } from '../approval-reads.ts'
import type { RunContext } from '../context.ts'
import { keepStandingAnswer } from '../standing-answers.ts'
import type { RunTransaction } from '../transaction.ts'
import type { UsageReservation } from '../usage-ledger.ts'

const NO_APPROVAL = failure('not_found', 'no such approval')
const NO_OPERATOR = failure('forbidden', 'you are no longer an operator')

/**
 * `version`: the version of the directory that identified the caller, if any; the run uses this one
 * or a newer one.
 */
export async function answerApproval(
  run: RunContext,
  n: number,
  responder: Responder,
  answer: Answer,
  version: number | null,
): Promise<Result<Approval>> {
  const facts = await lookUpAnswer(run, n, responder, version)
  if (!facts.ok) return facts
  const answered = await run.transact((tx) => commitAnswer(run, tx, n, facts.value, responder, answer))
  if (!answered.ok) return answered
  const { record, given } = answered.value
  const { run: owner, directory } = facts.value
  const kept = await keepStandingAnswer(run.env, owner, record, given, directory.policies.digest)
  return kept.ok ? viewApproval(run, n) : kept
}

/**
 * Facts from other objects: the directory with its operators (P09), and the session's usage.
 */
type AnswerFacts = {
  readonly run: RunRecord
  readonly directory: LoadedDirectory
  readonly since_ms: number
  readonly reservation: UsageReservation | null
}

async function lookUpAnswer(
  { env, row, usage }: RunContext,
  n: number,
  { by }: Responder,
  version: number | null,
): Promise<Result<AnswerFacts>> {
  if (row === undefined) return err(NO_APPROVAL)
  const { record } = row
  const directory = await (version === null
    ? directoryOf(env, record.tenant)
    : directoryAt(env, record.tenant, version))
  const operator = directory.operators.get(by)
  if (operator === undefined) return err(NO_OPERATOR)
  const reservation = await usage.reserveForCall(directory, record, n)
  return ok({ run: record, directory, since_ms: operator.since, reservation })
}

function commitAnswer(
  run: RunContext,
  tx: RunTransaction,
  n: number,
  { directory, since_ms, reservation }: AnswerFacts,
  responder: Responder,
  answer: Answer,
): Result<{ record: CallRecord; given: RecordedAnswer }> {
  const found = findApproval(run, n)
  if (!found.ok) return found
  const given = answeredBy(directory, responder, since_ms, answer)
  const judged = judgeAnswer({ run, directory, reservation, ...found.value }, given, answer)
  if (!judged.ok) return judged
  const { event, snapshot } = judged.value
  const answered = tx.apply(found.value.record, event)
  if (!answered.ok) return answered
  if (snapshot !== null) tx.keepSnapshot(snapshot) // only for the recorded decision
  return ok({ record: answered.value, given })
}

/**
 * Revokes the links of one operator, or of all if `of` is null. The approval still waits. A
 * repetition changes nothing.
 */
export async function revokeLinks(
  run: RunContext,
  n: number,
  by: string,
  of: string | null,
): Promise<Result<Approval>> {
  const revoked = await run.transact((tx): Result<unknown> => {
    const found = findApproval(run, n)
    if (!found.ok) return found
    const { record, approval } = found.value
    const isDone = approval.links_revoked === 'all' || (of !== null && isRevoked(approval, of))
    return isDone ? found : tx.apply(record, { kind: 'links_revoked', by, of })
  })
  return revoked.ok ? viewApproval(run, n) : revoked
}
