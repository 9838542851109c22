// Which JSON Schemas a tool may have. A schema is foreign code that runs on every call, so keywords
// are an allowlist, each value must have the type that its keyword takes (a limit that is misread
// limits nothing), and the total work is limited. The cost of checking given arguments is counted
// in shared/schema/validation-cost.ts.

import type { FieldError } from '../../shared/failures.ts'
import { failure } from '../../shared/failures.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import { sizeOf } from '../../shared/schema/validation-cost.ts'
import type { ToolSpec } from '../../shared/wire/tools.ts'

export type Schema = Record<string, unknown>

/** The values that a keyword takes, and whether they contain further schemas. */
type Rule = {
  readonly takes: string
  readonly fits: (value: unknown) => boolean
  readonly holds?: 'one' | 'many' | 'named'
}

const isObject = (value: unknown): value is Schema =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
const isText = (value: unknown): boolean => typeof value === 'string'
const isTexts = (value: unknown): boolean => Array.isArray(value) && value.every(isText)
const isNumber = (value: unknown): value is number => typeof value === 'number' && Number.isFinite(value)
const isAtMost = (value: unknown, most: number): boolean => isNumber(value) && value <= most
const isSchema = (value: unknown): boolean => typeof value === 'boolean' || isObject(value)

const TYPES: ReadonlySet<unknown> = new Set([
  'null',
  'boolean',
  'object',
  'array',
  'number',
  'integer',
  'string',
])
/** Formats whose checks are linear in the library we use. */
export const FORMATS: ReadonlySet<unknown> = new Set([
  'date',
  'time',
  'date-time',
  'uuid',
  'ipv4',
  'duration',
])
const LOCAL_REF = /^#\/\$defs\/([A-Za-z0-9_.-]{1,64})$/

const one: Rule = { takes: 'a schema', fits: isSchema, holds: 'one' }
const many: Rule = {
  takes: 'a list of schemas',
  fits: (value) => Array.isArray(value) && value.every(isSchema),
  holds: 'many',
}
const named: Rule = {
  takes: 'schemas by name',
  fits: (value) => isObject(value) && Object.values(value).every(isSchema),
  holds: 'named',
}
const text: Rule = { takes: 'a text', fits: isText }
const flag: Rule = { takes: 'true or false', fits: (value) => typeof value === 'boolean' }
const number: Rule = { takes: 'a number', fits: isNumber }
const count: Rule = {
  takes: 'a whole number, not negative',
  fits: (value) => Number.isSafeInteger(value) && Number(value) >= 0,
}
const anything: Rule = { takes: 'anything', fits: () => true }

const KEYWORDS: ReadonlyMap<string, Rule> = new Map<string, Rule>([
  ...['additionalProperties', 'items', 'contains', 'propertyNames', 'not', 'if', 'then', 'else'].map(
    (name) => [name, one] as const,
  ),
  ...['unevaluatedProperties', 'unevaluatedItems'].map((name) => [name, one] as const),
  ...['allOf', 'anyOf', 'oneOf', 'prefixItems'].map((name) => [name, many] as const),
  ...['properties', '$defs', 'dependentSchemas'].map((name) => [name, named] as const),
  ...['$schema', '$comment', 'title', 'description'].map((name) => [name, text] as const),
  ...['deprecated', 'readOnly', 'writeOnly', 'uniqueItems'].map((name) => [name, flag] as const),
  ...['maximum', 'exclusiveMaximum', 'minimum', 'exclusiveMinimum'].map((name) => [name, number] as const),
  ...['maxLength', 'minLength', 'maxItems', 'minItems', 'maxContains', 'minContains'].map(
    (name) => [name, count] as const,
  ),
  ...['maxProperties', 'minProperties'].map((name) => [name, count] as const),
  ...['const', 'default', 'examples'].map((name) => [name, anything] as const),
  ['enum', { takes: 'a list of values', fits: (value) => Array.isArray(value) && value.length > 0 }],
  ['multipleOf', { takes: 'a number above zero', fits: (value) => isNumber(value) && value > 0 }],
  ['required', { takes: 'a list of names', fits: isTexts }],
  [
    'dependentRequired',
    {
      takes: 'lists of names by name',
      fits: (value) => isObject(value) && Object.values(value).every(isTexts),
    },
  ],
  [
    'type',
    {
      takes: 'a type or a list of types',
      fits: (value) => (Array.isArray(value) ? value : [value]).every((type) => TYPES.has(type)),
    },
  ],
  ['format', { takes: `one of ${[...FORMATS].join(', ')}`, fits: (value) => FORMATS.has(value) }],
  [
    '$ref',
    {
      takes: 'a reference within the schema: `#/$defs/name`',
      fits: (value) => isText(value) && LOCAL_REF.test(String(value)),
    },
  ],
])

/** Keywords whose value is compared with the argument: its members count as steps too. */
const COMPARED: ReadonlySet<string> = new Set(['enum', 'const', 'required', 'dependentRequired', 'type'])

/**
 * Checks a tool's schema. `pattern` is refused: a foreign regular expression can stall the edge
 * (G06).
 */
export function checkSchema(schema: Schema): Result<Schema> {
  if (JSON.stringify(schema).length > LIMITS.schema_bytes)
    return err(failure('invalid_schema', `the schema is larger than ${LIMITS.schema_bytes} bytes`))
  const errors = new Errors()
  if (schema['type'] !== 'object') errors.add('/type', 'arguments are an object: set `"type": "object"`')
  new Inspection(schema, errors).inspect(schema, '', 0, [])
  return errors.found.length === 0
    ? ok(schema)
    : err(failure('invalid_schema', 'the schema uses features that tools may not use', errors.found))
}

class Errors {
  readonly #byPlace = new Map<string, string>()
  /** Keeps one error per place, because a definition is visited once per reference. */
  add(at: string, message: string): void {
    if (this.#byPlace.size < 20 && !this.#byPlace.has(at)) this.#byPlace.set(at, message)
  }
  get found(): FieldError[] {
    return [...this.#byPlace].map(([at, message]) => ({ at, message }))
  }
}

/**
 * The spent argument is summed up, so the schema has to declare a whole number that is not
 * negative.
 */
export function checkSpends({
  spends,
  input_schema,
}: Pick<ToolSpec, 'spends' | 'input_schema'>): Result<true> {
  if (spends === undefined) return ok(true)
  const { properties } = input_schema
  const property =
    isObject(properties) && Object.hasOwn(properties, spends.arg) ? properties[spends.arg] : undefined
  const { type, minimum } = isObject(property) ? property : {}
  return type === 'integer' && isNumber(minimum) && minimum >= 0
    ? ok(true)
    : err(
        failure(
          'invalid_schema',
          `amounts are added up: declare \`${spends.arg}\` as {"type": "integer", "minimum": 0}`,
        ),
      )
}

const DEPTH = 16
const TOO_MANY = `up to here, the schema needs more than ${LIMITS.schema_steps} checks and comparisons; a definition counts once per reference`

/**
 * Walks the schema as its evaluation would, following references. If this walk exceeds the limit,
 * no call may run it.
 */
class Inspection {
  readonly #definitions: Schema
  readonly #errors: Errors
  #left = LIMITS.schema_steps

  constructor(root: Schema, errors: Errors) {
    this.#definitions = isObject(root['$defs']) ? root['$defs'] : {}
    this.#errors = errors
  }

  inspect(schema: unknown, at: string, depth: number, through: readonly string[]): void {
    if (!isObject(schema)) return // a boolean; any other value was refused by its keyword's rule
    const stop = this.#stop(depth)
    if (stop === null)
      for (const [keyword, value] of Object.entries(schema))
        this.#keyword(schema, keyword, value, at, depth, through)
    else this.#errors.add(at, stop)
  }

  #stop(depth: number): string | null {
    this.#left--
    if (this.#left < 0) return TOO_MANY
    return depth > DEPTH ? `nested deeper than ${DEPTH}` : null
  }

  #keyword(
    schema: Schema,
    keyword: string,
    value: unknown,
    at: string,
    depth: number,
    through: readonly string[],
  ): void {
    const here = `${at}/${keyword}`
    const rule = KEYWORDS.get(keyword)
    if (rule === undefined) this.#errors.add(here, refusalOf(keyword))
    else if (!rule.fits(value)) this.#errors.add(here, `\`${keyword}\` takes ${rule.takes}`)
    else if (
      keyword === 'uniqueItems' &&
      value === true &&
      !isAtMost(schema['maxItems'], LIMITS.schema_unique_items)
    )
      this.#errors.add(
        here,
        `every pair of items is compared: set \`maxItems\` to at most ${LIMITS.schema_unique_items}`,
      )
    else if (keyword === '$ref') this.#follow(String(value), here, depth, through)
    else if (COMPARED.has(keyword)) this.#compare(value, here)
    else if (rule.holds === 'one') this.inspect(value, here, depth + 1, through)
    else if (rule.holds !== undefined)
      for (const [name, inner] of Object.entries(value as object))
        this.inspect(inner, `${here}/${name}`, depth + 1, through) // a list or a map, as the rule checked
  }

  #compare(value: unknown, at: string): void {
    this.#left -= sizeOf(value)
    if (this.#left < 0) this.#errors.add(at, TOO_MANY)
  }

  #follow(reference: string, at: string, depth: number, through: readonly string[]): void {
    const name = LOCAL_REF.exec(reference)?.[1] ?? ''
    if (!Object.hasOwn(this.#definitions, name)) this.#errors.add(at, `there is no \`${reference}\``)
    else if (through.includes(name))
      this.#errors.add(at, 'a reference may not lead back to its own definition')
    else this.inspect(this.#definitions[name], `/$defs/${name}`, depth + 1, [...through, name])
  }
}

/**
 * An MCP client copies an argument with this keyword into an HTTP header (its tools' transport).
 */
const MCP_HEADER = 'x-mcp-header'

function refusalOf(keyword: string): string {
  if (keyword.startsWith('pattern')) return 'patterns are refused; use `enum`, `const` or lengths'
  return keyword === MCP_HEADER
    ? `\`${MCP_HEADER}\` is refused: MCP clients would copy the argument into an HTTP header; remove the keyword`
    : 'unknown or refused keyword'
}
