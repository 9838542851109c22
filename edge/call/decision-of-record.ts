// What a call was granted under, once policy has been asked again: what its record, its grant and its attestation say of the decision.
// Pure; it decides nothing.

import type { Decision } from '../../shared/wire/calls.ts'

/** An answered question names who asked and who, with the answers, permits. */
export const answered = ({ explanation: _, ...asked }: Decision, permitted: Decision): Decision => ({
  ...asked,
  policies: [...new Set([...asked.policies, ...permitted.policies])],
  policy_set: permitted.policy_set,
  snapshot: permitted.snapshot,
})

/** What a claim is granted under: of a question the answers stay, and all else is the policy of now. */
export const claimedUnder = (before: Decision, now: Decision): Decision =>
  before.effect === 'ask' ? answered(before, now) : now
