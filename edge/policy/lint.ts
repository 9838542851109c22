// Warns about valid policies that are probably mistakes: names that don't exist, values that an
// attribute never has, approvals that nobody can give, limits on spending that no tool reports,
// permits without a limit, and policies without an id or a reason. Warnings refuse nothing. They
// depend on the tenant's current agents, operators and tools.

import type { FieldError } from '../../shared/failures.ts'
import { EgressMode, Tier, Workspace } from '../../shared/plan/plan.ts'
import { Assurance } from '../../shared/wire/approvals.ts'
import { Capability } from '../../shared/wire/tools.ts'
import { nodesIn, pathOf } from './attribute-reads.ts'
import { FLOOR } from './built-in.ts'
import type { EntityJson, PolicySet, Rule } from './engine.ts'
import { permitsAnything } from './engine.ts'
import { idOf } from './slices.ts'
import { positionIn } from './statements.ts'
import { place, SHOWN } from './text-limits.ts'
import type { Contract, SpendingTool } from './tool-rules.ts'
import { spendingTool, toolsWithoutSpending } from './tool-rules.ts'

type Tenant = {
  readonly agents: ReadonlyMap<string, { readonly spec: { readonly groups?: readonly string[] | undefined } }>
  readonly operators: ReadonlyMap<string, { readonly entities: readonly EntityJson[] }>
  readonly tools: ReadonlyMap<string, { readonly tool: Contract }>
}

/**
 * A warning. `quote`: the text it is about and where to look for that; without one it is about the
 * whole policy.
 */
type Warning = {
  readonly quote?: { readonly text: string; readonly from: 'scope' | 'conditions' }
  readonly message: string
  /** Called only for warnings that are shown, because computing it takes time. */
  readonly hint?: () => string | undefined
}

/** The validator's warnings and ours. Every route that checks a set returns this list. */
export const allWarnings = (
  fromValidator: readonly FieldError[],
  set: PolicySet,
  tenant: Tenant,
): FieldError[] => [...fromValidator, ...lint(set, tenant)].slice(0, SHOWN)

/** At most `SHOWN` warnings, in the order of the set. */
function lint({ rules }: PolicySet, tenant: Tenant): FieldError[] {
  const known = namesOf(tenant)
  return [
    ...warningsOf(rules, {
      ...known,
      tools: [...tenant.tools.values()].map(({ tool }) => spendingTool(tool)),
    }).take(SHOWN),
  ].map(([{ source }, { quote, message, hint: hintOf }]) => {
    const offset = quote === undefined ? 0 : positionIn(source.text, quote.from, quote.text)
    const hint = hintOf?.()
    return {
      at: place(source.file, source.whole, source.at + offset),
      message,
      ...(hint === undefined ? {} : { hint }),
    }
  })
}

/** Each message at most once per policy. */
function* warningsOf(rules: PolicySet['rules'], known: Known): Generator<[Rule, Warning]> {
  for (const [id, rule] of rules) {
    if (Object.hasOwn(FLOOR, rule.source.file)) continue
    const reported = new Set<string>()
    for (const warning of warningsAbout(id, rule, known)) {
      if (reported.has(warning.message)) continue
      reported.add(warning.message)
      yield [rule, warning]
    }
  }
}

function* warningsAbout(id: string, rule: Rule, known: Known): Generator<Warning> {
  yield* missingAnnotations(id, rule)
  yield* unlimitedPermit(rule, known)
  const { conditions, ...scope } = rule.applies
  for (const node of nodesIn(scope)) yield* unknownEntity(node, 'scope', known)
  for (const node of nodesIn(conditions)) {
    yield* unknownEntity(node, 'conditions', known)
    for (const comparison of comparisonsIn(node)) yield* impossibleComparison(comparison, known)
  }
  for (const tool of toolsWithoutSpending(rule, known.tools))
    yield {
      quote: { text: 'tool.spent', from: 'conditions' },
      message: `\`tool.spent\` is always 0 for \`${tool}\`: its contract does not declare \`spends\``,
      hint: () =>
        `declare the argument that is spent, "spends": {"arg": "…"}, with \`countersign tools put ${tool}\``,
    }
}

function* missingAnnotations(id: string, { reason, source }: Rule): Generator<Warning> {
  const missing = [
    ...(source.text.includes('@id(') ? [] : ['`@id`']),
    ...(reason === null ? ['`@reason`'] : []),
  ]
  if (missing.length > 0)
    yield {
      message: `no ${missing.join(' and no ')}: decisions call this \`${id}\`${reason === null ? ' and give no reason' : ''}`,
    }
}

/** Asks the engine, so that `when { true }` and its equivalents are found too. */
function* unlimitedPermit(
  { effect, source, applies: { principal, action } }: Rule,
  { people }: Known,
): Generator<Warning> {
  if (effect !== 'permit' || action.op !== 'All') return
  const who =
    principal.op === '==' && 'entity' in principal
      ? [...people, { uid: principal.entity, attrs: {}, parents: [] }]
      : people
  const everything = EVERYTHING.find(({ type }) => permitsAnything(source.text, who, type))
  if (everything !== undefined)
    yield {
      message: `this permits every action on ${everything.words}, including actions that are added later; only a forbid limits it`,
      hint: () =>
        'limit it to an action (`action in Action::"tool.execute"`), a resource, or a condition on the call',
    }
}

/** The types that a permit without a limit may cover. No policy can mention the first. */
const EVERYTHING = [
  { type: 'Lint', words: 'everything' },
  { type: 'Tool', words: 'every tool' },
] as const

// ── Names ──

type Kind = { readonly word: string; readonly all: ReadonlySet<string> }
type Known = {
  /** Keyed by the name of the entity type in policies. */
  readonly names: Readonly<Record<string, Kind>>
  /** How many operators have each role. */
  readonly holders: ReadonlyMap<string, number>
  readonly tools: readonly SpendingTool[]
  /** One principal of each kind, in all groups and roles that exist. */
  readonly people: readonly EntityJson[]
}

function namesOf({ agents, operators, tools }: Tenant): Omit<Known, 'tools'> {
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
    people: [
      someone('Agent', 'Group', groups),
      someone('Operator', 'Role', new Set(roles)),
      someone('Worker', 'Pool', []),
    ],
    names: {
      Agent: { word: 'agent', all: new Set(agents.keys()) },
      Group: { word: 'group of agents', all: groups },
      Operator: { word: 'operator', all: new Set(operators.keys()) },
      Tool: { word: 'tool', all: new Set(tools.keys()) },
      ToolGroup: {
        word: 'group of tools',
        all: new Set([...tools.values()].flatMap(({ tool }) => tool.groups ?? [])),
      },
    },
    holders: new Map([...Map.groupBy(roles, (role) => role)].map(([role, all]) => [role, all.length])),
  }
}

type From = 'scope' | 'conditions'

function* unknownEntity(
  { type, id }: Readonly<Record<string, unknown>>,
  from: From,
  known: Known,
): Generator<Warning> {
  if (typeof type === 'string' && typeof id === 'string') yield* unknownName(type, id, from, known)
}

function* unknownName(kind: string, id: string, from: From, { names }: Known): Generator<Warning> {
  const known = Object.hasOwn(names, kind) ? names[kind] : undefined
  if (known !== undefined && !known.all.has(id))
    yield {
      quote: { text: id, from },
      message: `there is no ${known.word} \`${id}\`, so this never applies`,
      hint: () => suggestion(id, known.all),
    }
}

function suggestion(text: string, all: Iterable<string>): string | undefined {
  const same = [...all].find((one) => one.toLowerCase() === text.toLowerCase())
  return same === undefined ? undefined : `did you mean \`${same}\`?`
}

// ── Values ──

/** An attribute of the context (`of`, with dots) compared with literal values. */
type Comparison = { readonly op: string; readonly of: string; readonly values: readonly unknown[] }

const COMPARISONS = ['==', '!=', 'contains', 'containsAny', 'containsAll']
const COUNTERS = ['approval.count', 'approval.independent.count']
/** Attributes with a fixed list of values. */
const CLOSED_VALUES: Readonly<Record<string, readonly (string | number)[]>> = {
  'plan.tier': Tier.options,
  'plan.egress_mode': EgressMode.options,
  'plan.workspace': Workspace.options,
  'approval.assurance': [...Assurance.options, 'none'],
  capabilities: Capability.options,
  weekday: [1, 2, 3, 4, 5, 6, 7],
}

function* comparisonsIn(node: Readonly<Record<string, unknown>>): Generator<Comparison> {
  for (const op of COMPARISONS) {
    const operands = node[op]
    if (typeof operands !== 'object' || operands === null || !('left' in operands && 'right' in operands))
      continue
    const of = (pathOf(operands.left) ?? pathOf(operands.right))?.join('.')
    if (of !== undefined) yield { op, of, values: [operands.left, operands.right].flatMap(valuesIn) }
  }
}

/** The literal values of an expression: one, or the members of a set. */
function valuesIn(node: unknown): unknown[] {
  if (typeof node !== 'object' || node === null) return []
  if ('Value' in node) return [node.Value]
  return 'Set' in node && Array.isArray(node.Set) ? node.Set.flatMap(valuesIn) : []
}

/** Comparisons that can't have the result that their author expects. */
function* impossibleComparison({ op, of, values }: Comparison, known: Known): Generator<Warning> {
  const from = 'conditions'
  const [, kind] = /^approval\.(?:independent\.)?(quorum|roles|approvers)$/.exec(of) ?? []
  const closed = Object.hasOwn(CLOSED_VALUES, of) ? CLOSED_VALUES[of] : undefined
  for (const value of values) {
    const text = String(value)
    if (closed !== undefined && !closed.some((one) => one === value))
      yield {
        quote: { text: typeof value === 'string' ? value : of, from },
        message: `\`${of}\` is never \`${text}\`; its values are ${closed.map((one) => `\`${one}\``).join(', ')}`,
        hint: () =>
          suggestion(text, closed.map(String)) ?? (of === 'weekday' ? 'Monday is 1, Sunday is 7' : undefined),
      }
    if (typeof value !== 'string') continue
    if (of === 'tool_name') yield* unknownName('Tool', value, from, known)
    if (kind === 'approvers') yield* unknownName('Operator', value, from, known)
    if (kind === 'quorum' || kind === 'roles') yield* unattainableApproval(kind, value, known)
  }
  if (COUNTERS.includes(of) && (op === '==' || op === '!='))
    yield {
      quote: { text: of, from },
      message: `\`${of} ${op}\` never leads to an approval if the number of operators who can answer is higher: the edge assumes that all of them approve`,
      hint: () => 'write `>=` or `<`',
    }
}

function* unattainableApproval(
  kind: 'quorum' | 'roles',
  text: string,
  { holders }: Known,
): Generator<Warning> {
  const quote = { text, from: 'conditions' } as const
  const [, count = '1', role = text] =
    /^([1-9][0-9]{0,2}) of (\S.*)$/.exec(kind === 'quorum' ? text : '') ?? []
  if (kind === 'quorum' && role === text) {
    const hint = (): string => {
      const [like] = [...holders.keys()]
        .filter((one) => text.toLowerCase().includes(one.toLowerCase()))
        .sort((a, b) => b.length - a.length)
      const number = /[1-9][0-9]{0,2}/.exec(text)?.[0] ?? '2'
      return like === undefined
        ? 'write the number and the role, such as "2 of finance"'
        : `did you mean \`${number} of ${like}\`?`
    }
    yield {
      quote,
      message: `no approval can have the quorum \`${text}\`, so calls that need it are always denied`,
      hint,
    }
    return
  }
  const held = holders.get(role) ?? 0
  if (held >= Number(count)) return
  const who =
    held === 0 ? 'no operator has' : held === 1 ? 'only one operator has' : `only ${held} operators have`
  yield {
    quote,
    message: `${who} the role \`${role}\``,
    hint: () =>
      'calls that need this approval are denied until enough operators have the role: `countersign operators put`',
  }
}
