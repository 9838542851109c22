// The policies that ship with the edge: the floor, which nothing lifts, and what a new tenant starts with.

import baseline from '../policies/defaults/baseline.cedar'
import operators from '../policies/defaults/operators.cedar'
import isolation from '../policies/floor/isolation.cedar'
import sensitive from '../policies/floor/sensitive.cedar'
import { failure } from '../shared/failures.ts'
import type { Result } from '../shared/result.ts'
import { err, ok } from '../shared/result.ts'
import type { PolicyTexts } from './policy.ts'

export const FLOOR: PolicyTexts = { 'floor.isolation': isolation, 'floor.sensitive': sensitive }
/** A tenant's own set under the floor: no file of the tenant's takes the place of one of ours. */
export function underFloor(texts: PolicyTexts): Result<PolicyTexts> {
  const taken = Object.keys(texts).filter((name) => name.startsWith('floor.'))
  if (taken.length === 0) return ok({ ...FLOOR, ...texts })
  const errors = taken.map((at) => ({ at, message: 'names that begin with `floor.` are the floor’s' }))
  return err(failure('invalid_policy', 'the floor can’t be replaced', errors))
}

export const DEFAULTS: PolicyTexts = { baseline, operators }
