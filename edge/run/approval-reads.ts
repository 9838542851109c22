// Reads of an approval: its card, the effect that a reader's approval would have, the full texts,
// the arguments to edit and the preview of an edit.

import { failure } from '../../shared/failures.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { Approval, Editable } from '../../shared/wire/approvals.ts'
import { editable, type Preview, wholeChangesOf } from '../approvals/argument-edits.ts'
import { type FullText, fullTexts, onYesOf } from '../approvals/card.ts'
import { refusalToAnswer, withAnswer } from '../call/lifecycle.ts'
import { removalOf } from '../call/removal.ts'
import { stillCounts } from '../decision/decide.ts'
import { byHumans, judgeAgain } from '../decision/proposal.ts'
import { directoryOf } from '../directory/directory.ts'
import { findApproval, type Responder, reviseCall, yesOf } from './approval-answers.ts'
import type { RunContext } from './context.ts'

const NO_OPERATOR = failure('forbidden', 'you are no longer an operator')

export function viewApproval(run: RunContext, n: number): Result<Approval> {
  const found = findApproval(run, n)
  return found.ok ? ok(found.value.approval) : found
}

/**
 * The approval for this operator, with the effect that approving through this channel would have
 * now.
 */
export async function viewApprovalFor(
  run: RunContext,
  n: number,
  reader: Responder,
): Promise<Result<Approval>> {
  const { row } = run
  if (row === undefined) return viewApproval(run, n)
  const directory = await directoryOf(run.env, row.record.tenant)
  const found = findApproval(run, n)
  const operator = directory.operators.get(reader.by)
  if (!found.ok) return found
  const { record, approval } = found.value
  if (approval.status !== 'pending' || operator === undefined) return ok(approval)
  const yes = yesOf(reader, operator.since)
  if (!stillCounts(directory, yes)) return ok(approval)
  const answers = withAnswer(record.status.approval?.answers ?? [], yes)
  const facts = run.usage.decisionFacts(directory, row, record, answers, null)
  const { decision } = judgeAgain(directory, row, record, facts, 'operator')
  return ok({ ...approval, prompt: { ...approval.prompt, on_yes: onYesOf(decision, byHumans(decision)) } })
}

/** The full texts of everything that the card of an approval shortens. */
export async function readFullTexts(run: RunContext, n: number): Promise<Result<FullText[]>> {
  const found = findApproval(run, n)
  if (!found.ok) return found
  const { row, record, approval } = found.value
  const removed = removalOf(record, 'arguments')
  if (removed !== undefined) return err(removed)
  const { redaction } = await directoryOf(run.env, row.record.tenant)
  return ok(fullTexts(approval.prompt, record.proposal.args, record.proposal.plan, redaction))
}

/** The arguments as an operator edits them, with secrets hidden. */
export async function readEditable(run: RunContext, n: number): Promise<Result<Editable>> {
  const found = findApproval(run, n)
  if (!found.ok) return found
  const removed = removalOf(found.value.record, 'arguments')
  if (removed !== undefined) return err(removed)
  const { digest, args } = found.value.record.proposal
  const { redaction } = await directoryOf(run.env, found.value.row.record.tenant)
  return ok({ digest, arguments: editable(args, redaction) })
}

/** The result if this operator approved edited arguments. Records nothing. */
export async function previewEdit(
  run: RunContext,
  n: number,
  responder: Responder,
  args: Record<string, unknown>,
): Promise<Result<Preview>> {
  const known = findApproval(run, n)
  if (!known.ok) return known
  const directory = await directoryOf(run.env, known.value.row.record.tenant)
  const operator = directory.operators.get(responder.by)
  if (operator === undefined) return err(NO_OPERATOR)
  const found = findApproval(run, n)
  if (!found.ok) return found
  const { record } = found.value
  if (record.status.state !== 'awaiting_approval') return err(refusalToAnswer(record.status))
  const question = { run, directory, reservation: null, ...found.value }
  const revised = reviseCall(question, yesOf(responder, operator.since), args)
  if (!revised.ok) return revised
  const { permitted, revision } = revised.value
  const { changes, more, prompt, proposal } = revision
  const effect = permitted.effect === 'allow' ? 'allow' : 'ask'
  const { redaction } = directory
  const preview = {
    digest: record.proposal.digest,
    becomes: proposal.digest,
    changes,
    more,
    effect,
    prompt,
  } as const
  const whole = {
    changes: wholeChangesOf(record.proposal.args, proposal.args, redaction),
    texts: fullTexts(prompt, proposal.args, proposal.plan, redaction),
  }
  return ok({ preview, whole })
}
