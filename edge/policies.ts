// The policies that ship with the edge: the floor, which nothing lifts, and what a new tenant starts with.

import baseline from '../policies/defaults/baseline.cedar'
import operators from '../policies/defaults/operators.cedar'
import isolation from '../policies/floor/isolation.cedar'
import sensitive from '../policies/floor/sensitive.cedar'
import type { PolicyTexts } from './policy.ts'

export const FLOOR: PolicyTexts = { 'floor.isolation': isolation, 'floor.sensitive': sensitive }
export const DEFAULTS: PolicyTexts = { baseline, operators }
