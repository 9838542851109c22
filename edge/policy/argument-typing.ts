// Derives a Cedar record type from a tool's JSON Schema, and converts the arguments of a call to
// it. Arguments that have no exact Cedar type are hidden from policy and listed as `unseen`. Pure;
// expects a schema that passed tools/schema-rules.ts, and arguments that fit it.

import type { FieldError } from '../../shared/failures.ts'
import { failure } from '../../shared/failures.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { Schema } from '../tools/schema-rules.ts'
import type { CedarValueJson } from './engine.ts'

type Scalar =
  | { readonly type: 'String' | 'Long' | 'Boolean' }
  | { readonly type: 'Extension'; readonly name: 'decimal' }
type Type = Scalar | { readonly type: 'Set'; readonly element: Scalar } | RecordType
/** In the form of Cedar's JSON schemas. */
export type RecordType = {
  readonly type: 'Record'
  readonly attributes: Readonly<Record<string, Type & { readonly required: boolean }>>
}

/** An argument that policy does not see, and why. */
export type UnseenArgument = { readonly at: string; readonly reason: string }

export type ArgumentTypes = {
  readonly record: RecordType
  readonly unseen: readonly UnseenArgument[]
  /** Refuses values that Cedar can't hold exactly: policy must see what the human approves. */
  readonly convert: (args: Record<string, unknown>) => Result<Record<string, CedarValueJson>>
}

/** A value of the type, or why it can't be converted. */
type Conversion = { readonly value: CedarValueJson } | { readonly refused: readonly FieldError[] }
type TypedPart<T extends Type = Type> = {
  readonly type: T
  readonly convert: (value: unknown, at: string) => Conversion
}
/** `nullable`: null is allowed and counts as absent. */
type TypingResult = { readonly seen: TypedPart; readonly nullable: boolean } | { readonly unseen: string }

/** Keys that Cedar's JSON does not read as data. With them an argument could pose as an entity. */
const CEDAR_ESCAPES: ReadonlySet<string> = new Set(['__entity', '__extn', '__expr'])

export function argumentTypes(schema: Schema): ArgumentTypes {
  const typing = new SchemaTyping(schema)
  const { type, convert } = typing.record(schema, '')
  return {
    record: type,
    unseen: typing.unseen,
    convert: (args) => {
      const converted = convert(args, '')
      if ('refused' in converted)
        return err(
          failure('invalid_arguments', 'policy can’t represent these arguments exactly', converted.refused),
        )
      return ok(converted.value as Record<string, CedarValueJson>) // a record converts to a record
    },
  }
}

/** The type in the syntax of a Cedar schema, on one line. */
export function typeText(type: Type): string {
  if (type.type === 'Set') return `Set<${typeText(type.element)}>`
  if (type.type === 'Extension') return type.name
  if (type.type !== 'Record') return type.type === 'Boolean' ? 'Bool' : type.type
  const attributes = Object.entries(type.attributes).map(([name, of]) => {
    const key = /^[A-Za-z_]\w*$/.test(name) ? name : JSON.stringify(name)
    return `${key}${of.required ? '' : '?'}: ${typeText(of)}`
  })
  return attributes.length === 0 ? '{}' : `{ ${attributes.join(', ')} }`
}

/** Walks one schema. Keywords next to the type are ignored, because they only narrow the values. */
class SchemaTyping {
  readonly unseen: UnseenArgument[] = []
  readonly #definitions: Schema
  #left = LIMITS.policy_attributes

  constructor(root: Schema) {
    this.#definitions = (root['$defs'] ?? {}) as Schema // schema-rules.ts has checked it
  }

  record(schema: Schema, at: string): TypedPart<RecordType> {
    const required = new Set((schema['required'] ?? []) as readonly string[]) // also checked there
    const attributes: Record<string, Type & { required: boolean }> = {}
    const parts: [string, TypedPart['convert']][] = []
    for (const [name, inner] of Object.entries((schema['properties'] ?? {}) as Schema)) {
      const here = `${at}/${name}`
      if (inner === false) continue // no value is allowed, so there is nothing to see
      const found = this.#member(name, inner, here)
      if ('unseen' in found) {
        this.unseen.push({ at: here, reason: found.unseen })
        continue
      }
      attributes[name] = { ...found.seen.type, required: required.has(name) && !found.nullable }
      parts.push([name, found.seen.convert])
    }
    if (schema['additionalProperties'] !== false)
      this.unseen.push({
        at: `${at}/*`,
        reason: '`properties` does not list these names; `"additionalProperties": false` would refuse them',
      })
    return { type: { type: 'Record', attributes }, convert: recordOf(parts) }
  }

  #member(name: string, schema: unknown, at: string): TypingResult {
    if (CEDAR_ESCAPES.has(name)) return { unseen: 'Cedar reads this name as something other than data' }
    if (--this.#left < 0)
      return { unseen: `policy sees at most ${LIMITS.policy_attributes} arguments of a tool` }
    return this.#find(schema, at)
  }

  #find(schema: unknown, at: string): TypingResult {
    if (typeof schema !== 'object' || schema === null) return { unseen: 'it may be of any type' }
    const { $ref, type } = schema as Schema // schema-rules.ts has checked it
    if (type === undefined && typeof $ref === 'string')
      return this.#find(this.#definitions[$ref.slice('#/$defs/'.length)], at)
    const { kinds, nullable } = kindsOf(schema as Schema)
    const [kind] = kinds
    if (kind === undefined || kinds.length > 1)
      return {
        unseen:
          kinds.length > 1
            ? `it may be ${kinds.join(' or ')}`
            : 'its schema has no `type`, and none follows from `enum`',
      }
    const scalar = SCALARS[kind]
    if (scalar !== undefined) return { seen: scalar, nullable }
    if (kind === 'array') return this.#list(schema as Schema, at, nullable)
    if (kind !== 'object') return { unseen: 'it is null' }
    if ((schema as Schema)['properties'] === undefined) return { unseen: 'an object without `properties`' }
    return { seen: this.record(schema as Schema, at), nullable }
  }

  #list(schema: Schema, at: string, nullable: boolean): TypingResult {
    if (schema['prefixItems'] !== undefined) return { unseen: 'a list whose items have a type by position' }
    if (schema['items'] === undefined) return { unseen: 'a list whose schema has no `items`' }
    const item = itemOf(schema['items'], this.#definitions)
    return item === undefined
      ? { unseen: `the \`items\` of \`${at}\` are not all of one scalar type` }
      : { seen: setOf(item), nullable }
  }
}

function itemOf(schema: unknown, definitions: Schema): TypedPart<Scalar> | undefined {
  if (typeof schema !== 'object' || schema === null) return undefined
  const { $ref, type } = schema as Schema // schema-rules.ts has checked it
  if (type === undefined && typeof $ref === 'string')
    return itemOf(definitions[$ref.slice('#/$defs/'.length)], definitions)
  const { kinds, nullable } = kindsOf(schema as Schema)
  return kinds.length === 1 && !nullable ? SCALARS[kinds[0] ?? ''] : undefined
}

/** The types that a schema declares, or that its listed values have, without null. */
function kindsOf(schema: Schema): { kinds: readonly string[]; nullable: boolean } {
  const values = schema['enum'] ?? ('const' in schema ? [schema['const']] : [])
  const all =
    schema['type'] === undefined ? (values as unknown[]).map(kindOf) : [schema['type']].flat().map(String)
  const kinds = [...new Set(all)].filter((kind) => kind !== 'null')
  return { kinds, nullable: all.includes('null') && kinds.length > 0 }
}

const kindOf = (value: unknown): string =>
  value === null
    ? 'null'
    : Array.isArray(value)
      ? 'array'
      : Number.isSafeInteger(value)
        ? 'integer'
        : typeof value

const refuse = (at: string, message: string): Conversion => ({ refused: [{ at: at || '/', message }] })

const STRING: TypedPart<Scalar> = {
  type: { type: 'String' },
  convert: (value, at) =>
    typeof value === 'string' ? { value } : refuse(at, 'the tool expects a string here'),
}
const BOOLEAN: TypedPart<Scalar> = {
  type: { type: 'Boolean' },
  convert: (value, at) =>
    typeof value === 'boolean' ? { value } : refuse(at, 'the tool expects true or false here'),
}
const LONG: TypedPart<Scalar> = {
  type: { type: 'Long' },
  // Cedar has no -0. Adding 0 turns -0 into 0 here, independently of how values are serialized.
  convert: (value, at) =>
    Number.isSafeInteger(value)
      ? { value: Number(value) + 0 }
      : refuse(at, 'the tool expects an integer of at most 2^53 here'),
}
const DECIMAL: TypedPart<Scalar> = {
  type: { type: 'Extension', name: 'decimal' },
  convert: (value, at) => {
    const text = typeof value === 'number' ? decimalText(value) : undefined
    if (text !== undefined) return { value: { __extn: { fn: 'decimal', arg: text } } }
    return refuse(
      at,
      'a number may have at most four decimals and 14 digits before them; send it as a string, or in a smaller unit',
    )
  },
}
const SCALARS: Readonly<Record<string, TypedPart<Scalar> | undefined>> = {
  string: STRING,
  boolean: BOOLEAN,
  integer: LONG,
  number: DECIMAL,
}

/**
 * A Cedar decimal is a 64-bit count of ten-thousandths. Larger doubles are further apart than that.
 */
const LARGEST_DECIMAL = 922_337_203_685_477.5

/** The shortest text for this double. Digest, approver and worker see the same one. */
function decimalText(value: number): string | undefined {
  if (Math.abs(value) > LARGEST_DECIMAL) return undefined
  if (Number.isInteger(value)) return `${value}.0`
  const text = String(value)
  return /^-?[0-9]+\.[0-9]{1,4}$/.test(text) ? text : undefined
}

const setOf = (item: TypedPart<Scalar>): TypedPart => ({
  type: { type: 'Set', element: item.type },
  convert: (value, at) => {
    if (!Array.isArray(value)) return refuse(at, 'the tool expects a list here')
    const values: CedarValueJson[] = []
    for (const [i, one] of (value as unknown[]).entries()) {
      const converted = item.convert(one, `${at}/${i}`)
      if ('refused' in converted) return converted
      values.push(converted.value)
    }
    return { value: values }
  },
})

const recordOf =
  (parts: readonly (readonly [string, TypedPart['convert']])[]): TypedPart['convert'] =>
  (value, at) => {
    if (typeof value !== 'object' || value === null || Array.isArray(value))
      return refuse(at, 'the tool expects an object here')
    const record: Record<string, CedarValueJson> = {}
    const refused: FieldError[] = []
    for (const [name, convert] of parts) {
      const given: unknown = Object.hasOwn(value, name) ? (value as Record<string, unknown>)[name] : null
      if (given === null) continue // null counts as absent
      const converted = convert(given, `${at}/${name}`)
      if ('refused' in converted) refused.push(...converted.refused)
      else record[name] = converted.value
    }
    return refused.length === 0 ? { value: record } : { refused }
  }
