// Validates policies against a tenant's tools: a new policy set against all tools, and a changed
// tool against the active set. Cedar's strict validator finds the mistakes; this file reports them
// by file, line and column. A rule that passes can't fail at run time for a missing attribute or a
// wrong type, whatever a call contains (L6).

import schemaText from '../../policies/schema.cedarschema'
import { digestOf, sha256 } from '../../shared/bytes/json.ts'
import type { FieldError } from '../../shared/failures.ts'
import { failure } from '../../shared/failures.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { ToolSpec } from '../../shared/wire/tools.ts'
import { actionGroups } from '../tools/capabilities.ts'
import type { Schema } from '../tools/schema-rules.ts'
import { argumentTypes, type RecordType } from './argument-typing.ts'
import { type Reading, readingOf, together } from './attribute-reads.ts'
import { compileWithFloor, withFloor } from './built-in.ts'
import type { Schema as CedarSchema, PolicyDiagnostic, PolicySet, PolicyTexts, Rule } from './engine.ts'
import { compile, readSchema, validate } from './engine.ts'
import type { ToolTypes } from './schema.ts'
import { tenantSchema, toolsAlone } from './schema.ts'
import { coversOnlyTools, toolsIn } from './slices.ts'
import { invalidPolicies, place, readTexts, SHOWN, unitsIn } from './text-limits.ts'
import type { Contract } from './tool-rules.ts'
import { actionsIn, placesOfTool, weakenedRules } from './tool-rules.ts'

type Types = NonNullable<ReturnType<ToolTypes['get']>>
type Rules = PolicySet['rules']
type Findings = { readonly errors: readonly FieldError[]; readonly warnings: readonly FieldError[] }

/**
 * Warnings about text that a reader can mistake for other text. We refuse it although it is
 * well-formed.
 */
const LOOK_ALIKE = /bidi control|mixed scripts|general security profile|confusable/i

let base: CedarSchema | undefined

type Tools = readonly (Partial<Pick<ToolSpec, 'executor'>> & {
  readonly name: string
  readonly input_schema: Schema
})[]
type Registered = Contract & Tools[number]

const typesOf = (tool: Tools[number]): Types => ({
  args: argumentTypes(tool.input_schema).record,
  groups: actionGroups(tool),
})

/**
 * Validates a tenant's set, with the floor, against all its tools. On success the value is a list
 * of warnings. `bounded`: refuse a set that takes too long to validate. A rollback is not bounded,
 * because a set that was active before must be accepted again.
 */
export function checkPolicies(
  texts: PolicyTexts,
  tools: Tools,
  bounded = true,
): Result<readonly FieldError[]> {
  const whole = withFloor(texts)
  if (!whole.ok) return whole
  const { lookAlikes } = readTexts(whole.value)
  const set = compile(whole.value)
  if (!set.ok)
    return lookAlikes.length === 0 ? set : invalidPolicies([...lookAlikes, ...(set.error.errors ?? [])])
  if (bounded && costOf(set.value, tools) > LIMITS.policy_checks) {
    const detail = `validating these rules against all ${tools.length} tools would take too long; name the tools they apply to in their scopes`
    return err(failure('limit_reached', detail))
  }
  const heavy = [...set.value.rules.values()].filter(
    (rule) => bounded && worstCaseOf(rule, tools.length) > LIMITS.policy_check_us,
  )
  if (heavy.length > 0) {
    const detail =
      'validating these rules would take too long; name the actions they apply to in their scopes, or split them into smaller rules'
    return err(
      failure(
        'limit_reached',
        detail,
        heavy.slice(0, SHOWN).map(({ source }) => ({
          at: place(source.file, source.whole, source.at),
          message: 'this rule has too many parts for the number of actions it covers',
        })),
      ),
    )
  }
  const unknown = unknownActionsOf(set.value, tools)
  if (unknown.size > SHOWN) {
    const some = [...unknown].slice(0, 3).map((name) => `\`Action::${JSON.stringify(name)}\``)
    const detail = `these rules name ${unknown.size} actions that do not exist, such as ${some.join(', ')}; register a tool before you write rules about it`
    return err(failure('invalid_policy', detail))
  }
  const types = new Map(tools.map((tool) => [tool.name, typesOf(tool)]))
  const { errors, warnings } = validateRules(set.value.rules, types, SHOWN)
  const all = [...lookAlikes, ...errors]
  return all.length === 0 ? ok(warnings.slice(0, SHOWN)) : invalidPolicies(all)
}

/**
 * Validates the active set against one changed tool (`null`: removed). Mistakes that the set had
 * before don't count. A rule also counts as broken if it would stay valid but no longer apply to
 * the tool, or no longer count its calls.
 */
export function checkToolChange(
  texts: PolicyTexts,
  tools: readonly Registered[],
  name: string,
  next: Registered | null,
): Result<true> {
  const set = compileWithFloor(texts)
  if (!set.ok) return ok(true) // a set that does not compile is not active
  const present = tools.find((tool) => tool.name === name) ?? null
  const change = next === null ? `without \`${name}\`` : `with the new \`${name}\``
  const refused = (what: string, broken: readonly FieldError[]) =>
    err(failure('tool_breaks_policies', `${change}, ${what}`, broken.slice(0, SHOWN)))
  if (next === null) {
    const named = placesOfTool(set.value, name)
    if (named.length > 0)
      return refused(`${named.length} of the active rules would name a tool that does not exist`, named)
  } else if (present !== null) {
    const lost = [...weakenedRules(set.value, present, next).take(SHOWN)]
    if (lost.length > 0) return refused('some active rules would no longer apply to it', lost)
    const kind = present.executor?.kind === next.executor?.kind
    if (kind && digestOf(present.input_schema) === digestOf(next.input_schema)) return ok(true) // its argument types did not change
  } else if (costOf(set.value, [...tools, next]) > LIMITS.policy_checks) {
    const detail = `with \`${name}\`, validating the active rules would take too long; name the tools they apply to in their scopes`
    return err(failure('limit_reached', detail))
  }
  const rules = rulesAbout(set.value, name)
  const others = tools
    .filter((tool) => tool.name !== name)
    .map((tool): [string, Types] => [tool.name, { args: null, groups: actionGroups(tool) }])
  const errorsWith = (tool: Registered | null): readonly FieldError[] => {
    const types = new Map(tool === null ? others : [...others, [name, typesOf(tool)]])
    return validateRules(rules, types, Number.POSITIVE_INFINITY).errors
  }
  const errors = errorsWith(next)
  if (errors.length === 0) return ok(true)
  const had = new Set(errorsWith(present).map(({ at, message }) => `${at} ${message}`))
  const broken = errors.filter(({ at, message }) => !had.has(`${at} ${message}`))
  return broken.length === 0
    ? ok(true)
    : refused(`${broken.length} of the active rules would be invalid`, broken)
}

/** The rules that can meet a call of the tool, or name it. No other can depend on its contract. */
const rulesAbout = ({ rules }: PolicySet, tool: string): Rules =>
  new Map(
    [...rules].filter(
      ([, rule]) => toolsIn(rule.weight.scope) === 'all' || actionsOf(rule).includes(`tool.execute/${tool}`),
    ),
  )

/**
 * Rules that were validated without a finding, each with the tools as the rule can tell them apart, by
 * digest. A tenant changes few of its rules and tools at a time.
 */
const passed = new Set<string>()
const PASSED_KEPT = 10_000

/**
 * Validates the rules that have not passed before, each against one tool of each kind. If that finds
 * something, validates all against all tools, because the report counts tools.
 */
function validateRules(rules: Rules, tools: ToolTypes, enough: number): Findings {
  const typed = [...tools.values()].filter(({ args }) => args !== null).length
  const alike = Map.groupBy(
    rules,
    ([, rule]) => `${tellsToolsApart(rule)} ${coversOnlyTools(rule.weight.scope)}`,
  )
  for (const group of alike.values()) {
    const { seen, kinds } = toolsSeenBy(group, tools)
    const keyOf = ({ source }: Rule): string => sha256(`${kinds}\n${source.text}`)
    const left = group.filter(([, rule]) => !passed.has(keyOf(rule)))
    if (left.length === 0) continue
    const onlyTools = left.every(([, rule]) => coversOnlyTools(rule.weight.scope))
    const schema = tenantSchema(onlyTools ? toolsAlone(ours()) : ours(), seen)
    const { errors, warnings } = findingsOf(new Map(left), schema, seen, typed, 1)
    if (errors.length + warnings.length > 0)
      return findingsOf(rules, tenantSchema(ours(), tools), tools, typed, enough)
    if (passed.size > PASSED_KEPT) passed.clear()
    for (const [, rule] of left) passed.add(keyOf(rule))
  }
  return { errors: [], warnings: [] }
}

const actionsOf = (rule: Rule): string[] => actionsIn({ rules: new Map([['', rule]]) })

const tellsToolsApart = (rule: Rule): boolean =>
  readingOf(rule.reads, 'args') !== undefined ||
  actionsOf(rule).some((name) => name.startsWith('tool.execute/'))

/**
 * All tools that the rules name, and one of each kind of the others, with the arguments that the rules
 * read. They can't tell other tools of a kind apart: the arguments that they read have the same types,
 * and the actions have the same groups.
 */
function toolsSeenBy(
  rules: readonly [string, Rule][],
  tools: ToolTypes,
): { readonly seen: ToolTypes; readonly kinds: string } {
  const named = new Set(actionsIn({ rules: new Map(rules) }))
  const reading = readingOf(together(rules.map(([, { reads }]) => reads)), 'args')
  const seen = new Map<string, readonly [string, Types]>()
  for (const [name, { args, groups }] of tools) {
    const isNamed = named.has(`tool.execute/${name}`)
    if (args === null && !isNamed) continue
    const types = { args: args === null ? null : partOf(args, reading), groups }
    const kind = JSON.stringify([isNamed ? name : null, types])
    if (!seen.has(kind)) seen.set(kind, [name, types])
  }
  return { seen: new Map(seen.values()), kinds: [...seen.keys()].sort().join('\n') }
}

/** The arguments that are read. */
function partOf(args: RecordType, reading: Reading | undefined): RecordType {
  if (reading === 'whole') return args
  const read = Object.entries(args.attributes).filter(([name]) => reading?.has(name))
  return { type: 'Record', attributes: Object.fromEntries(read) }
}

/**
 * Validates rules in batches and stops at `enough` mistakes: the engine takes far longer to report
 * a mistake than to pass a correct rule. Batches are as for all `typed` tools of the tenant.
 */
function findingsOf(
  rules: Rules,
  schema: CedarSchema,
  tools: ToolTypes,
  typed: number,
  enough: number,
): Findings {
  const errors: FieldError[] = []
  const warnings: FieldError[] = []
  for (const batch of batchesOf(rules, typed)) {
    const texts = Object.fromEntries(batch.map((id) => [id, rules.get(id)?.source.text ?? '']))
    const found = validate(schema, texts)
    const alike = found.warnings.filter(({ message }) => LOOK_ALIKE.test(message))
    const wrong = [
      ...found.errors.map((one) => withBetterHint(one, tools)),
      ...alike.map((one) => ({ ...one, hint: 'write it in one script, without invisible characters' })),
    ]
    errors.push(...fieldErrorsOf(rules, wrong, enough))
    warnings.push(
      ...fieldErrorsOf(
        rules,
        found.warnings.filter((one) => !alike.includes(one)),
        SHOWN,
      ),
    )
    if (errors.length >= enough) break
  }
  return { errors, warnings }
}

function* batchesOf(rules: Rules, tools: number): Generator<string[]> {
  let [batch, us]: [string[], number] = [[], 0]
  for (const [id, rule] of rules) {
    const worst = worstCaseOf(rule, tools)
    if (batch.length > 0 && us + worst > LIMITS.policy_check_us) {
      yield batch
      ;[batch, us] = [[], 0]
    }
    batch.push(id)
    us += worst
  }
  yield batch
}

/** The number of actions that a rule is validated against. */
function actionCount({ weight: { scope } }: Rule, tools: number): number {
  const own =
    scope.actions === null ? Object.keys(ours()['']?.actions ?? {}).length : scope.actions.uids.length
  return own + (toolsIn(scope) === 'all' ? tools : 0)
}

/** The fixed cost of validating one rule against one action, in parts of a rule. */
const PAIR = 40

/**
 * The cost of validating a set, in parts of rules: each rule's parts times the actions it is
 * validated against.
 */
const costOf = ({ rules }: PolicySet, tools: Tools): number =>
  [...rules.values()].reduce(
    (sum, rule) => sum + actionCount(rule, tools.length) * (PAIR + rule.weight.parts),
    0,
  )

/**
 * The worst-case time for one rule, in µs: every step is a mistake, the engine reports it for every
 * action, and each report contains the rule's text.
 */
const worstCaseOf = (rule: Rule, tools: number): number =>
  actionCount(rule, tools) * rule.weight.steps * (10 + rule.source.text.length / 400)

const ours = (): CedarSchema => (base ??= readSchema(schemaText))

/**
 * Actions that rules name but that do not exist. For each of them the validator searches all known
 * names for a similar one, so we refuse a set with many before the validator sees it.
 */
function unknownActionsOf(set: PolicySet, tools: Tools): ReadonlySet<string> {
  const known = new Set([
    ...Object.keys(ours()['']?.actions ?? {}),
    ...tools.map(({ name }) => `tool.execute/${name}`),
  ])
  return new Set(actionsIn(set).filter((name) => !known.has(name)))
}

/**
 * The engine suggests the nearest name, however different. We replace a far-fetched suggestion with
 * how to register the tool.
 */
function withBetterHint(diagnostic: PolicyDiagnostic, tools: ToolTypes): PolicyDiagnostic {
  const [, action = ''] = /^unrecognized action `Action::"([^"]*)"`/.exec(diagnostic.message) ?? []
  if (tools.has(action)) return { ...diagnostic, hint: `did you mean \`Action::"tool.execute/${action}"\`?` }
  const [, tool] = /^tool\.execute\/(.+)$/.exec(action) ?? []
  const [, suggested = ''] = /Action::"tool\.execute\/([^"]+)"/.exec(diagnostic.hint ?? '') ?? []
  return tool === undefined || isNear(tool, suggested)
    ? diagnostic
    : { ...diagnostic, hint: `no tool \`${tool}\` is registered; register it with \`countersign tools put\`` }
}

/** Whether a common prefix and suffix make up two thirds of the longer name. */
function isNear(one: string, other: string): boolean {
  const length = Math.min(one.length, other.length)
  let [head, tail] = [0, 0]
  while (head < length && one[head] === other[head]) head++
  while (tail < length - head && one.at(-1 - tail) === other.at(-1 - tail)) tail++
  return head + tail >= (Math.max(one.length, other.length) * 2) / 3
}

/**
 * Sorts diagnostics by their place in the text. Of several at one place, which differ only by the
 * action, it keeps one.
 */
function fieldErrorsOf(rules: Rules, diagnostics: readonly PolicyDiagnostic[], most: number): FieldError[] {
  const order = new Map([...rules.keys()].map((id, index) => [id, index]))
  const byPlace = Map.groupBy(diagnostics, ({ policy, start }) => `${policy} ${start}`)
  return [...byPlace.values()]
    .sort(
      ([one], [other]) =>
        (order.get(one?.policy ?? '') ?? 0) - (order.get(other?.policy ?? '') ?? 0) ||
        (one?.start ?? 0) - (other?.start ?? 0),
    )
    .slice(0, most)
    .flatMap((all) => {
      const [first] = all.toSorted((one, other) => (one.message < other.message ? -1 : 1))
      const rule = rules.get(first?.policy ?? '')
      if (first === undefined || rule === undefined) return []
      const { file, whole, at: begin, text } = rule.source
      const hint =
        first.hint ??
        (all.length > 1
          ? `this rule covers ${all.length} actions for which this is a mistake; narrow its scope`
          : undefined)
      const at = place(file, whole, begin + unitsIn(text, first.start ?? 0))
      return [{ at, message: first.message, ...(hint === undefined ? {} : { hint }) }]
    })
}
