// Whether policies hold against what there is: a set against the tenant's tools when it is put, the active set against a tool when that
// changes. Cedar's strict validator judges; this places what it says by file, line and column. A rule that passes can't err for want of
// an attribute or for a wrong type, whatever a call brings (L6).

import schemaText from '../policies/schema.cedarschema'
import type { FieldError } from '../shared/failures.ts'
import { failure } from '../shared/failures.ts'
import { digestOf } from '../shared/json.ts'
import { LIMITS } from '../shared/limits.ts'
import type { Result } from '../shared/result.ts'
import { err, ok } from '../shared/result.ts'
import type { ToolSpec } from '../shared/wire/tools.ts'
import { actionGroups } from './capabilities.ts'
import { readyUnderFloor, underFloor } from './policies.ts'
import type { Schema as CedarSchema, PolicySet, PolicyTexts, Rule, SaidOf } from './policy.ts'
import { compile, readSchema, validate } from './policy.ts'
import type { ToolTypes } from './policy-schema.ts'
import { tenantSchema } from './policy-schema.ts'
import { toolsIn } from './policy-slices.ts'
import { invalidPolicies, place, readTexts, SHOWN, unitsIn } from './policy-text.ts'
import type { Contract } from './policy-tools.ts'
import { actionsIn, lostBy, placesOfTool } from './policy-tools.ts'
import type { Schema } from './schemas.ts'
import { argumentTypes } from './typed-arguments.ts'

type Types = NonNullable<ReturnType<ToolTypes['get']>>
type Found = { readonly errors: readonly FieldError[]; readonly warnings: readonly FieldError[] }

/** What one can't tell by looking: such a text is refused, though it is well-formed. */
const LOOK_ALIKE = /bidi control|mixed scripts|general security profile|confusable/i

let base: CedarSchema | undefined

type Tools = readonly (Partial<Pick<ToolSpec, 'executor'>> & { readonly name: string; readonly input_schema: Schema })[]
type Registered = Contract & Tools[number]

const typesOf = (tool: Tools[number]): Types => ({ args: argumentTypes(tool.input_schema).record, groups: actionGroups(tool) })

/**
 * Holds a tenant's set, with the floor, against all its tools. The value is what is probably not meant, though it is no mistake. `bounded`:
 * whether it may be too much to check; a set that was in force before can be again, whatever has become of the tools since.
 */
export function checkPolicies(texts: PolicyTexts, tools: Tools, bounded = true): Result<readonly FieldError[]> {
  const whole = underFloor(texts)
  if (!whole.ok) return whole
  const { lookAlikes } = readTexts(whole.value)
  const set = compile(whole.value)
  if (!set.ok) return lookAlikes.length === 0 ? set : invalidPolicies([...lookAlikes, ...(set.error.errors ?? [])])
  if (bounded && costOf(set.value, tools) > LIMITS.policy_checks) {
    const detail = `these rules can’t be checked against all ${tools.length} tools in time; name in their scopes the tools that they are about`
    return err(failure('limit_reached', detail))
  }
  const heavy = [...set.value.rules.values()].filter((rule) => bounded && worstOf(rule, tools.length) > LIMITS.policy_check_us)
  if (heavy.length > 0) {
    const detail =
      'what may be wrong with these rules can’t be told in time; name in their scopes the actions that they are about, or write several'
    return err(
      failure(
        'limit_reached',
        detail,
        heavy.slice(0, SHOWN).map(({ source }) => ({
          at: place(source.file, source.whole, source.at),
          message: 'a rule of too many parts, for as many actions as it covers',
        })),
      ),
    )
  }
  const strange = strangersIn(set.value, tools)
  if (strange.size > SHOWN) {
    const some = [...strange].slice(0, 3).map((name) => `\`Action::${JSON.stringify(name)}\``)
    const detail = `these rules name ${strange.size} actions that there are not, ${some.join(', ')} among them; register tools before the rules about them`
    return err(failure('invalid_policy', detail))
  }
  const { errors, warnings } = hold(set.value, new Map(tools.map((tool) => [tool.name, typesOf(tool)])), SHOWN)
  const all = [...lookAlikes, ...errors]
  return all.length === 0 ? ok(warnings.slice(0, SHOWN)) : invalidPolicies(all)
}

/**
 * Holds the active set against one tool as it would be (`null`: gone). What the set had wrong before, the change does not break. Rules
 * that would hold and no longer be about it, or count nothing of it, are broken too.
 */
export function checkToolChange(texts: PolicyTexts, tools: readonly Registered[], name: string, next: Registered | null): Result<true> {
  const set = readyUnderFloor(texts)
  if (!set.ok) return ok(true) // it is not in force
  const present = tools.find((tool) => tool.name === name) ?? null
  const change = next === null ? `without \`${name}\`` : `with \`${name}\` as it would be`
  const refused = (what: string, broken: readonly FieldError[]) =>
    err(failure('tool_breaks_policies', `${change}, ${what}`, broken.slice(0, SHOWN)))
  if (next === null) {
    const named = placesOfTool(set.value, name)
    if (named.length > 0) return refused(`${named.length} of the active rules would be about nothing`, named)
  } else if (present !== null) {
    const lost = [...lostBy(set.value, present, next).take(SHOWN)]
    if (lost.length > 0) return refused('the active rules would no longer hold it to what they say', lost)
    const kind = present.executor?.kind === next.executor?.kind
    if (kind && digestOf(present.input_schema) === digestOf(next.input_schema)) return ok(true) // its arguments are what they were
  } else if (costOf(set.value, [...tools, next]) > LIMITS.policy_checks) {
    const detail = `with \`${name}\` too, the active rules could not be checked in time; name in their scopes the tools that they are about`
    return err(failure('limit_reached', detail))
  }
  const others = new Map<string, Types>(
    tools.filter((tool) => tool.name !== name).map((tool) => [tool.name, { args: null, groups: actionGroups(tool) }]),
  )
  const errorsWith = (tool: Registered | null): readonly FieldError[] =>
    hold(set.value, tool === null ? others : new Map([...others, [name, typesOf(tool)]])).errors
  const errors = errorsWith(next)
  if (errors.length === 0) return ok(true)
  const had = new Set(errorsWith(present).map(({ at, message }) => `${at} ${message}`))
  const broken = errors.filter(({ at, message }) => !had.has(`${at} ${message}`))
  return broken.length === 0 ? ok(true) : refused(`${broken.length} of the active rules would not hold`, broken)
}

/**
 * Rules are held in portions, until there are `enough` mistakes: what is wrong takes the engine far longer to tell than what is right
 * to pass.
 */
function hold({ rules }: PolicySet, tools: ToolTypes, enough: number = Number.POSITIVE_INFINITY): Found {
  const schema = tenantSchema(ours(), tools)
  const typed = [...tools.values()].filter(({ args }) => args !== null).length
  const errors: FieldError[] = []
  const warnings: FieldError[] = []
  for (const portion of portionsOf(rules, typed)) {
    const texts = Object.fromEntries(portion.map((id) => [id, rules.get(id)?.source.text ?? '']))
    const said = validate(schema, texts)
    const alike = said.warnings.filter(({ message }) => LOOK_ALIKE.test(message))
    const wrong = [
      ...said.errors.map((one) => plainer(one, tools)),
      ...alike.map((one) => ({ ...one, hint: 'write it in one script, without invisible characters' })),
    ]
    errors.push(...placed(rules, wrong, enough))
    warnings.push(
      ...placed(
        rules,
        said.warnings.filter((one) => !alike.includes(one)),
        SHOWN,
      ),
    )
    if (errors.length >= enough) break
  }
  return { errors, warnings }
}

function* portionsOf(rules: PolicySet['rules'], tools: number): Generator<string[]> {
  let [portion, us]: [string[], number] = [[], 0]
  for (const [id, rule] of rules) {
    const worst = worstOf(rule, tools)
    if (portion.length > 0 && us + worst > LIMITS.policy_check_us) {
      yield portion
      ;[portion, us] = [[], 0]
    }
    portion.push(id)
    us += worst
  }
  yield portion
}

/** How many actions a rule is held against. */
function actionsOf({ weight: { scope } }: Rule, tools: number): number {
  const own = scope.actions === null ? Object.keys(ours()['']?.actions ?? {}).length : scope.actions.uids.length
  return own + (toolsIn(scope) === 'all' ? tools : 0)
}

/** What each pair of a rule and an action takes besides the parts of the rule. */
const PAIR = 40

/** What holding a set takes, in parts of rules, each as often as there are actions that the rule is held against. */
const costOf = ({ rules }: PolicySet, tools: Tools): number =>
  [...rules.values()].reduce((sum, rule) => sum + actionsOf(rule, tools.length) * (PAIR + rule.weight.parts), 0)

/** What it takes at the worst, in µs: where each step is a mistake, told for each action, and each telling carries the rule's text. */
const worstOf = (rule: Rule, tools: number): number => actionsOf(rule, tools) * rule.weight.steps * (10 + rule.source.text.length / 400)

const ours = (): CedarSchema => (base ??= readSchema(schemaText))

/** Actions that are named and are not there. The validator looks for something like each among all that there are, so it is shown a few. */
function strangersIn(set: PolicySet, tools: Tools): ReadonlySet<string> {
  const known = new Set([...Object.keys(ours()['']?.actions ?? {}), ...tools.map(({ name }) => `tool.execute/${name}`)])
  return new Set(actionsIn(set).filter((name) => !known.has(name)))
}

/** The engine offers the nearest name there is, however far; what it doesn't know is that tools are registered. */
function plainer(said: SaidOf, tools: ToolTypes): SaidOf {
  const [, action = ''] = /^unrecognized action `Action::"([^"]*)"`/.exec(said.message) ?? []
  if (tools.has(action)) return { ...said, hint: `did you mean \`Action::"tool.execute/${action}"\`?` }
  const [, tool] = /^tool\.execute\/(.+)$/.exec(action) ?? []
  const [, offered = ''] = /Action::"tool\.execute\/([^"]+)"/.exec(said.hint ?? '') ?? []
  return tool === undefined || isNear(tool, offered)
    ? said
    : { ...said, hint: `no tool \`${tool}\` is registered: \`countersign tools put\`` }
}

/** Two thirds of the longer one, at its ends, are the other's too. */
function isNear(one: string, other: string): boolean {
  const length = Math.min(one.length, other.length)
  let [head, tail] = [0, 0]
  while (head < length && one[head] === other[head]) head++
  while (tail < length - head && one.at(-1 - tail) === other.at(-1 - tail)) tail++
  return head + tail >= (Math.max(one.length, other.length) * 2) / 3
}

/** In the order of the text; of several at one place, which differ by the action they were held against, the first by name. */
function placed(rules: PolicySet['rules'], said: readonly SaidOf[], most: number): FieldError[] {
  const order = new Map([...rules.keys()].map((id, index) => [id, index]))
  const byPlace = Map.groupBy(said, ({ policy, start }) => `${policy} ${start}`)
  return [...byPlace.values()]
    .sort(
      ([one], [other]) =>
        (order.get(one?.policy ?? '') ?? 0) - (order.get(other?.policy ?? '') ?? 0) || (one?.start ?? 0) - (other?.start ?? 0),
    )
    .slice(0, most)
    .flatMap((all) => {
      const [first] = all.toSorted((one, other) => (one.message < other.message ? -1 : 1))
      const rule = rules.get(first?.policy ?? '')
      if (first === undefined || rule === undefined) return []
      const { file, whole, at: begin, text } = rule.source
      const hint =
        first.hint ??
        (all.length > 1 ? `this rule covers ${all.length} actions for which that is so; scope it to those it is about` : undefined)
      const at = place(file, whole, begin + unitsIn(text, first.start ?? 0))
      return [{ at, message: first.message, ...(hint === undefined ? {} : { hint }) }]
    })
}
