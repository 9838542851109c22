// What rules have to do with tools, whatever calls bring: which name one, which count what it spends, and which would say less of it once
// its contract lost a group, a capability or what it spends. It tells, and refuses nothing. Pure.

import type { FieldError } from '../../shared/failures.ts'
import type { Capability, ToolSpec } from '../../shared/wire/tools.ts'
import { capabilitiesOf } from '../tools/capabilities.ts'
import { nodesIn, pathOf } from './attribute-reads.ts'
import type { PolicySet, Rule } from './engine.ts'
import type { Traits } from './residual.ts'
import { remainder } from './residual.ts'
import { whereIn } from './statements.ts'
import { place } from './text-limits.ts'

export type Contract = Pick<ToolSpec, 'groups' | 'capabilities' | 'secrets' | 'egress' | 'spends'> & {
  readonly name: string
}
const traitsOf = (tool: Contract): Traits => ({
  name: tool.name,
  groups: tool.groups ?? [],
  capabilities: capabilitiesOf(tool),
})

/** A tool that is in nothing and can do nothing: what is about it is about all. */
const STRANGER: Traits = { name: '', groups: [], capabilities: [] }

/** What rules say of a tool as it is and would not of it as it would be, by their places, one after the other. */
export function* lostBy({ rules }: PolicySet, before: Contract, after: Contract): Generator<FieldError> {
  const is = stillOf(before, after)
  const losses = lossesOf(is, traitsOf(after))
  const noLongerSpends = before.spends !== undefined && after.spends === undefined
  for (const rule of rules.values()) {
    if (losses.length > 0 && weakens(rule, is, without(is, losses))) {
      const alone = losses.filter((loss) => weakens(rule, is, without(is, [loss])))
      for (const { name, what } of alone.length > 0 ? alone : losses) yield said(rule, is.name, name, what)
    }
    if (noLongerSpends && readsSpent(remainder(rule, is)))
      yield said(rule, is.name, 'tool.spent', 'what it spends')
  }
}

/** A tool by what rules can tell it by. Tools of one `kind` are the same to all that name none of them. */
export type Counted = { readonly traits: Traits; readonly spends: boolean; readonly kind: string }

export function counted(tool: Contract): Counted {
  const traits = traitsOf(tool)
  return {
    traits,
    spends: tool.spends !== undefined,
    kind: JSON.stringify([traits.groups, traits.capabilities]),
  }
}

/**
 * Whether a rule counts what a tool spends, and which of the tools that it is about name nothing that they spend; of a rule over all,
 * if none does.
 */
export function uncountedBy(rule: Rule, tools: readonly Counted[]): readonly string[] {
  if (!readsSpent(rule.applies.conditions)) return []
  if (remainder(rule, STRANGER) !== false && tools.some(({ spends }) => spends)) return []
  const named = namesIn(rule)
  const known = new Map<string, boolean>()
  const counts = ({ traits, kind }: Counted): boolean => {
    const key = named.has(traits.name) ? traits.name : kind
    const counts = known.get(key) ?? readsSpent(remainder(rule, traits))
    known.set(key, counts)
    return counts
  }
  return tools.filter((tool) => !tool.spends && counts(tool)).map(({ traits }) => traits.name)
}

/** Whatever a rule may name a tool by. */
function namesIn({ applies }: Rule): ReadonlySet<string> {
  const texts = [...nodesIn(applies)]
    .flatMap(({ id, Value }) => [id, Value])
    .filter((text) => typeof text === 'string')
  return new Set(texts.map((text) => text.replace(/^tool\.execute\//, '')))
}

/** Where the rules of a set name this tool as a resource. */
export const placesOfTool = ({ rules }: PolicySet, tool: string): FieldError[] =>
  [...rules.values()].flatMap((rule) =>
    [...nodesIn(rule.applies)].some(({ type, id }) => type === 'Tool' && id === tool)
      ? [{ at: placeIn(rule, tool), message: `it is about \`Tool::"${tool}"\`` }]
      : [],
  )

/** Every action that the rules of a set name, in their scopes and their conditions. */
export const actionsIn = ({ rules }: PolicySet): string[] =>
  [...rules.values()].flatMap(({ applies }) =>
    [...nodesIn(applies)].flatMap(({ type, id }) =>
      type === 'Action' && typeof id === 'string' ? [id] : [],
    ),
  )

type Loss = { readonly of: 'groups' | 'capabilities'; readonly name: string; readonly what: string }

/**
 * As it is, but for what it could not do any more: secrets that are gone, a network that the kernel shuts. Not to be said to do that is
 * no loss.
 */
function stillOf(before: Contract, after: Contract): Traits {
  const is = traitsOf(before)
  const can = capabilitiesOf(after)
  const shut = after.egress.mode === 'strict' && after.egress.hosts.length === 0
  const cannot = (name: Capability): boolean =>
    !can.includes(name) && (name === 'secrets_read' || (name === 'network' && shut))
  return { ...is, capabilities: is.capabilities.filter((name) => !cannot(name)) }
}

function lossesOf(is: Traits, willBe: Traits): Loss[] {
  const gone = (of: Loss['of'], word: string): Loss[] =>
    is[of]
      .filter((name) => !willBe[of].some((one) => one === name))
      .map((name) => ({ of, name, what: `the ${word} \`${name}\`` }))
  return [...gone('groups', 'group'), ...gone('capabilities', 'capability')]
}

function without(is: Traits, losses: readonly Loss[]): Traits {
  const isLost = (of: Loss['of'], name: string): boolean =>
    losses.some((loss) => loss.of === of && loss.name === name)
  return {
    name: is.name,
    groups: is.groups.filter((name) => !isLost('groups', name)),
    capabilities: is.capabilities.filter((name) => !isLost('capabilities', name)),
  }
}

const placeIn = ({ source }: Rule, text: string): string =>
  place(source.file, source.whole, source.at + whereIn(source.text, 'scope', text))

const said = (rule: Rule, tool: string, text: string, what: string): FieldError => ({
  at: placeIn(rule, text),
  message: `it turns on ${what}, which \`${tool}\` would lose`,
  hint: `if that is meant, say so in the policy first: \`unless { resource == Tool::"${tool}" }\``,
})

const weakens = (rule: Rule, is: Traits, less: Traits): boolean =>
  JSON.stringify(remainder(rule, is, less)) !== JSON.stringify(remainder(rule, is))

function readsSpent(node: unknown): boolean {
  if (typeof node !== 'object' || node === null) return false
  const path = pathOf(node)
  return path === undefined
    ? Object.values(node).some(readsSpent)
    : /^budget\.(?:run|session)\.tool\.spent$/.test(path.join('.'))
}
