// A tool's arguments: which schemas a tool may bring, whether arguments fit theirs, and what policy sees of them.

import { Validator } from '@cfworker/json-schema'
import type { FieldError } from '../shared/failures.ts'
import { failure } from '../shared/failures.ts'
import { LIMITS } from '../shared/limits.ts'
import type { Result } from '../shared/result.ts'
import { err, ok } from '../shared/result.ts'
import type { CedarValueJson } from './policy.ts'

type Schema = Record<string, unknown>

/** Keywords that take a schema, a list of schemas, or a map of schemas. */
const ONE = new Set([
  'additionalProperties',
  'items',
  'contains',
  'propertyNames',
  'not',
  'if',
  'then',
  'else',
  'unevaluatedProperties',
  'unevaluatedItems',
])
const MANY = new Set(['allOf', 'anyOf', 'oneOf', 'prefixItems'])
const NAMED = new Set(['properties', '$defs', 'dependentSchemas'])
const PLAIN = new Set([
  '$schema',
  '$comment',
  'type',
  'enum',
  'const',
  'multipleOf',
  'maximum',
  'exclusiveMaximum',
  'minimum',
  'exclusiveMinimum',
  'maxLength',
  'minLength',
  'maxItems',
  'minItems',
  'uniqueItems',
  'maxContains',
  'minContains',
  'maxProperties',
  'minProperties',
  'required',
  'dependentRequired',
  'title',
  'description',
  'default',
  'deprecated',
  'readOnly',
  'writeOnly',
  'examples',
  'format',
  '$ref',
])
/** Formats whose checks are linear in the library we use. */
const FORMATS = new Set(['date', 'time', 'date-time', 'uuid', 'ipv4', 'duration'])

/** Whether a tool may bring this schema. No `pattern`: a regular expression of somebody else's can stall the edge (G06). */
export function checkSchema(schema: Schema): Result<Schema> {
  if (JSON.stringify(schema).length > LIMITS.schema_bytes)
    return err(failure('invalid_schema', `the schema is larger than ${LIMITS.schema_bytes} bytes`))
  const errors: FieldError[] = []
  if (schema['type'] !== 'object') errors.push({ at: '/type', message: 'arguments are an object: say `"type": "object"`' })
  inspect(schema, '', 0, errors)
  return errors.length === 0 ? ok(schema) : err(failure('invalid_schema', 'the schema uses what tools may not', errors.slice(0, 20)))
}

function inspect(schema: unknown, at: string, depth: number, errors: FieldError[]): void {
  if (typeof schema === 'boolean') return
  if (typeof schema !== 'object' || schema === null || Array.isArray(schema))
    return void errors.push({ at, message: 'a schema is an object or a boolean' })
  if (depth > 16) return void errors.push({ at, message: 'nested deeper than 16' })
  for (const [keyword, value] of Object.entries(schema)) {
    const here = `${at}/${keyword}`
    const message = refusal(keyword, value)
    if (message !== null) errors.push({ at: here, message })
    for (const [name, inner] of schemasIn(keyword, value)) inspect(inner, name === '' ? here : `${here}/${name}`, depth + 1, errors)
  }
}

/** The schemas that a keyword's value holds, by their place in it. */
function schemasIn(keyword: string, value: unknown): ReadonlyArray<readonly [string, unknown]> {
  if (ONE.has(keyword)) return [['', value]]
  const holds = (MANY.has(keyword) || NAMED.has(keyword)) && typeof value === 'object' && value !== null
  return holds ? Object.entries(value) : []
}

function refusal(keyword: string, value: unknown): string | null {
  if (ONE.has(keyword)) return null
  if (MANY.has(keyword)) return Array.isArray(value) ? null : 'takes a list of schemas'
  if (NAMED.has(keyword)) return typeof value === 'object' && value !== null && !Array.isArray(value) ? null : 'takes schemas by name'
  if (keyword.startsWith('pattern')) return 'patterns are refused; use `enum`, `const` or lengths'
  if (!PLAIN.has(keyword)) return 'unknown or refused keyword'
  if (keyword === 'format' && !FORMATS.has(String(value))) return `unknown format; use one of ${[...FORMATS].join(', ')}`
  if (keyword === '$ref' && !(typeof value === 'string' && value.startsWith('#/$defs/'))) return 'references stay inside: `#/$defs/…`'
  return null
}

export type ArgumentCheck = (args: Record<string, unknown>) => Result<Record<string, unknown>>

/** Compiled once per tool version. */
export function argumentCheck(schema: Schema): ArgumentCheck {
  const validator = new Validator(schema, '2020-12', false)
  return (args) => {
    const { valid, errors } = validator.validate(args)
    if (valid) return ok(args)
    const fields = errors.slice(-8).map(({ instanceLocation, error }) => ({ at: instanceLocation.slice(1) || '/', message: error }))
    return err(failure('invalid_arguments', 'the arguments do not fit the tool’s schema', fields))
  }
}

/** Keys that Cedar's JSON reads as something other than data: no argument may pose as an entity. */
const CEDAR_ESCAPES = new Set(['__entity', '__extn', '__expr'])

/** Arguments as Cedar sees them. What Cedar can't hold exactly is refused, never bent: the human approves what policy saw. */
export function argumentsForPolicy(args: Record<string, unknown>): Result<CedarValueJson> {
  const refused: FieldError[] = []
  const convert = (value: unknown, at: string): CedarValueJson | undefined => {
    if (typeof value === 'string' || typeof value === 'boolean') return value
    if (typeof value === 'number') {
      if (Number.isInteger(value)) return value
      const text = String(value)
      if (/^-?[0-9]{1,12}\.[0-9]{1,4}$/.test(text)) return { __extn: { fn: 'decimal', arg: text } }
      refused.push({ at, message: 'a number has at most four decimals; send it as a string' })
      return undefined
    }
    if (Array.isArray(value)) return value.map((item, i) => convert(item, `${at}/${i}`)).filter((item) => item !== undefined)
    if (value === null || typeof value !== 'object') return undefined
    const record: Record<string, CedarValueJson> = {}
    for (const [key, item] of Object.entries(value)) {
      if (CEDAR_ESCAPES.has(key)) refused.push({ at: `${at}/${key}`, message: 'this name is reserved' })
      const converted = convert(item, `${at}/${key}`)
      if (converted !== undefined) record[key] = converted
    }
    return record
  }
  const converted = convert(args, '') ?? {}
  return refused.length === 0 ? ok(converted) : err(failure('invalid_arguments', 'policy can’t see these arguments exactly', refused))
}
