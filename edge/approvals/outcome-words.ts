// The outcome of an approval in the words of pages and channels. Pure.

import type { Approval } from '../../shared/wire/approvals.ts'

export const OUTCOME: Record<Approval['status'], string> = {
  pending: 'Your answer is recorded; more answers are needed',
  approved: 'Approved',
  denied: 'Denied',
  expired: 'Expired: not enough people answered in time',
  cancelled: 'Cancelled before it was decided',
}

/** The effect of an outcome on the call, in words. */
const AFTER: Record<Approval['status'], string> = {
  pending: 'The call waits until enough people have answered.',
  approved: 'Exactly this call may run once.',
  denied: 'The call will not run.',
  expired: 'The call will not run. The agent can ask again.',
  cancelled: 'The call will not run.',
}

/**
 * The effect on the call, and on similar calls if an answer is a standing approval.
 */
export function afterwards({ status, answers }: Approval): string {
  const wide =
    status === 'approved' && answers.some(({ decision, scope }) => decision === 'approve' && scope !== 'once')
  return wide
    ? 'This call may run once. Similar calls may run without asking until the answer expires or is revoked.'
    : AFTER[status]
}
