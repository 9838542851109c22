// The storage of a skill as operators see it: keys and sizes, no values.

import { z } from 'zod'
import { Name, Time } from '../fields.ts'

/** One clearing of the whole storage: by whom, when, and how much was deleted. */
export const Clearing = z.strictObject({ by: Name, at_ms: Time, keys: z.int(), bytes: z.int() })
export type Clearing = z.infer<typeof Clearing>

export const SkillStorage = z.strictObject({
  /** Totals; `bytes` counts keys and values. */
  keys: z.int(),
  bytes: z.int(),
  /** One page, in the order of the keys. */
  items: z.array(z.strictObject({ key: z.string(), bytes: z.int(), changed_at_ms: Time })),
  /** Latest first. */
  clearings: z.array(Clearing),
})
export type SkillStorage = z.infer<typeof SkillStorage>
