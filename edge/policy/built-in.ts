// The policies that ship with the edge: the floor, which no tenant can override, the defaults of a
// new tenant, and the sets for special cases.

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
/** A tenant's set with the floor added. Refuses names that would replace a file of the floor. */
export function withFloor(texts: PolicyTexts): Result<PolicyTexts> {
  const taken = Object.keys(texts).filter((name) => name.startsWith('floor.'))
  if (taken.length === 0) return ok({ ...FLOOR, ...texts })
  const errors = taken.map((at) => ({
    at,
    message: 'names that begin with `floor.` are reserved; choose another name',
  }))
  return err(failure('invalid_policy', 'the floor can’t be replaced', errors))
}

/** A tenant's set with the floor, compiled. */
export function compileWithFloor(texts: PolicyTexts): Result<PolicySet> {
  const whole = withFloor(texts)
  return whole.ok ? compile(whole.value) : whole
}

/** In force if a tenant's set can't be read: permits nothing but repairing it. */
export const repairSet = (): PolicySet => compileBuiltIn({ repair })

/**
 * The policy set of a suspended tenant: workers may finish the calls they run, and nothing else is
 * permitted.
 */
export const suspendedSet = (): PolicySet => compileBuiltIn({ suspended })

function compileBuiltIn(texts: PolicyTexts): PolicySet {
  const set = compileWithFloor(texts)
  if (!set.ok) throw new Error(`a built-in policy set does not compile: ${set.error.detail}`) // a bug
  return set.value
}

export const DEFAULTS: PolicyTexts = { baseline, operators, 'tier-b': tierB }
