// The facts that a policy can depend on: who can change each, how a change is applied to a
// question, and how several changes combine. Pure.

import type { By, Op } from '../../../shared/wire/explanation.ts'
import type { CedarValueJson, EntityJson } from '../../policy/engine.ts'
import type { Subject } from '../../policy/slices.ts'
import { idOf } from '../../policy/slices.ts'

/** Everything that a verdict depends on, except the policies. */
export type Question = Subject & { readonly context: Record<string, CedarValueJson> }

/**
 * A path into the context, as `['args', 'amount']`; the agent's groups are `['agent', 'groups']`.
 */
export type Fact = readonly string[]
/**
 * A change of one fact: the condition that it has to fulfil, and a sample value that does
 * (`undefined`: left out).
 */
export type Flip = {
  readonly fact: Fact
  readonly op: Op
  readonly value?: CedarValueJson
  readonly sample: CedarValueJson | undefined
}

type Values = Readonly<Record<string, CedarValueJson>>

export const GROUPS: Fact = ['agent', 'groups']
export const nameOf = (fact: Fact): string => fact.join('.')
export const sameFact = (one: Fact, other: Fact): boolean => nameOf(one) === nameOf(other)

/**
 * By the first name of a fact. Nobody can change the others, such as those of the tool or agent.
 */
const CHANGED_BY: Readonly<Record<string, By>> = {
  args: 'agent',
  files: 'agent',
  plan: 'operator',
  approval: 'human',
  budget: 'operator',
  agent: 'operator',
  is_allowlisted_tool: 'operator',
  is_allowed_channel: 'operator',
  channel_id: 'operator',
  device_id: 'operator',
  folder_met_secret: 'agent',
  owners: 'operator',
  now: 'time',
  weekday: 'time',
}
export const changedBy = ([first = '']: Fact): By | null =>
  Object.hasOwn(CHANGED_BY, first) ? (CHANGED_BY[first] ?? null) : null

const isRecord = (value: unknown): value is Values =>
  typeof value === 'object' &&
  value !== null &&
  !Array.isArray(value) &&
  !('__extn' in value) &&
  !('__entity' in value)

/** The value of a fact; `undefined` if it has none. */
export function valueAt(values: Values, fact: Fact): CedarValueJson | undefined {
  const [first = '', ...rest] = fact
  const value = Object.hasOwn(values, first) ? values[first] : undefined
  return rest.length === 0 ? value : isRecord(value) ? valueAt(value, rest) : undefined
}

// ── Several together ──

const UPPER: readonly Op[] = ['<', '<=']
const LOWER: readonly Op[] = ['>', '>=']

/** A value that has an order, as a number. */
export function rank(value: CedarValueJson | undefined): number | undefined {
  if (typeof value === 'number') return value
  if (typeof value !== 'object' || value === null || Array.isArray(value) || !('__extn' in value))
    return undefined
  const { __extn: call } = value
  if (
    typeof call !== 'object' ||
    call === null ||
    !('fn' in call && 'arg' in call) ||
    typeof call.arg !== 'string'
  )
    return undefined
  const number =
    call.fn === 'decimal' ? Number(call.arg) : call.fn === 'datetime' ? Date.parse(call.arg) : Number.NaN
  return Number.isNaN(number) ? undefined : number
}

/** The fewest flips with the same meaning; `undefined` if they contradict each other. */
export function fuse(flips: readonly Flip[]): readonly Flip[] | undefined {
  const groups = new Map<string, Flip[]>()
  for (const flip of flips) {
    const group = groups.get(nameOf(flip.fact))
    if (group === undefined) groups.set(nameOf(flip.fact), [flip])
    else group.push(flip)
  }
  const fused: Flip[] = []
  for (const group of groups.values()) {
    const one = group.length === 1 ? group : fuseOne(group)
    if (one === undefined) return undefined
    fused.push(...one)
  }
  return fused.filter((flip) => !fused.some((other) => other !== flip && entails(other, flip)))
}

/**
 * Whether the first flip implies the other: 2 approvals imply one, and so does one by a certain
 * role.
 */
function entails(one: Flip, other: Flip): boolean {
  if (nameOf(other.fact) === 'approval.count' && other.sample === 1) return one.fact[0] === 'approval'
  if (other.op === 'not empty' && one.op === 'has') return sameFact(one.fact, other.fact)
  if (other.op === 'present')
    return one.op !== 'absent' && nameOf(one.fact).startsWith(`${nameOf(other.fact)}.`)
  if (one.op !== other.op || !sameFact(one.fact, other.fact)) return false
  const [a, b] = [rank(one.sample), rank(other.sample)]
  if (UPPER.includes(one.op)) return a !== undefined && b !== undefined && a <= b
  return LOWER.includes(one.op) ? a !== undefined && b !== undefined && a >= b : same(one.value, other.value)
}

export const factsIn = (flips: readonly Flip[]): number => new Set(flips.map(({ fact }) => nameOf(fact))).size
/** Whether the first set of flips implies the second. */
export const asksAsMuch = (one: readonly Flip[], other: readonly Flip[]): boolean =>
  other.every((flip) => one.some((mine) => entails(mine, flip)))

function fuseOne(group: readonly Flip[]): readonly Flip[] | undefined {
  const distinct = group.filter(
    (flip, i) => !group.slice(i + 1).some(({ op, value }) => op === flip.op && same(value, flip.value)),
  )
  const exact = distinct.filter(({ op }) => op === '==')
  if (exact.length > 1) return undefined
  if (exact.length === 1) return exact
  if (distinct.some(({ op }) => op === 'absent')) return distinct.length === 1 ? distinct : undefined
  const upper = tightest(distinct, UPPER, -1)
  const lower = tightest(distinct, LOWER, 1)
  if (upper !== undefined && lower !== undefined && (rank(lower.sample) ?? 0) > (rank(upper.sample) ?? 0))
    return undefined
  const bounds = [upper, lower].filter((flip) => flip !== undefined)
  const rest = distinct.filter(({ op }) => !UPPER.includes(op) && !LOWER.includes(op))
  const telling = rest.filter(({ op }) => op !== 'present')
  return bounds.length + telling.length === 0 ? rest.slice(0, 1) : [...telling, ...bounds]
}

const tightest = (flips: readonly Flip[], ops: readonly Op[], sign: 1 | -1): Flip | undefined =>
  flips
    .filter(({ op }) => ops.includes(op))
    .sort((a, b) => sign * ((rank(b.sample) ?? 0) - (rank(a.sample) ?? 0)))
    .at(0)

// ── Applied ──

/** The question with the flips applied. */
export function applied(question: Question, flips: readonly Flip[]): Question {
  const given = flips.filter(({ fact }) => fact[0] === 'approval')
  let { context, entities } =
    given.length === 0 ? question : { ...question, context: approved(question.context, given) }
  for (const flip of flips) {
    if (flip.fact[0] === 'approval') continue
    if (sameFact(flip.fact, GROUPS)) entities = regrouped(question.principal.id, entities, flip)
    else context = put(context, flip.fact, (before) => changed(before, flip))
  }
  return { ...question, context, entities }
}

function changed(before: CedarValueJson | undefined, { op, sample }: Flip): CedarValueJson | undefined {
  if (op !== 'has' && op !== 'lacks') return sample
  const items = Array.isArray(before) ? before : []
  const others = items.filter((item) => !same(item, sample))
  return op === 'has' && sample !== undefined ? [...others, sample] : others
}

type Value = CedarValueJson | undefined

/** Compares in one pass, because lists can be as long as arguments. */
export function same(one: Value, other: Value): boolean {
  if (one === other) return true
  if (typeof one !== 'object' || typeof other !== 'object') return false
  if (Array.isArray(one) && Array.isArray(other))
    return one.length === other.length && one.every((item, i) => same(item, other[i]))
  return keyOf(one) === keyOf(other)
}

/** Equal for equal values of the same type, as those of one list are. */
const keyOf = (value: Value): unknown =>
  typeof value === 'object' ? (rank(value) ?? JSON.stringify(value)) : value

/** A membership test for many values in one list, without comparing each with each item. */
export function membership(list: readonly CedarValueJson[]): (value: CedarValueJson) => boolean {
  const keys = new Set(list.map(keyOf))
  return (value) => keys.has(keyOf(value))
}

function put(
  values: Values,
  [first = '', ...rest]: Fact,
  change: (before: CedarValueJson | undefined) => CedarValueJson | undefined,
): Record<string, CedarValueJson> {
  const before = Object.hasOwn(values, first) ? values[first] : undefined
  const after = rest.length === 0 ? change(before) : put(isRecord(before) ? before : {}, rest, change)
  const { [first]: _, ...others } = values
  return after === undefined ? others : { ...others, [first]: after }
}

/** The same for the call's arguments, in plain JSON. */
export function appliedTo(
  args: Readonly<Record<string, unknown>>,
  flips: readonly Flip[],
): Record<string, unknown> {
  const plain = (value: CedarValueJson | undefined): CedarValueJson | undefined =>
    typeof value === 'number' ? value : (rank(value) ?? value)
  let context: Record<string, CedarValueJson> = { args: args as Record<string, CedarValueJson> } // a value of Cedar is JSON
  for (const flip of flips)
    context = put(context, flip.fact, (before) =>
      plain(changed(before, { ...flip, sample: plain(flip.sample) })),
    )
  return context['args'] as Record<string, unknown> // put there above
}

/**
 * The approval attributes after further answers. Only attributes that policies read are present.
 */
function approved(
  context: Record<string, CedarValueJson>,
  flips: readonly Flip[],
): Record<string, CedarValueJson> {
  const before: Values = isRecord(context['approval']) ? context['approval'] : {}
  let next: Values = before
  for (const flip of flips) next = put(next, flip.fact.slice(1), (value) => changed(value, flip))
  const apart = isRecord(next['independent']) ? yesOf(next['independent'], {}) : {}
  const all = yesOf(next, apart)
  const assurance =
    next['assurance'] === undefined || next['assurance'] === 'none' ? 'key' : next['assurance']
  const complete: Values = {
    ...next,
    ...all,
    independent: apart,
    granted: true,
    count: Math.max(1, rank(all['count']) ?? 0),
    assurance,
  }
  return {
    ...context,
    ...('approval' in context ? { approval: asRead(complete, before) } : {}),
    ...('allow_sensitive_tools' in context ? { allow_sensitive_tools: true } : {}),
  }
}

/** The most answers that a call can have. */
const MOST = 32

/**
 * Makes the counts consistent: each role and quorum implies as many approvals; `others` are part of
 * all.
 */
function yesOf(yes: Values, others: Values): Record<string, CedarValueJson> {
  const texts = (name: string): string[] =>
    [yes[name], others[name]].flat().filter((item) => typeof item === 'string')
  const most = new Map(texts('roles').map((role) => [role, 1]))
  for (const voices of texts('quorum')) {
    const [, n = '1', role = ''] = /^(\d+) of (.*)$/.exec(voices) ?? []
    most.set(role, Math.max(most.get(role) ?? 0, Number(n)))
  }
  const named = Array.isArray(yes['approvers']) ? yes['approvers'].length : 0
  return {
    count: Math.max(rank(yes['count']) ?? 0, rank(others['count']) ?? 0, named, ...most.values()),
    roles: [...most.keys()],
    quorum: [...most].flatMap(([role, n]) =>
      Array.from({ length: Math.min(n, MOST) }, (_, i) => `${i + 1} of ${role}`),
    ),
  }
}

/** Only the attributes of `read`, with the values of `complete`. */
const asRead = (complete: Values, read: Values): Record<string, CedarValueJson> =>
  Object.fromEntries(
    Object.entries(read).map(([name, value]) => {
      const now = complete[name] ?? value
      return [name, isRecord(now) && isRecord(value) ? asRead(now, value) : now]
    }),
  )

function regrouped(agent: string, entities: readonly EntityJson[], { op, sample }: Flip): EntityJson[] {
  const isAgent = ({ uid }: EntityJson): boolean => idOf(uid).type === 'Agent' && idOf(uid).id === agent
  const mine = entities.find(isAgent) ?? { uid: { type: 'Agent', id: agent }, attrs: {}, parents: [] }
  const others = mine.parents.filter((parent) => idOf(parent).type !== 'Group' || idOf(parent).id !== sample)
  const parents = op === 'has' ? [...others, { type: 'Group', id: String(sample) }] : others
  return [...entities.filter((entity) => !isAgent(entity)), { ...mine, parents }]
}

/** The ancestors of each entity of a question, itself included; cached. */
export function ancestorsIn({
  entities,
}: Question): (self: { type: string; id: string }) => ReadonlySet<string> {
  const parents = new Map(
    entities.map(({ uid, parents }) => [textOf(idOf(uid)), parents.map((parent) => textOf(idOf(parent)))]),
  )
  const found = new Map<string, ReadonlySet<string>>()
  return (self) => {
    const name = textOf(self)
    const all = new Set([name])
    if (!found.has(name)) for (const one of all) for (const parent of parents.get(one) ?? []) all.add(parent) // the loop also visits what it adds
    const known = found.get(name) ?? all
    found.set(name, known)
    return known
  }
}

/** Unique, because no type contains a space. */
export const textOf = ({ type, id }: { type: string; id: string }): string => `${type} ${id}`
