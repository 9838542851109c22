// The decision of record: the decision that a call's record, grant and attestation name after
// policy was evaluated again. Pure.

import type { Decision } from '../../shared/wire/calls.ts'

/** After approval: the policies that asked, and those that permit the call with the answers. */
export const approvedDecision = ({ explanation: _, ...asked }: Decision, permitted: Decision): Decision => ({
  ...asked,
  policies: [...new Set([...asked.policies, ...permitted.policies])],
  policy_set: permitted.policy_set,
  snapshot: permitted.snapshot,
})

/**
 * At a claim: for an approved call, the approval and the current policy together; otherwise the
 * current decision.
 */
export const decisionAtClaim = (before: Decision, now: Decision): Decision =>
  before.effect === 'ask' ? approvedDecision(before, now) : now
