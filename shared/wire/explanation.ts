// The explanation of a decision: what agents see, and what only operators see.

import { z } from 'zod'
import { EgressMode, Tier } from '../plan/plan.ts'

const Scalar = z.union([z.string(), z.number(), z.boolean()])
/** The value of a fact. A value that is neither a scalar nor a list of scalars is JSON text. */
const FactValue = z.union([Scalar, z.array(Scalar)])
export type FactValue = z.infer<typeof FactValue>

/**
 * `present`, `absent`: whether the fact exists. `has`, `lacks`: whether a list contains the value.
 * `like`: a pattern with `*`.
 */
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

/**
 * The party that can make a change: the agent with other arguments, a human with an approval, an
 * operator with a setting, or the clock.
 */
const By = z.enum(['agent', 'human', 'operator', 'time'])
export type By = z.infer<typeof By>

/**
 * A fact and the value it needs. `value` is omitted if it names somebody whom the reader may not
 * see.
 */
export const Change = z.strictObject({
  fact: z.string(),
  is: FactValue.optional(),
  needs: z.strictObject({ op: Op, value: FactValue.optional() }),
  by: By,
  words: z.string(),
})
export type Change = z.infer<typeof Change>

const Note = z.strictObject({
  id: z.string(),
  effect: z.enum(['permit', 'forbid']),
  reason: z.string().nullable(),
  advice: z.string().nullable(),
  /** For operators only: file, line and column, and the text. */
  place: z.string().optional(),
  text: z.string().optional(),
})

export const Explanation = z.strictObject({
  /** The policies that determined the decision. */
  policies: z.array(Note),
  /**
   * The plans that were rejected, least isolated first, each with the policies that refused it.
   * `asks`: it needs an approval.
   */
  plans: z.array(
    z.strictObject({
      tier: z.enum(['A', ...Tier.options, 'M']),
      egress: EgressMode,
      policies: z.array(z.string()),
      asks: z.literal(true).optional(),
    }),
  ),
  /**
   * Alternatives, smallest first. Making all changes of one would allow the call; the engine has
   * verified each.
   */
  changes: z.array(z.array(Change)),
  /** If no change would help: the facts behind the denial that the reader can't change. */
  fixed: z.array(z.string()),
  /** For operators only: the engine's messages about policies that err. */
  errors: z.array(z.string()).optional(),
})
export type Explanation = z.infer<typeof Explanation>

/** The code of a decision. */
export const DecisionCode = z.enum([
  'allowed',
  'approval_required',
  'denied',
  'egress_denied',
  'workspace_scope_denied',
  'secret_in_run_folder',
  'budget_spent',
  'policy_error',
  'tool_changed',
])
