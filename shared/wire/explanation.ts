// Why a decision is as it is, as it crosses the wire: what agents are told, and what operators are told beyond it.

import { z } from 'zod'
import { EgressMode, Tier } from '../plan/plan.ts'

const Scalar = z.union([z.string(), z.number(), z.boolean()])
/** A value of a fact. What is neither a scalar nor a list of them is told as JSON text. */
const Told = z.union([Scalar, z.array(Scalar)])
export type Told = z.infer<typeof Told>

/** `present`, `absent`: the fact is given at all, or is not. `has`, `lacks`: a list holds the value. `like`: a pattern with `*`. */
const Op = z.enum([
  '==',
  '!=',
  '<',
  '<=',
  '>',
  '>=',
  'has',
  'lacks',
  'like',
  'not like',
  'present',
  'absent',
  'empty',
  'not empty',
])
export type Op = z.infer<typeof Op>

/** Who can bring a change about: the agent by other arguments, a human by an approval, an operator by a setting, or the clock. */
const By = z.enum(['agent', 'human', 'operator', 'time'])
export type By = z.infer<typeof By>

/** One fact, and what it would have to be. `value` is left out where it names somebody whom the reader is not told of. */
export const Change = z.strictObject({
  fact: z.string(),
  is: Told.optional(),
  needs: z.strictObject({ op: Op, value: Told.optional() }),
  by: By,
  words: z.string(),
})
export type Change = z.infer<typeof Change>

const Note = z.strictObject({
  id: z.string(),
  effect: z.enum(['permit', 'forbid']),
  reason: z.string().nullable(),
  advice: z.string().nullable(),
  /** Operators alone: the file, line and column, and the text. */
  place: z.string().optional(),
  text: z.string().optional(),
})

export const Explanation = z.strictObject({
  /** The policies that determined it. */
  policies: z.array(Note),
  /** The plans that were tried and not taken, least isolated first, each with the policies that refused it. `asks`: not without a human. */
  plans: z.array(
    z.strictObject({
      tier: z.enum(['A', ...Tier.options]),
      egress: EgressMode,
      policies: z.array(z.string()),
      asks: z.literal(true).optional(),
    }),
  ),
  /** Alternatives, the smallest first: each, made as a whole, would allow the call. Verified by the engine. */
  changes: z.array(z.array(Change)),
  /** Where no change would: the facts behind it that nobody who asks can change. */
  fixed: z.array(z.string()),
  /** Operators alone: what the engine said of policies that err. */
  errors: z.array(z.string()).optional(),
})
export type Explanation = z.infer<typeof Explanation>

/** What a decision comes to, as its code. */
export const DecisionCode = z.enum([
  'allowed',
  'approval_required',
  'denied',
  'egress_denied',
  'workspace_scope_denied',
  'secret_in_run_folder',
  'budget_spent',
  'policy_error',
])
