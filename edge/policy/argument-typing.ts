// A tool's arguments as policy sees them: the Cedar type that its JSON Schema makes, and the arguments of one call as
// values of that type. What can't be typed exactly is left out of policy's sight, and said so. Pure; the schema has passed
// schemas.ts, and the arguments fit it.

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
/** As Cedar's JSON schemas write it. */
export type RecordType = {
  readonly type: 'Record'
  readonly attributes: Readonly<Record<string, Type & { readonly required: boolean }>>
}

/** What policy does not see: where in the arguments, and why. */
export type Unseen = { readonly at: string; readonly reason: string }

export type ArgumentTypes = {
  readonly record: RecordType
  readonly unseen: readonly Unseen[]
  /** What Cedar can't hold exactly is refused, never bent: the human approves what policy saw. */
  readonly convert: (args: Record<string, unknown>) => Result<Record<string, CedarValueJson>>
}

/** A value of the type, or why it is none. */
type Converted = { readonly value: CedarValueJson } | { readonly refused: readonly FieldError[] }
type Seen<T extends Type = Type> = {
  readonly type: T
  readonly convert: (value: unknown, at: string) => Converted
}
/** `nullable`: null may stand there too, and is as if nothing did. */
type Found = { readonly seen: Seen; readonly nullable: boolean } | { readonly unseen: string }

/** Keys that Cedar's JSON reads as something other than data: no argument may pose as an entity. */
const CEDAR_ESCAPES: ReadonlySet<string> = new Set(['__entity', '__extn', '__expr'])

export function argumentTypes(schema: Schema): ArgumentTypes {
  const typing = new Typing(schema)
  const { type, convert } = typing.record(schema, '')
  return {
    record: type,
    unseen: typing.unseen,
    convert: (args) => {
      const converted = convert(args, '')
      if ('refused' in converted)
        return err(
          failure('invalid_arguments', 'policy can’t see these arguments exactly', converted.refused),
        )
      return ok(converted.value as Record<string, CedarValueJson>) // a record converts to a record
    },
  }
}

/** The type as a schema file would write it, on one line. */
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

/** Walks one schema. Any part of a conjunction that pins a type is enough: the rest only narrows what it lets through. */
class Typing {
  readonly unseen: Unseen[] = []
  readonly #definitions: Schema
  #left = LIMITS.policy_attributes

  constructor(root: Schema) {
    this.#definitions = (root['$defs'] ?? {}) as Schema // schemas by name: it has passed schemas.ts
  }

  record(schema: Schema, at: string): Seen<RecordType> {
    const required = new Set((schema['required'] ?? []) as readonly string[]) // texts: it has passed schemas.ts
    const attributes: Record<string, Type & { required: boolean }> = {}
    const parts: [string, Seen['convert']][] = []
    for (const [name, inner] of Object.entries((schema['properties'] ?? {}) as Schema)) {
      const here = `${at}/${name}`
      if (inner === false) continue // nothing may stand there, so there is nothing to see
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
        reason: 'names that `properties` does not list; `"additionalProperties": false` refuses them',
      })
    return { type: { type: 'Record', attributes }, convert: recordOf(parts) }
  }

  #member(name: string, schema: unknown, at: string): Found {
    if (CEDAR_ESCAPES.has(name)) return { unseen: 'Cedar reads this name as something other than data' }
    if (--this.#left < 0)
      return { unseen: `policy sees ${LIMITS.policy_attributes} arguments of a tool at the most` }
    return this.#find(schema, at)
  }

  #find(schema: unknown, at: string): Found {
    if (typeof schema !== 'object' || schema === null) return { unseen: 'it may be of any type' }
    const { $ref, type } = schema as Schema // it has passed schemas.ts
    if (type === undefined && typeof $ref === 'string')
      return this.#find(this.#definitions[$ref.slice('#/$defs/'.length)], at)
    const { kinds, nullable } = kindsOf(schema as Schema)
    const [kind] = kinds
    if (kind === undefined || kinds.length > 1)
      return {
        unseen:
          kinds.length > 1
            ? `it may be ${kinds.join(' or ')}`
            : 'it says no `type` of its own, and none follows from `enum`',
      }
    const scalar = SCALARS[kind]
    if (scalar !== undefined) return { seen: scalar, nullable }
    if (kind === 'array') return this.#list(schema as Schema, at, nullable)
    if (kind !== 'object') return { unseen: 'it is null' }
    if ((schema as Schema)['properties'] === undefined) return { unseen: 'an object without `properties`' }
    return { seen: this.record(schema as Schema, at), nullable }
  }

  #list(schema: Schema, at: string, nullable: boolean): Found {
    if (schema['prefixItems'] !== undefined) return { unseen: 'a list whose items differ by place' }
    if (schema['items'] === undefined) return { unseen: 'a list that does not say what its `items` are' }
    const item = itemOf(schema['items'], this.#definitions)
    return item === undefined
      ? { unseen: `the \`items\` of \`${at}\` are not all of one plain type` }
      : { seen: setOf(item), nullable }
  }
}

function itemOf(schema: unknown, definitions: Schema): Seen<Scalar> | undefined {
  if (typeof schema !== 'object' || schema === null) return undefined
  const { $ref, type } = schema as Schema // it has passed schemas.ts
  if (type === undefined && typeof $ref === 'string')
    return itemOf(definitions[$ref.slice('#/$defs/'.length)], definitions)
  const { kinds, nullable } = kindsOf(schema as Schema)
  return kinds.length === 1 && !nullable ? SCALARS[kinds[0] ?? ''] : undefined
}

/** The types that a schema names itself, or that its listed values have; null apart. */
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

const refuse = (at: string, message: string): Converted => ({ refused: [{ at: at || '/', message }] })

const STRING: Seen<Scalar> = {
  type: { type: 'String' },
  convert: (value, at) => (typeof value === 'string' ? { value } : refuse(at, 'the tool takes a text here')),
}
const BOOLEAN: Seen<Scalar> = {
  type: { type: 'Boolean' },
  convert: (value, at) =>
    typeof value === 'boolean' ? { value } : refuse(at, 'the tool takes true or false here'),
}
const LONG: Seen<Scalar> = {
  type: { type: 'Long' },
  // -0 is 0 to Cedar: say so here, where nobody has to know how it would be handed over.
  convert: (value, at) =>
    Number.isSafeInteger(value)
      ? { value: Number(value) + 0 }
      : refuse(at, 'the tool takes a whole number here, of 2^53 at the most'),
}
const DECIMAL: Seen<Scalar> = {
  type: { type: 'Extension', name: 'decimal' },
  convert: (value, at) => {
    const text = typeof value === 'number' ? decimalText(value) : undefined
    if (text !== undefined) return { value: { __extn: { fn: 'decimal', arg: text } } }
    return refuse(
      at,
      'a number has at most four decimals and 14 digits before them; send it as a string, or as a smaller unit',
    )
  },
}
const SCALARS: Readonly<Record<string, Seen<Scalar> | undefined>> = {
  string: STRING,
  boolean: BOOLEAN,
  integer: LONG,
  number: DECIMAL,
}

/** A decimal is a 64-bit count of ten-thousandths. Beyond this, doubles are further apart than that anyway. */
const LARGEST_DECIMAL = 922_337_203_685_477.5

/** The shortest text that means this double, which is also what digest, approver and worker see of it. */
function decimalText(value: number): string | undefined {
  if (Math.abs(value) > LARGEST_DECIMAL) return undefined
  if (Number.isInteger(value)) return `${value}.0`
  const text = String(value)
  return /^-?[0-9]+\.[0-9]{1,4}$/.test(text) ? text : undefined
}

const setOf = (item: Seen<Scalar>): Seen => ({
  type: { type: 'Set', element: item.type },
  convert: (value, at) => {
    if (!Array.isArray(value)) return refuse(at, 'the tool takes a list here')
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
  (parts: readonly (readonly [string, Seen['convert']])[]): Seen['convert'] =>
  (value, at) => {
    if (typeof value !== 'object' || value === null || Array.isArray(value))
      return refuse(at, 'the tool takes an object here')
    const record: Record<string, CedarValueJson> = {}
    const refused: FieldError[] = []
    for (const [name, convert] of parts) {
      const given: unknown = Object.hasOwn(value, name) ? (value as Record<string, unknown>)[name] : null // an object
      if (given === null) continue // null is nothing
      const converted = convert(given, `${at}/${name}`)
      if ('refused' in converted) refused.push(...converted.refused)
      else record[name] = converted.value
    }
    return refused.length === 0 ? { value: record } : { refused }
  }
