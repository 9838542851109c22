// Whether policies hold against what there is: a set against the tenant's tools when it is put, the active set against a tool when that
// changes. Cedar's strict validator judges; this places what it says by file, line and column. A rule that passes can't err for want of
// an attribute or for a wrong type, whatever a call brings (L6).

import schemaText from '../policies/schema.cedarschema'
import type { FieldError } from '../shared/failures.ts'
import { failure } from '../shared/failures.ts'
import { LIMITS } from '../shared/limits.ts'
import type { Result } from '../shared/result.ts'
import { err, ok } from '../shared/result.ts'
import type { PolicyTexts, Schema } from './policy.ts'
import { readSchema, validate } from './policy.ts'
import type { ToolTypes } from './policy-schema.ts'
import { tenantSchema } from './policy-schema.ts'
import { bytePlace, invalidPolicies, readTexts } from './policy-text.ts'
import type { RecordType } from './typed-arguments.ts'

type Found = { readonly errors: readonly FieldError[]; readonly warnings: readonly FieldError[] }

/** What one can't tell by looking: such a text is refused, though it is well-formed. */
const LOOK_ALIKE = /bidi control|mixed scripts|general security profile|confusable/i

let base: Schema | undefined

/** Holds a whole set, floor included, against all tools. The value is what is probably not meant, though it is no mistake. */
export function checkPolicies(files: PolicyTexts, tools: ReadonlyMap<string, RecordType>): Result<readonly FieldError[]> {
  const { unfit, lookAlikes } = readTexts(files)
  if (unfit.length > 0) return invalidPolicies(unfit)
  const general = rulesOverAllTools(files)
  if (general * tools.size > LIMITS.policy_checks) {
    const detail = `${general} rules over all ${tools.size} tools can’t be checked in time; name the tools in the scope of the rules that read arguments`
    return err(failure('limit_reached', detail))
  }
  const { errors, warnings } = hold(files, tools)
  const all = [...lookAlikes, ...errors]
  return all.length === 0 ? ok(warnings) : invalidPolicies(all)
}

/** Holds a set against a change of one tool (`null`: it is not there). What the set had wrong before, the change does not break. */
export function checkToolChange(
  files: PolicyTexts,
  names: readonly string[],
  name: string,
  before: RecordType | null,
  after: RecordType | null,
): Result<true> {
  const others: [string, null][] = names.filter((other) => other !== name).map((other) => [other, null])
  const errorsWith = (types: RecordType | null) =>
    hold(files, new Map<string, RecordType | null>(types === null ? others : [...others, [name, types]])).errors
  const errors = errorsWith(after)
  if (errors.length === 0) return ok(true)
  const had = new Set(errorsWith(before).map(({ at, message }) => `${at} ${message}`))
  const broken = errors.filter(({ at, message }) => !had.has(`${at} ${message}`))
  if (broken.length === 0) return ok(true)
  const places = broken.slice(0, 20)
  const detail = `${after === null ? 'without' : 'with'} \`${name}\` as it would be, ${broken.length} of the active policies’ rules would not hold`
  return err(failure('tool_breaks_policies', detail, places))
}

function hold(files: PolicyTexts, tools: ToolTypes): Found {
  base ??= readSchema(schemaText)
  const whole = new Joined(files)
  const { errors, warnings } = validate(tenantSchema(base, tools), whole.text)
  const alike = warnings.filter(({ message }) => LOOK_ALIKE.test(message))
  return {
    errors: placed(whole, [...errors, ...alike.map((said) => ({ ...said, hint: 'write it in one script, without invisible characters' }))]),
    warnings: placed(
      whole,
      warnings.filter((said) => !alike.includes(said)),
    ),
  }
}

/** A rule that names the actions of tools as a whole, or no action, is held against each tool. A rough count: it only bounds work. */
function rulesOverAllTools(files: PolicyTexts): number {
  const rules = Object.values(files).flatMap((text) => text.split(';'))
  return rules.filter((rule) => rule.includes('Action::"tool.execute"') || !rule.includes('Action::"')).length
}

/** All files as one text, the way the engine numbers places, and the way back. */
class Joined {
  readonly text: string
  readonly #parts: readonly { file: string; bytes: Uint8Array; from: number }[]

  constructor(files: PolicyTexts) {
    let from = 0
    this.#parts = Object.entries(files).map(([file, text]) => {
      const bytes = new TextEncoder().encode(text)
      const part = { file, bytes, from }
      from += bytes.length + 1
      return part
    })
    this.text = Object.values(files).join('\n')
  }

  place(offset: number | undefined): string {
    const part = offset === undefined ? undefined : this.#parts.findLast(({ from }) => from <= offset)
    return part === undefined || offset === undefined ? 'policies' : bytePlace(part.file, part.bytes, offset - part.from)
  }
}

type Said = ReturnType<typeof validate>['errors'][number]

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
