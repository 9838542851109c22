// What holds and is probably not meant, though no type says so: names of what there is not, values that an attribute never has, approvals
// that nobody can give, caps on what no tool counts, and policies that can't say why. It judges one set among what there is, refuses
// nothing, and reads policies as trees.

import type { FieldError } from '../shared/failures.ts'
import { EgressMode, Tier, Workspace } from '../shared/plan.ts'
import { Assurance } from '../shared/wire/approvals.ts'
import { Capability } from '../shared/wire/tools.ts'
import { FLOOR } from './policies.ts'
import type { EntityJson, PolicySet, Rule } from './policy.ts'
import { permitsAnything } from './policy.ts'
import { whereIn } from './policy-parts.ts'
import { nodesIn, pathOf } from './policy-reads.ts'
import { idOf } from './policy-slices.ts'
import { place, SHOWN } from './policy-text.ts'
import type { Contract, Counted } from './policy-tools.ts'
import { counted, uncountedBy } from './policy-tools.ts'

type There = {
  readonly agents: ReadonlyMap<string, { readonly spec: { readonly groups?: readonly string[] | undefined } }>
  readonly operators: ReadonlyMap<string, { readonly entities: readonly EntityJson[] }>
  readonly tools: ReadonlyMap<string, { readonly tool: Contract }>
}

/**
 * `says`: the text that it is about, and where that is looked for; without one it is about the whole policy. Most are never told: a
 * hint is made for those that are.
 */
type Doubt = {
  readonly says?: { readonly text: string; readonly from: 'scope' | 'conditions' }
  readonly message: string
  readonly hint?: () => string | undefined
}

/** What the validator warns of, and what it can't know: wherever a set is checked, the same is told of it. */
export const allWarnings = (said: readonly FieldError[], set: PolicySet, there: There): FieldError[] =>
  [...said, ...probablyUnmeant(set, there)].slice(0, SHOWN)

/** As many as are shown, in the order of the set. */
function probablyUnmeant({ rules }: PolicySet, there: There): FieldError[] {
  const known = namesOf(there)
  return [...doubtsOf(rules, { ...known, tools: [...there.tools.values()].map(({ tool }) => counted(tool)) }).take(SHOWN)].map(
    ([{ source }, { says, message, hint }]) => {
      const offset = says === undefined ? 0 : whereIn(source.text, says.from, says.text)
      const meant = hint?.()
      return { at: place(source.file, source.whole, source.at + offset), message, ...(meant === undefined ? {} : { hint: meant }) }
    },
  )
}

/** What is said of one policy is said once. */
function* doubtsOf(rules: PolicySet['rules'], known: Known): Generator<[Rule, Doubt]> {
  for (const [id, rule] of rules) {
    if (Object.hasOwn(FLOOR, rule.source.file)) continue
    const said = new Set<string>()
    for (const doubt of doubtsAbout(id, rule, known)) {
      if (said.has(doubt.message)) continue
      said.add(doubt.message)
      yield [rule, doubt]
    }
  }
}

function* doubtsAbout(id: string, rule: Rule, known: Known): Generator<Doubt> {
  yield* unsaid(id, rule)
  yield* unlimited(rule, known)
  const { conditions, ...scope } = rule.applies
  for (const node of nodesIn(scope)) yield* named(node, 'scope', known)
  for (const node of nodesIn(conditions)) {
    yield* named(node, 'conditions', known)
    for (const test of testsIn(node)) yield* never(test, known)
  }
  for (const tool of uncountedBy(rule, known.tools))
    yield {
      says: { text: 'tool.spent', from: 'conditions' },
      message: `\`tool.spent\` stays 0 for \`${tool}\`, whose contract does not say what it spends`,
      hint: () => `name the argument in the tool: "spends": {"arg": "…"}, with \`countersign tools put ${tool}\``,
    }
}

function* unsaid(id: string, { reason, source }: Rule): Generator<Doubt> {
  const missing = [...(source.text.includes('@id(') ? [] : ['`@id`']), ...(reason === null ? ['`@reason`'] : [])]
  if (missing.length > 0)
    yield { message: `no ${missing.join(' and no ')}: decisions call this \`${id}\`${reason === null ? ', and say nothing of why' : ''}` }
}

// ── Everything ──

/** Asks the engine, so that `when { true }` and its equivalents are found too. */
function* unlimited({ effect, source, applies: { principal, action } }: Rule, { people }: Known): Generator<Doubt> {
  if (effect !== 'permit' || action.op !== 'All') return
  const who = principal.op === '==' && 'entity' in principal ? [...people, { uid: principal.entity, attrs: {}, parents: [] }] : people
  if (permitsAnything(source.text, who))
    yield {
      message: 'this permits every action on everything, including actions that are added later; only forbids limit it',
      hint: () => 'limit it to an action (`action in Action::"tool.execute"`), a resource, or a condition on the call',
    }
}

// ── Names ──

type Kind = { readonly word: string; readonly all: ReadonlySet<string> }
type Known = {
  /** By what policies call each kind. */
  readonly names: Readonly<Record<string, Kind>>
  /** How many operators have each role. */
  readonly holders: ReadonlyMap<string, number>
  readonly tools: readonly Counted[]
  /** One principal of each kind, in all groups and roles that exist. */
  readonly people: readonly EntityJson[]
}

function namesOf({ agents, operators, tools }: There): Omit<Known, 'tools'> {
  const roles = [...operators.values()].flatMap(({ entities }) =>
    entities.flatMap(({ parents }) => parents.map((parent) => idOf(parent).id)),
  )
  const groups = new Set([...agents.values()].flatMap(({ spec }) => spec.groups ?? []))
  const someone = (type: string, kind: string, all: Iterable<string>): EntityJson => ({
    uid: { type, id: 'anybody' },
    attrs: {},
    parents: [...all].map((id) => ({ type: kind, id })),
  })
  return {
    people: [someone('Agent', 'Group', groups), someone('Operator', 'Role', new Set(roles)), someone('Worker', 'Pool', [])],
    names: {
      Agent: { word: 'agent', all: new Set(agents.keys()) },
      Group: { word: 'group of agents', all: groups },
      Operator: { word: 'operator', all: new Set(operators.keys()) },
      Tool: { word: 'tool', all: new Set(tools.keys()) },
      ToolGroup: { word: 'group of tools', all: new Set([...tools.values()].flatMap(({ tool }) => tool.groups ?? [])) },
    },
    holders: new Map([...Map.groupBy(roles, (role) => role)].map(([role, all]) => [role, all.length])),
  }
}

type From = 'scope' | 'conditions'

function* named({ type, id }: Readonly<Record<string, unknown>>, from: From, known: Known): Generator<Doubt> {
  if (typeof type === 'string' && typeof id === 'string') yield* nobody(type, id, from, known)
}

function* nobody(kind: string, id: string, from: From, { names }: Known): Generator<Doubt> {
  const known = Object.hasOwn(names, kind) ? names[kind] : undefined
  if (known !== undefined && !known.all.has(id))
    yield { says: { text: id, from }, message: `there is no ${known.word} \`${id}\`: this never applies`, hint: () => near(id, known.all) }
}

function near(text: string, all: Iterable<string>): string | undefined {
  const same = [...all].find((one) => one.toLowerCase() === text.toLowerCase())
  return same === undefined ? undefined : `did you mean \`${same}\`?`
}

// ── Values ──

/** Something of the context, held against what is written out. */
type Test = { readonly op: string; readonly of: string; readonly values: readonly unknown[] }

const HOLDS_AGAINST = ['==', '!=', 'contains', 'containsAny', 'containsAll']
const COUNTERS = ['approval.count', 'approval.independent.count']
/** Whose values are few, and ours. */
const CLOSED: Readonly<Record<string, readonly (string | number)[]>> = {
  'plan.tier': Tier.options,
  'plan.egress_mode': EgressMode.options,
  'plan.workspace': Workspace.options,
  'approval.assurance': [...Assurance.options, 'none'],
  capabilities: Capability.options,
  weekday: [1, 2, 3, 4, 5, 6, 7],
}

function* testsIn(node: Readonly<Record<string, unknown>>): Generator<Test> {
  for (const op of HOLDS_AGAINST) {
    const operands = node[op]
    if (typeof operands !== 'object' || operands === null || !('left' in operands && 'right' in operands)) continue
    const of = (pathOf(operands.left) ?? pathOf(operands.right))?.join('.')
    if (of !== undefined) yield { op, of, values: [operands.left, operands.right].flatMap(valuesIn) }
  }
}

/** The values that an expression is, or lists. */
function valuesIn(node: unknown): unknown[] {
  if (typeof node !== 'object' || node === null) return []
  if ('Value' in node) return [node.Value]
  return 'Set' in node && Array.isArray(node.Set) ? node.Set.flatMap(valuesIn) : []
}

/** What never comes out as whoever wrote it thinks. */
function* never({ op, of, values }: Test, known: Known): Generator<Doubt> {
  const from = 'conditions'
  const [, asked] = /^approval\.(?:independent\.)?(quorum|roles|approvers)$/.exec(of) ?? []
  const closed = Object.hasOwn(CLOSED, of) ? CLOSED[of] : undefined
  for (const value of values) {
    const text = String(value)
    if (closed !== undefined && !closed.some((one) => one === value))
      yield {
        says: { text: typeof value === 'string' ? value : of, from },
        message: `\`${of}\` never holds \`${text}\`; there are ${closed.map((one) => `\`${one}\``).join(', ')}`,
        hint: () => near(text, closed.map(String)) ?? (of === 'weekday' ? 'Monday is 1, Sunday is 7' : undefined),
      }
    if (typeof value !== 'string') continue
    if (of === 'tool_name') yield* nobody('Tool', value, from, known)
    if (asked === 'approvers') yield* nobody('Operator', value, from, known)
    if (asked === 'quorum' || asked === 'roles') yield* unheard(asked, value, known)
  }
  if (COUNTERS.includes(of) && (op === '==' || op === '!='))
    yield {
      says: { text: of, from },
      message: `\`${of} ${op}\` is asked of nobody where more can answer than that: every one of them is supposed to`,
      hint: () => 'write `>=` or `<`',
    }
}

function* unheard(asked: 'quorum' | 'roles', text: string, { holders }: Known): Generator<Doubt> {
  const says = { text, from: 'conditions' } as const
  const [, count = '1', role = text] = /^([1-9][0-9]{0,2}) of (\S.*)$/.exec(asked === 'quorum' ? text : '') ?? []
  if (asked === 'quorum' && role === text) {
    const hint = (): string => {
      const [like] = [...holders.keys()].filter((one) => text.toLowerCase().includes(one.toLowerCase())).sort((a, b) => b.length - a.length)
      const number = /[1-9][0-9]{0,2}/.exec(text)?.[0] ?? '2'
      return like === undefined ? 'write the number and the role, such as "2 of finance"' : `did you mean \`${number} of ${like}\`?`
    }
    yield { says, message: `no approval ever bears \`${text}\`: what asks for it is denied for ever`, hint }
    return
  }
  const held = holders.get(role) ?? 0
  if (held >= Number(count)) return
  const who = held === 0 ? 'no operator has' : held === 1 ? 'only one operator has' : `only ${held} operators have`
  yield {
    says,
    message: `${who} the role \`${role}\``,
    hint: () => 'until enough have it, what asks for this is denied: `countersign operators put`',
  }
}
