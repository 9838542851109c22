// Reduces an ended call when the tenant's retention rule no longer keeps its output, its arguments or its
// evidence. A call without its evidence is a tombstone: it keeps digests, state and times, and what usage
// and repeated proposals need. Pure.

import type { Removal } from '../../shared/evidence/removal.ts'
import { type Failure, failure } from '../../shared/failures.ts'
import type { Approval } from '../../shared/wire/approvals.ts'
import { KEPT, type Keep, type Kept, type Removed, removalText } from '../../shared/wire/retention.ts'
import type { ApprovalRecord, CallRecord } from './lifecycle.ts'
import { settledByStanding } from './usage.ts'

/** The kinds that a rule no longer keeps of runs whose last event was this long ago. */
export const expiredAfter = (keep: Keep, ms: number, dayMs: number): Kept[] =>
  KEPT.filter((kind) => {
    const days = keep[kind]
    return days !== null && ms >= days * dayMs
  })

/** The refusal to read what was removed; undefined if it is there. */
export function removalOf({ removed }: CallRecord, kind: Kept): Failure | undefined {
  const removal: Removal | undefined = removed?.[kind]
  return removal === undefined ? undefined : failure('removed', removalText(kind, removal))
}

/** The call without the kinds that `expired` names. It keeps the date and the rule of earlier removals. */
export function withoutExpired(record: CallRecord, expired: Removed): CallRecord {
  const isFresh = (kind: Kept) => expired[kind] !== undefined && record.removed?.[kind] === undefined
  if (!KEPT.some(isFresh)) return record
  const removed = { ...expired, ...record.removed }
  const reduced = isFresh('arguments') ? withoutArguments(record) : record
  return { ...(isFresh('evidence') ? withoutEvidence(reduced) : reduced), removed }
}

/** Without what shows arguments: the plan, the card, edits, and what would change the decision. */
function withoutArguments({ proposal, status }: CallRecord): CallRecord {
  const { files: _files, ...rest } = proposal
  const { explanation: _explanation, ...decision } = status.decision
  const { approval } = status
  return {
    proposal: { ...rest, args: {}, plan: null },
    status: { ...status, decision, approval: approval === null ? null : bare(approval) } as typeof status, // only their texts differ
  }
}

function bare({ edits: _edits, prompt, ...approval }: ApprovalRecord): ApprovalRecord {
  const { standing: _standing, files: _files, risk_ground: _ground, ...shown } = prompt
  const blank: Approval['prompt'] = { ...shown, command: '', plan: '', arguments: '' }
  return { ...approval, prompt: blank }
}

/** Without who asked and who answered, the policies, their reasons, and the facts of the execution. */
function withoutEvidence({ proposal, status }: CallRecord): CallRecord {
  const { n, tool, args, plan, digest, argsSha256, planSha256, idempotent, pool, createdAt, spent } = proposal
  const { approval } = status
  return {
    proposal: {
      n,
      tool,
      args,
      plan,
      digest,
      argsSha256,
      planSha256,
      idempotent,
      pool,
      createdAt,
      ...(spent === undefined ? {} : { spent }),
    },
    status: {
      ...status,
      decision: { ...status.decision, policies: [], reason: '' },
      approval: approval === null ? null : asCounted(approval),
      detail: null,
      finished: null,
    } as typeof status, // it has ended, so it has these members
  }
}

/** The usage of the run still counts whether people were asked. Nobody reads the rest of it. */
function asCounted(approval: ApprovalRecord): ApprovalRecord {
  const { id, requestedAt, expiresAt } = approval
  const prompt = {} as Approval['prompt'] // reads of it are refused
  const counted = { id, prompt, requestedAt, expiresAt, answers: [] }
  return settledByStanding(approval) ? { ...counted, enough: true } : counted
}
