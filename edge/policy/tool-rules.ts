// Relates rules to tools, independently of calls: which rules name a tool, which count what it
// spends, and which would apply less strictly if its contract lost a group, a capability or
// `spends`. Reports only; callers decide what to refuse. Pure.

import type { FieldError } from '../../shared/failures.ts'
import type { Capability, ToolSpec } from '../../shared/wire/tools.ts'
import { capabilitiesOf } from '../tools/capabilities.ts'
import { nodesIn, pathOf } from './attribute-reads.ts'
import type { PolicySet, Rule } from './engine.ts'
import type { Traits } from './residual.ts'
import { residualOf } from './residual.ts'
import { positionIn } from './statements.ts'
import { place } from './text-limits.ts'

export type Contract = Pick<ToolSpec, 'groups' | 'capabilities' | 'secrets' | 'egress' | 'spends'> & {
  readonly name: string
}
const traitsOf = (tool: Contract): Traits => ({
  name: tool.name,
  groups: tool.groups ?? [],
  capabilities: capabilitiesOf(tool),
})

/** A tool without groups and capabilities. A rule that applies to it applies to every tool. */
const UNKNOWN_TOOL: Traits = { name: '', groups: [], capabilities: [] }

/**
 * Yields, for each rule that the new contract would weaken, its position and the trait that gets
 * lost.
 */
export function* weakenedRules(
  { rules }: PolicySet,
  before: Contract,
  after: Contract,
): Generator<FieldError> {
  const is = traitsStillPossible(before, after)
  const losses = lostTraits(is, traitsOf(after))
  const noLongerSpends = before.spends !== undefined && after.spends === undefined
  for (const rule of rules.values()) {
    if (losses.length > 0 && weakens(rule, is, withoutTraits(is, losses))) {
      const alone = losses.filter((loss) => weakens(rule, is, withoutTraits(is, [loss])))
      for (const { name, what } of alone.length > 0 ? alone : losses)
        yield weakenedRule(rule, is.name, name, what)
    }
    if (noLongerSpends && readsSpent(residualOf(rule, is)))
      yield weakenedRule(rule, is.name, 'tool.spent', 'what it spends')
  }
}

/** A tool as rules see it. Rules that name no tool can't distinguish tools of the same `kind`. */
export type SpendingTool = { readonly traits: Traits; readonly spends: boolean; readonly kind: string }

export function spendingTool(tool: Contract): SpendingTool {
  const traits = traitsOf(tool)
  return {
    traits,
    spends: tool.spends !== undefined,
    kind: JSON.stringify([traits.groups, traits.capabilities]),
  }
}

/**
 * For a rule that reads what a tool has spent: the tools it applies to that declare no `spends`. A
 * rule about all tools is reported only if no tool declares it.
 */
export function toolsWithoutSpending(rule: Rule, tools: readonly SpendingTool[]): readonly string[] {
  if (!readsSpent(rule.applies.conditions)) return []
  if (residualOf(rule, UNKNOWN_TOOL) !== false && tools.some(({ spends }) => spends)) return []
  const named = namesIn(rule)
  const cache = new Map<string, boolean>()
  const counts = ({ traits, kind }: SpendingTool): boolean => {
    const key = named.has(traits.name) ? traits.name : kind
    const counts = cache.get(key) ?? readsSpent(residualOf(rule, traits))
    cache.set(key, counts)
    return counts
  }
  return tools.filter((tool) => !tool.spends && counts(tool)).map(({ traits }) => traits.name)
}

/** All texts in a rule that may be names of tools. */
export function namesIn({ applies }: Rule): ReadonlySet<string> {
  const texts = [...nodesIn(applies)]
    .flatMap(({ id, Value }) => [id, Value])
    .filter((text) => typeof text === 'string')
  return new Set(texts.map((text) => text.replace(/^tool\.execute\//, '')))
}

/** The positions at which the rules of a set name this tool as a resource. */
export const placesOfTool = ({ rules }: PolicySet, tool: string): FieldError[] =>
  [...rules.values()].flatMap((rule) =>
    [...nodesIn(rule.applies)].some(({ type, id }) => type === 'Tool' && id === tool)
      ? [{ at: placeIn(rule, tool), message: `this policy names \`Tool::"${tool}"\`` }]
      : [],
  )

/** Every action that the rules of a set name, in scopes and conditions. */
export const actionsIn = ({ rules }: Pick<PolicySet, 'rules'>): string[] =>
  [...rules.values()].flatMap(({ applies }) =>
    [...nodesIn(applies)].flatMap(({ type, id }) =>
      type === 'Action' && typeof id === 'string' ? [id] : [],
    ),
  )

type LostTrait = { readonly of: 'groups' | 'capabilities'; readonly name: string; readonly what: string }

/**
 * The old traits, without capabilities that the new contract really takes away (it no longer has
 * secrets, or the kernel blocks its network): losing those weakens no rule.
 */
function traitsStillPossible(before: Contract, after: Contract): Traits {
  const is = traitsOf(before)
  const can = capabilitiesOf(after)
  const shut = after.egress.mode === 'strict' && after.egress.hosts.length === 0
  const cannot = (name: Capability): boolean =>
    !can.includes(name) && (name === 'secrets_read' || (name === 'network' && shut))
  return { ...is, capabilities: is.capabilities.filter((name) => !cannot(name)) }
}

function lostTraits(is: Traits, willBe: Traits): LostTrait[] {
  const lost = (of: LostTrait['of'], word: string): LostTrait[] =>
    is[of]
      .filter((name) => !willBe[of].some((one) => one === name))
      .map((name) => ({ of, name, what: `the ${word} \`${name}\`` }))
  return [...lost('groups', 'group'), ...lost('capabilities', 'capability')]
}

function withoutTraits(is: Traits, losses: readonly LostTrait[]): Traits {
  const isLost = (of: LostTrait['of'], name: string): boolean =>
    losses.some((loss) => loss.of === of && loss.name === name)
  return {
    name: is.name,
    groups: is.groups.filter((name) => !isLost('groups', name)),
    capabilities: is.capabilities.filter((name) => !isLost('capabilities', name)),
  }
}

const placeIn = ({ source }: Rule, text: string): string =>
  place(source.file, source.whole, source.at + positionIn(source.text, 'scope', text))

const weakenedRule = (rule: Rule, tool: string, text: string, what: string): FieldError => ({
  at: placeIn(rule, text),
  message: `this policy depends on ${what}, which \`${tool}\` would lose`,
  hint: `if this is intended, exempt the tool in the policy first: \`unless { resource == Tool::"${tool}" }\``,
})

const weakens = (rule: Rule, is: Traits, less: Traits): boolean =>
  JSON.stringify(residualOf(rule, is, less)) !== JSON.stringify(residualOf(rule, is))

function readsSpent(node: unknown): boolean {
  if (typeof node !== 'object' || node === null) return false
  const path = pathOf(node)
  return path === undefined
    ? Object.values(node).some(readsSpent)
    : /^budget\.(?:run|session)\.tool\.spent$/.test(path.join('.'))
}
