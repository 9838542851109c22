// Finds the tools that an agent could ever be allowed to call under a policy set. A tool is ruled
// out only by facts of its contract and its agent; unknown facts keep it in. It decides no call. Pure.

import type { PolicySet, Rule } from './engine.ts'
import { residualOf, type Traits } from './residual.ts'
import { namesIn } from './tool-rules.ts'

/** Names of the tools that some forbid always covers, or that no permit can cover, are left out. */
export function possibleTools(
  { rules }: PolicySet,
  agent: NonNullable<Traits['agent']>,
  tools: readonly Traits[],
): ReadonlySet<string> {
  const settled = [...rules.values()].map((rule) => ({
    effect: rule.effect,
    outcome: outcomeOf(rule, agent),
  }))
  const permits = settled.filter(({ effect }) => effect === 'permit')
  const forbids = settled.filter(({ effect }) => effect === 'forbid')
  const isPossible = (traits: Traits): boolean => {
    const kind = JSON.stringify([traits.groups, traits.capabilities])
    return (
      permits.some(({ outcome }) => outcome(traits, kind) !== false) &&
      !forbids.some(({ outcome }) => outcome(traits, kind) === true)
    )
  }
  return new Set(tools.filter(isPossible).map(({ name }) => name))
}

/** A rule that doesn't name a tool can't distinguish it from others of the same kind. */
function outcomeOf(rule: Rule, agent: NonNullable<Traits['agent']>) {
  const named = namesIn(rule)
  const known = new Map<string, unknown>()
  return (traits: Traits, kind: string): unknown => {
    const key = named.has(traits.name) ? traits.name : kind
    if (!known.has(key)) known.set(key, residualOf(rule, { ...traits, agent }))
    return known.get(key)
  }
}
