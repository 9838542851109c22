// What a set of policies would do before it is in force: rehearsed on calls that were, or shadowing calls as they come. Neither decides
// anything.

import { z } from 'zod'
import { CallId } from '../fields.ts'
import { LIMITS } from '../limits.ts'
import { Decision } from '../wire/calls.ts'
import { versioned, Warnings } from './policies.ts'
import { routes } from './route.ts'

/** `ask_more`: humans were asked, and what they answered does not suffice. */
const Effect = z.enum(['allow', 'ask', 'ask_more', 'deny'])
export type RehearsedEffect = z.infer<typeof Effect>

/** `from`: what was decided then. `now`: what the set in force says of the same today. `to`: what this version says. */
const kind = { from: Effect, now: Effect, to: Effect }

const Flip = z.strictObject({
  call: CallId,
  agent: z.string(),
  tool: z.string(),
  /** When the call ended. */
  at_ms: z.int(),
  ...kind,
  /** Of this version: what determined its answer. */
  policies: z.array(z.string()),
  reason: z.string(),
})

const Rehearsal = z.strictObject({
  version: z.int(),
  /** The version in force, which `now` is of. */
  against: z.int(),
  since_ms: z.int(),
  looked_at: z.int(),
  /** Whether that was every call that ended since. */
  complete: z.boolean(),
  /** Whether it was time that ended it, before as many calls were looked at as were asked for. */
  out_of_time: z.boolean(),
  /** Each kind of flip with its number; where `now` and `to` are the same, the version is not what flips it. */
  summary: z.array(z.strictObject({ ...kind, count: z.int() })),
  /** The latest first; `summary` counts them all. */
  flips: z.array(Flip),
  unrehearsable: z.array(z.strictObject({ reason: z.string(), count: z.int() })),
  /** Calls about which humans would be asked, by the set in force and by this version. */
  approvals: z.strictObject({ now: z.int(), to: z.int() }),
  /** The same by the day; `null` where what was looked at reaches back less than one. */
  approvals_per_day: z.strictObject({ now: z.number(), to: z.number() }).nullable(),
})
export type Rehearsal = z.infer<typeof Rehearsal>

const Decided = Decision.shape.effect
const ShadowCount = z.strictObject({ from: Decided, to: Decided, count: z.int() })
export type ShadowCount = z.infer<typeof ShadowCount>
const ShadowDifference = z.strictObject({
  call: CallId,
  agent: z.string(),
  tool: z.string(),
  at_ms: z.int(),
  from: Decided,
  to: Decided,
})
export type ShadowDifference = z.infer<typeof ShadowDifference>

const Shadowing = z.strictObject({
  /** `null` where nothing shadows the set in force. */
  version: z.int().nullable(),
  since_ms: z.int().nullable(),
  by: z.string().nullable(),
  /** Calls that were proposed since, and have ended. */
  calls: z.int(),
  differ: z.int(),
  /** `from`: what was decided. `to`: what the shadow would have decided. */
  counts: z.array(ShadowCount),
  /** The latest that differ; by which policies says the journal of each run. */
  latest: z.array(ShadowDifference),
})

export const REHEARSAL = routes({
  readPolicyShadow: {
    method: 'GET',
    path: '/v1/policies/shadow',
    callers: ['operator'],
    action: 'policy.read',
    summary:
      'The version that shadows the one in force, and how it would have decided the calls that it saw and that have ended',
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
      'Have a version asked about each proposed call beside the one in force, which alone decides; `null` ends that. Another one counts anew',
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
      'What a version would have said of the calls that ended in the last days, the latest first; nothing is stored, enforced or asked of humans',
    body: z.strictObject({
      days: z.int().min(1).max(LIMITS.rehearsal_days).default(7),
      limit: z.int().min(1).max(LIMITS.rehearsal_calls).default(1_000),
    }),
    status: 200,
    result: Rehearsal,
    failures: ['not_found', 'invalid_policy', 'conflict'],
  },
})
