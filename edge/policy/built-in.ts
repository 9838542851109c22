// The policies that ship with the edge: the floor, which nothing lifts, and what a new tenant starts with.

import baseline from '../../policies/defaults/baseline.cedar'
import operators from '../../policies/defaults/operators.cedar'
import tierB from '../../policies/defaults/tier-b.cedar'
import isolation from '../../policies/floor/isolation.cedar'
import sensitive from '../../policies/floor/sensitive.cedar'
import repair from '../../policies/repair.cedar'
import suspended from '../../policies/suspended.cedar'
import { failure } from '../../shared/failures.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { PolicySet, PolicyTexts } from './engine.ts'
import { compile } from './engine.ts'

export const FLOOR: PolicyTexts = { 'floor.isolation': isolation, 'floor.sensitive': sensitive }
/** A tenant's own set under the floor: no file of the tenant's takes the place of one of ours. */
export function underFloor(texts: PolicyTexts): Result<PolicyTexts> {
  const taken = Object.keys(texts).filter((name) => name.startsWith('floor.'))
  if (taken.length === 0) return ok({ ...FLOOR, ...texts })
  const errors = taken.map((at) => ({ at, message: 'names that begin with `floor.` are the floor’s' }))
  return err(failure('invalid_policy', 'the floor can’t be replaced', errors))
}

/** The same, ready to be asked. */
export function readyUnderFloor(texts: PolicyTexts): Result<PolicySet> {
  const whole = underFloor(texts)
  return whole.ok ? compile(whole.value) : whole
}

/** What is in force where a tenant's set can't be read: that nothing is allowed but to mend it. */
export const repairSet = (): PolicySet => our({ repair })

/** The policy set of a suspended tenant: workers may finish the calls they run, and nothing else is permitted. */
export const suspendedSet = (): PolicySet => our({ suspended })

function our(texts: PolicyTexts): PolicySet {
  const set = readyUnderFloor(texts)
  if (!set.ok) throw new Error(`our own policies do not compile: ${set.error.detail}`) // a bug
  return set.value
}

export const DEFAULTS: PolicyTexts = { baseline, operators, 'tier-b': tierB }
