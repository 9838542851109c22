// Reduces an ended call when the tenant's retention rule no longer keeps its output or its arguments, to
// digests, decision, answers, times and state. Pure.

import type { Removal } from '../../shared/evidence/removal.ts'
import { type Failure, failure } from '../../shared/failures.ts'
import type { Approval } from '../../shared/wire/approvals.ts'
import { KEPT, type Keep, type Kept, removalText } from '../../shared/wire/retention.ts'
import type { ApprovalRecord, CallRecord } from './lifecycle.ts'

/** The kinds that a rule no longer keeps of runs whose last event was this long ago. */
export const expiredAfter = (keep: Keep, ms: number, dayMs: number): Kept[] =>
  KEPT.filter((kind) => {
    const days = keep[kind]
    return days !== null && ms >= days * dayMs
  })

/** The refusal to read what was removed; undefined if it is there. */
export function removalOf({ removed }: CallRecord, kind: Kept): Failure | undefined {
  const removal = removed?.[kind]
  return removal === undefined ? undefined : failure('removed', removalText(kind, removal))
}

/** The call without these kinds, of which it had the rest before. */
export function withoutExpired(
  record: CallRecord,
  kinds: readonly Kept[],
  removal: (kind: Kept) => Removal,
): CallRecord {
  const fresh = kinds.filter((kind) => record.removed?.[kind] === undefined)
  if (fresh.length === 0) return record
  const removed = {
    ...record.removed,
    ...Object.fromEntries(fresh.map((kind) => [kind, removal(kind)])),
  }
  return fresh.includes('arguments') ? { ...withoutArguments(record), removed } : { ...record, removed }
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
