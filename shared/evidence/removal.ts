// When the tenant's retention rule removed something, as calls and bundles say it.

import { z } from 'zod'
import { Time } from '../fields.ts'

/** `rule`: the number of the rule in the tenant. `days`: for how many days that rule keeps it. */
export const Removal = z.strictObject({ at_ms: Time, rule: z.int().min(1), days: z.int().min(1) })
export type Removal = z.infer<typeof Removal>
