// What a set that is not in force would have decided of a call as it comes. Whatever happens here, the call goes on as the set in force
// says: a set that errs, or breaks, would have denied. Pure but for the salt.

import { randomUUID } from 'node:crypto'
import type { Shadowed } from '../../shared/evidence/journal.ts'
import type { Decision } from '../../shared/wire/calls.ts'
import type { Used } from '../call/usage.ts'
import type { Shadow } from '../directory/directory.ts'
import type { Situation } from './decide.ts'
import { decide } from './decide.ts'

type Asked = Omit<Situation, 'used'>

/** Beside `decided`, which is what counts. `used` is what the shadow found used, for the record. */
export function shadowOf(
  { version, since, directory }: Shadow,
  asked: Asked,
  used: Used | 'uncounted' | null,
  decided: Decision,
): { shadow: Shadowed; used: Used | null } {
  const said = (to: Decision['effect'], code: string, policies: readonly string[]): Shadowed => ({
    version,
    since_ms: since,
    from: decided.effect,
    to,
    code,
    policies: [...policies],
    salt: randomUUID(),
  })
  // The budget of the run is no policy's to spend.
  if (decided.code === 'budget_spent')
    return { shadow: said('deny', decided.code, decided.policies), used: null }
  try {
    if (used === 'uncounted') return { shadow: said('deny', 'policy_error', ['session.budget']), used: null }
    const would = decide(directory, { ...asked, used }, 'nobody')
    if (!would.ok) return { shadow: said('deny', would.error.code, []), used }
    const { effect, code, policies } = would.value.decision
    return { shadow: said(effect, code, policies), used }
  } catch {
    return { shadow: said('deny', 'policy_error', []), used: null }
  }
}
