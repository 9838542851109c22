// Computes the decision that a shadow set, which is not in force, would have made on a call. It
// never affects the call: an error or exception here counts as a denial by the shadow set. Pure
// except for the salt.

import { randomUUID } from 'node:crypto'
import type { ShadowDecision } from '../../shared/evidence/journal.ts'
import type { Decision } from '../../shared/wire/calls.ts'
import type { Used } from '../call/usage.ts'
import type { Shadow } from '../directory/loaded-directory.ts'
import type { Situation } from './decide.ts'
import { decide } from './decide.ts'

type UncountedSituation = Omit<Situation, 'used'>

/**
 * `decided` is the decision in force. Also returns the usage that the shadow set read, for the
 * record.
 */
export function shadowOf(
  { version, since, directory }: Shadow,
  situation: UncountedSituation,
  used: Used | 'uncounted' | null,
  decided: Decision,
): { shadow: ShadowDecision; used: Used | null } {
  const record = (to: Decision['effect'], code: string, policies: readonly string[]): ShadowDecision => ({
    version,
    since_ms: since,
    from: decided.effect,
    to,
    code,
    policies: [...policies],
    salt: randomUUID(),
  })
  // The budget of the run does not depend on the policy set.
  if (decided.code === 'budget_spent')
    return { shadow: record('deny', decided.code, decided.policies), used: null }
  try {
    if (used === 'uncounted')
      return { shadow: record('deny', 'policy_error', ['session.budget']), used: null }
    const would = decide(directory, { ...situation, used }, 'nobody')
    if (!would.ok) return { shadow: record('deny', would.error.code, []), used }
    const { effect, code, policies } = would.value.decision
    return { shadow: record(effect, code, policies), used }
  } catch {
    return { shadow: record('deny', 'policy_error', []), used: null }
  }
}
