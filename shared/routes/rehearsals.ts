// Trying a policy set before it is active: a rehearsal decides past calls again, a shadow is
// evaluated next to the active set for each new call. Neither affects a call.

import { z } from 'zod'
import { CallId } from '../fields.ts'
import { LIMITS } from '../limits.ts'
import { Decision } from '../wire/calls.ts'
import { versioned, Warnings } from './policies.ts'
import { routes } from './route.ts'

/** `ask_more`: humans have answered, but their answers do not suffice. */
const Effect = z.enum(['allow', 'ask', 'ask_more', 'deny'])
export type RehearsedEffect = z.infer<typeof Effect>

/**
 * `from`: the decision at the time. `now`: the active set's decision today. `to`: this version's
 * decision today.
 */
const flipKind = { from: Effect, now: Effect, to: Effect }

const Flip = z.strictObject({
  call: CallId,
  agent: z.string(),
  tool: z.string(),
  /** When the call ended. */
  at_ms: z.int(),
  ...flipKind,
  /** The policies that determined this version's decision. */
  policies: z.array(z.string()),
  reason: z.string(),
})

const Rehearsal = z.strictObject({
  version: z.int(),
  /** The active version, whose decisions are `now`. */
  against: z.int(),
  since_ms: z.int(),
  looked_at: z.int(),
  /** Whether these were all calls that ended since `since_ms`. */
  complete: z.boolean(),
  /** Whether the rehearsal ran out of time before it had decided the requested number of calls. */
  out_of_time: z.boolean(),
  /**
   * The number of flips of each kind. If `now` equals `to`, the flip is not due to this version.
   */
  summary: z.array(z.strictObject({ ...flipKind, count: z.int() })),
  /** Latest first and possibly cut off; `summary` counts all. */
  flips: z.array(Flip),
  unrehearsable: z.array(z.strictObject({ reason: z.string(), count: z.int() })),
  /** The number of calls that would ask humans, under the active set and under this version. */
  approvals: z.strictObject({ now: z.int(), to: z.int() }),
  /** The same per day; `null` if the calls span less than a day. */
  approvals_per_day: z.strictObject({ now: z.number(), to: z.number() }).nullable(),
})
export type Rehearsal = z.infer<typeof Rehearsal>

const DecidedEffect = Decision.shape.effect
const ShadowCount = z.strictObject({ from: DecidedEffect, to: DecidedEffect, count: z.int() })
export type ShadowCount = z.infer<typeof ShadowCount>
const ShadowDifference = z.strictObject({
  call: CallId,
  agent: z.string(),
  tool: z.string(),
  at_ms: z.int(),
  from: DecidedEffect,
  to: DecidedEffect,
})
export type ShadowDifference = z.infer<typeof ShadowDifference>

const Shadowing = z.strictObject({
  /** `null` if no version shadows the active one. */
  version: z.int().nullable(),
  since_ms: z.int().nullable(),
  by: z.string().nullable(),
  /** Calls that were proposed since then and have ended. */
  calls: z.int(),
  differ: z.int(),
  /** `from`: the actual decision. `to`: the shadow's. */
  counts: z.array(ShadowCount),
  /** The latest differences; the journal of each run names the policies. */
  latest: z.array(ShadowDifference),
})

export const REHEARSALS = routes({
  readPolicyShadow: {
    method: 'GET',
    path: '/v1/policies/shadow',
    callers: ['operator'],
    action: 'policy.read',
    summary:
      'Read which version shadows the active one, and how it would have decided the calls that have ended since',
    status: 200,
    result: Shadowing,
    failures: [],
  },
  putPolicyShadow: {
    method: 'PUT',
    path: '/v1/policies/shadow',
    callers: ['operator'],
    action: 'policy.shadow',
    summary:
      'Shadow: evaluate a version for each proposed call next to the active one, which alone decides; `null` ends that. A different version restarts the counts',
    body: z.strictObject({ version: z.int().min(1).max(1e9).nullable() }),
    status: 200,
    result: z.strictObject({ ...Shadowing.shape, warnings: Warnings }),
    failures: ['not_found', 'invalid_policy', 'conflict', 'limit_reached'],
  },
  rehearsePolicyVersion: {
    method: 'POST',
    path: '/v1/policies/versions/{version}/rehearse',
    callers: ['operator'],
    action: 'policy.rehearse',
    params: versioned,
    summary:
      'Rehearse: decide the calls that ended in the last `days` again under a version, latest first; nothing is stored or enforced, and nobody is asked',
    body: z.strictObject({
      days: z.int().min(1).max(LIMITS.rehearsal_days).default(7),
      limit: z.int().min(1).max(LIMITS.rehearsal_calls).default(1_000),
    }),
    status: 200,
    result: Rehearsal,
    failures: ['not_found', 'invalid_policy', 'conflict'],
  },
})
