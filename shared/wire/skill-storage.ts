// What a skill keeps, as operators are shown it: keys and sizes, and no values.

import { z } from 'zod'
import { Name, Time } from '../fields.ts'

/** All that was there, cleared at once. */
export const Clearing = z.strictObject({ by: Name, at_ms: Time, keys: z.int(), bytes: z.int() })
export type Clearing = z.infer<typeof Clearing>

export const SkillStorage = z.strictObject({
  /** Of all there is; `bytes` are of keys and values. */
  keys: z.int(),
  bytes: z.int(),
  /** A page, by key. */
  items: z.array(z.strictObject({ key: z.string(), bytes: z.int(), changed_at_ms: Time })),
  /** The latest first. */
  clearings: z.array(Clearing),
})
export type SkillStorage = z.infer<typeof SkillStorage>
