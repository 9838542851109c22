// What a set of policies would do before it is in force: rehearsed on calls that were, or shadowing calls as they come. Neither decides anything.

import { z } from 'zod'
import { LIMITS } from '../limits.ts'
import * as wire from '../wire.ts'
import { versioned } from './policies.ts'
import { routes } from './route.ts'

/** `ask_more`: humans were asked, and what they answered does not suffice. */
const Effect = z.enum(['allow', 'ask', 'ask_more', 'deny'])
export type RehearsedEffect = z.infer<typeof Effect>

/** `from`: what was decided then. `now`: what the set in force says of the same today. `to`: what this version says. */
const kind = { from: Effect, now: Effect, to: Effect }

const Flip = z.strictObject({
  call: wire.CallId,
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
  /** Each kind of flip with its number; where `now` and `to` are the same, the version is not what flips it. */
  summary: z.array(z.strictObject({ ...kind, count: z.int() })),
  /** The latest first; `summary` counts them all. */
  flips: z.array(Flip),
  unrehearsable: z.array(z.strictObject({ reason: z.string(), count: z.int() })),
  /** Questions to humans, by the set in force and by this version, over the days that were looked at. */
  approvals_per_day: z.strictObject({ now: z.number(), to: z.number() }),
})
export type Rehearsal = z.infer<typeof Rehearsal>

export const REHEARSAL = routes({
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
    failures: ['not_found', 'invalid_policy'],
  },
})
