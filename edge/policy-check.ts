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
import { underFloor } from './policies.ts'
import type { Schema as CedarSchema, PolicySet, PolicyTexts } from './policy.ts'
import { compile, readSchema, validate } from './policy.ts'
import { actionsIn, placesOfTool } from './policy-names.ts'
import type { ToolTypes } from './policy-schema.ts'
import { tenantSchema } from './policy-schema.ts'
import { toolsIn } from './policy-slices.ts'
import { BytePlaces, invalidPolicies, readTexts, SHOWN } from './policy-text.ts'
import type { Schema } from './schemas.ts'
import { argumentTypes } from './typed-arguments.ts'

type Found = { readonly errors: readonly FieldError[]; readonly warnings: readonly FieldError[] }

/** What one can't tell by looking: such a text is refused, though it is well-formed. */
const LOOK_ALIKE = /bidi control|mixed scripts|general security profile|confusable/i

let base: CedarSchema | undefined

type Tools = readonly { readonly name: string; readonly input_schema: Schema }[]

/**
 * Holds a tenant's set, with the floor, against all its tools. The value is what is probably not meant, though it is no mistake. `most`: what it may
 * take; a set that was in force before can be again, whatever has become of the tools since.
 */
export function checkPolicies(texts: PolicyTexts, tools: Tools, most: number = LIMITS.policy_checks): Result<readonly FieldError[]> {
  const whole = underFloor(texts)
  if (!whole.ok) return whole
  const { lookAlikes } = readTexts(whole.value)
  const set = compile(whole.value)
  if (!set.ok) return lookAlikes.length === 0 ? set : invalidPolicies([...lookAlikes, ...(set.error.errors ?? [])])
  if (costOf(set.value, tools) > most) {
    const detail = `these rules can’t be checked against all ${tools.length} tools in time; name in their scopes the tools that they are about`
    return err(failure('limit_reached', detail))
  }
  const strange = strangersIn(set.value, tools)
  if (strange.size > SHOWN) {
    const some = [...strange].slice(0, 3).map((name) => `\`Action::${JSON.stringify(name)}\``)
    const detail = `these rules name ${strange.size} actions that there are not, ${some.join(', ')} among them; register tools before the rules about them`
    return err(failure('invalid_policy', detail))
  }
  const { errors, warnings } = hold(whole.value, new Map(tools.map(({ name, input_schema }) => [name, argumentTypes(input_schema).record])))
  const all = [...lookAlikes, ...errors]
  return all.length === 0 ? ok(warnings.slice(0, SHOWN)) : invalidPolicies(all)
}

/** Holds the active set against one tool as it would be (`null`: gone). What the set had wrong before, the change does not break. */
export function checkToolChange(texts: PolicyTexts, tools: Tools, name: string, schema: Schema | null): Result<true> {
  const whole = underFloor(texts)
  if (!whole.ok) return whole
  const named = schema === null ? rulesAbout(whole.value, name) : []
  if (named.length > 0)
    return err(
      failure(
        'tool_breaks_policies',
        `without \`${name}\`, ${named.length} of the active rules would be about nothing`,
        named.slice(0, SHOWN),
      ),
    )
  const others = new Map(tools.filter((tool) => tool.name !== name).map((tool) => [tool.name, null]))
  const errorsWith = (changed: Schema | null): readonly FieldError[] =>
    hold(whole.value, changed === null ? others : new Map([...others, [name, argumentTypes(changed).record]])).errors
  const present = tools.find((tool) => tool.name === name)?.input_schema ?? null
  if (present !== null && schema !== null && digestOf(present) === digestOf(schema)) return ok(true) // to policies it is the same tool
  if (present === null && schema !== null && !isCheckable(whole.value, [...tools, { name, input_schema: schema }])) {
    const detail = `with \`${name}\` too, the active rules could not be checked in time; name in their scopes the tools that they are about`
    return err(failure('limit_reached', detail))
  }
  const errors = errorsWith(schema)
  if (errors.length === 0) return ok(true)
  const before = errorsWith(present)
  const had = new Set(before.map(({ at, message }) => `${at} ${message}`))
  const broken = errors.filter(({ at, message }) => !had.has(`${at} ${message}`))
  if (broken.length === 0) return ok(true)
  const change = schema === null ? `without \`${name}\`` : `with \`${name}\` as it would be`
  return err(failure('tool_breaks_policies', `${change}, ${broken.length} of the active rules would not hold`, broken.slice(0, SHOWN)))
}

/** To the validator a tool that a rule names as its resource need not be there. */
function rulesAbout(files: PolicyTexts, tool: string): readonly FieldError[] {
  const set = compile(files)
  return set.ok ? placesOfTool(set.value, tool) : []
}

function hold(files: PolicyTexts, tools: ToolTypes): Found {
  base ??= readSchema(schemaText)
  const whole = new Joined(files)
  const { errors, warnings } = validate(tenantSchema(base, tools), whole.text)
  const alike = warnings.filter(({ message }) => LOOK_ALIKE.test(message))
  return {
    errors: placed(whole, [
      ...errors.map((said) => plainer(said, tools)),
      ...alike.map((said) => ({ ...said, hint: 'write it in one script, without invisible characters' })),
    ]),
    warnings: placed(
      whole,
      warnings.filter((said) => !alike.includes(said)),
    ),
  }
}

/** Whether it can be put as it is once these are the tools. */
function isCheckable(files: PolicyTexts, tools: Tools): boolean {
  const set = compile(files)
  return set.ok && costOf(set.value, tools) <= LIMITS.policy_checks
}

/** What each pair of a rule and a tool takes besides the parts of the rule. */
const PAIR = 40

/** What holding a set against tools takes, in parts of rules, each as often as there are tools that the rule is held against. */
function costOf({ weights }: PolicySet, tools: Tools): number {
  const names = new Set(tools.map(({ name }) => name))
  return weights.reduce((sum, { scope, parts }) => {
    const covered = toolsIn(scope)
    const count = covered === 'all' ? names.size : covered.filter((name) => names.has(name)).length
    return sum + count * (PAIR + parts)
  }, 0)
}

/** Actions that are named and are not there. The validator looks for something like each among all that there are, so it is shown a few. */
function strangersIn(set: PolicySet, tools: Tools): ReadonlySet<string> {
  base ??= readSchema(schemaText)
  const known = new Set([...Object.keys(base['']?.actions ?? {}), ...tools.map(({ name }) => `tool.execute/${name}`)])
  return new Set(actionsIn(set).filter((name) => !known.has(name)))
}

/** All files as one text, the way the engine numbers places, and the way back. */
class Joined {
  readonly text: string
  readonly #parts: readonly { places: BytePlaces; from: number }[]

  constructor(files: PolicyTexts) {
    let from = 0
    this.#parts = Object.entries(files).map(([file, text]) => {
      const bytes = new TextEncoder().encode(text)
      const part = { places: new BytePlaces(file, bytes), from }
      from += bytes.length + 1
      return part
    })
    this.text = Object.values(files).join('\n')
  }

  place(offset: number | undefined): string {
    const part = offset === undefined ? undefined : this.#parts.findLast(({ from }) => from <= offset)
    return part === undefined || offset === undefined ? 'policies' : part.places.of(offset - part.from)
  }
}

type Said = ReturnType<typeof validate>['errors'][number]

/** The engine offers the nearest name there is, however far; what it doesn't know is that tools are registered. */
function plainer(said: Said, tools: ToolTypes): Said {
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
function placed(whole: Joined, said: readonly Said[]): FieldError[] {
  const byPlace = Map.groupBy(said, ({ start }) => start)
  return [...byPlace]
    .sort(([one = 0], [other = 0]) => one - other)
    .flatMap(([start, all]) => {
      const [first] = all.toSorted((one, other) => (one.message < other.message ? -1 : 1))
      if (first === undefined) return []
      const hint =
        first.hint ??
        (all.length > 1 ? `this rule covers ${all.length} actions for which that is so; scope it to those it is about` : undefined)
      return [{ at: whole.place(start), message: first.message, ...(hint === undefined ? {} : { hint }) }]
    })
}
