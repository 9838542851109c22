// The outcomes of approvals in the words that pages and channels show. Pure.

import type { Approval } from '../../shared/wire/approvals.ts'

export const OUTCOME: Record<Approval['status'], string> = {
  pending: 'Your answer is recorded; others are still asked',
  approved: 'Approved',
  denied: 'Denied',
  expired: 'Expired: not enough people answered in time',
  cancelled: 'Cancelled before it was decided',
}

/** The consequence of an outcome for the call. */
const AFTER: Record<Approval['status'], string> = {
  pending: 'The call waits until enough people have answered.',
  approved: 'Exactly this call may run, once.',
  denied: 'The call will not run.',
  expired: 'The call will not run. The agent can ask again.',
  cancelled: 'The call will not run.',
}

/** The consequence of an approval's outcome. A standing yes also lets further calls run. */
export function afterwards({ status, answers }: Approval): string {
  const wide =
    status === 'approved' && answers.some(({ decision, scope }) => decision === 'approve' && scope !== 'once')
  return wide
    ? 'This call may run, once. Further ones of its kind may run without a question, while the answer stands.'
    : AFTER[status]
}
