// Turns the schemas of the route table into JSON Schema, with named components and a sentence on
// each of their fields.

import { z } from 'zod'
import { COMPONENTS, registry } from './components/all.ts'

export type Schema = Record<string, unknown>
type Direction = 'input' | 'output'

/** Marks a reference to the schema of requests, until we know whether that of answers differs. */
const OF_REQUESTS = '~input'
const REF = '#/components/schemas/'

type Variants = { input?: Schema; output?: Schema }

export class Schemas {
  readonly #found = new Map<string, Variants>()
  readonly #isWhole: boolean

  /** `isWhole`: also describes parts that `outlined` leaves to words. */
  constructor(isWhole: boolean) {
    this.#isWhole = isWhole
  }

  /** The schema, or a reference to its component. */
  of(type: z.ZodType, io: Direction): Schema {
    const { properties, $defs = {} } = z.toJSONSchema(z.object({ root: type }), {
      io,
      target: 'draft-2020-12',
      unrepresentable: 'any',
      reused: 'inline',
      metadata: registry,
      override: ({ jsonSchema }) => {
        // Answers may get new fields, so no schema forbids others. The document says once that
        // requests may not have others.
        if (jsonSchema.additionalProperties === false) delete jsonSchema.additionalProperties
        if (!('pattern' in ((jsonSchema.propertyNames as object | undefined) ?? {})))
          delete jsonSchema.propertyNames
        // zod's bounds of every integer say nothing about this one.
        if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum
        if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum
      },
    }) as unknown as { properties: { root: Schema }; $defs?: Record<string, Schema> } // of an object with this one field
    for (const [name, schema] of Object.entries($defs))
      if (name in COMPONENTS) {
        const variants = this.#found.get(name) ?? {}
        variants[io] ??= described(name, rewritten(schema, io), this.#isWhole)
        this.#found.set(name, variants)
      }
    return rewritten(properties.root, io)
  }

  /** Resolves the references in a finished document, and returns its components. */
  finish(document: Schema): { document: Schema; components: Record<string, Schema> } {
    this.#dropUnused(document)
    const twofold = this.#twofold()
    const resolve = (value: Schema): Schema =>
      JSON.parse(
        JSON.stringify(value).replaceAll(/#\/components\/schemas\/(\w+)~input/g, (_, name: string) =>
          twofold.has(name) ? `${REF}${name}Input` : `${REF}${name}`,
        ),
      ) as Schema // a schema before, and a schema after
    const components = [...this.#found].flatMap(([name, { input, output }]) => {
      if (twofold.has(name) && input !== undefined && output !== undefined)
        return [[name, resolve(output)] as const, [`${name}Input`, resolve(input)] as const]
      return [
        [
          name,
          resolve(input === undefined && output !== undefined ? withoutBounds(output) : (input ?? {})),
        ] as const,
      ]
    })
    components.sort(([a], [b]) => (a < b ? -1 : 1))
    const ofAnswers = new Set([...this.#found].flatMap(([name, { input }]) => (input ? [] : [name])))
    return { document: resolve(document), components: extended(Object.fromEntries(components), ofAnswers) }
  }

  /** Drops what only parts that are left to words refer to. Bases are used later. */
  #dropUnused(document: Schema): void {
    const used = new Set<string>()
    const visit = (text: string): void => {
      for (const [, name = '', marked] of text.matchAll(/schemas\/(\w+)(~input)?/g)) {
        const io = marked === undefined ? 'output' : 'input'
        if (used.has(`${name} ${io}`)) continue
        used.add(`${name} ${io}`)
        visit(JSON.stringify(this.#found.get(name)?.[io] ?? {}))
      }
    }
    visit(JSON.stringify(document))
    for (const [name, variants] of this.#found) {
      if (COMPONENTS[name]?.isBase) continue
      for (const io of ['input', 'output'] as const) if (!used.has(`${name} ${io}`)) delete variants[io]
      if (variants.input === undefined && variants.output === undefined) this.#found.delete(name)
    }
  }

  /** Components whose requests differ from their answers, themselves or in a part. */
  #twofold(): ReadonlySet<string> {
    const twofold = new Set<string>()
    for (let size = -1; size !== twofold.size; ) {
      size = twofold.size
      for (const [name, { input, output }] of this.#found) {
        if (input === undefined || output === undefined) continue
        const text = JSON.stringify(input)
        const parts = [...text.matchAll(/schemas\/(\w+)~input/g)].map(([, part = '']) => part)
        const differs = text.replaceAll(OF_REQUESTS, '') !== JSON.stringify(output)
        if (differs || parts.some((part) => twofold.has(part))) twofold.add(name)
      }
    }
    return twofold
  }
}

/** Writes a component that has all fields of another one as that component and the other fields. */
function extended(
  components: Record<string, Schema>,
  ofAnswers: ReadonlySet<string>,
): Record<string, Schema> {
  const all = Object.entries(components)
  return Object.fromEntries(
    all.map(([name, schema]) => {
      const [base] = all
        .filter(([other, part]) => other !== name && isPartOf(part, schema, ofAnswers.has(name)))
        .sort(([, a], [, b]) => fieldsOf(b).length - fieldsOf(a).length)
      if (base === undefined) return [name, schema]
      const own = fieldsOf(base[1]).map(([field]) => field)
      const required = requiredOf(schema).filter((field) => !requiredOf(base[1]).includes(field))
      const rest = {
        type: 'object',
        properties: Object.fromEntries(fieldsOf(schema).filter(([field]) => !own.includes(field))),
        ...(required.length === 0 ? {} : { required }),
      }
      return [name, { description: schema['description'], allOf: [{ $ref: `${REF}${base[0]}` }, rest] }]
    }),
  )
}

const fieldsOf = ({ properties = {} }: Schema) => Object.entries(properties as Record<string, Schema>) // an object’s schema
const requiredOf = ({ required = [] }: Schema) => required as string[] // as above

/**
 * Fields of answers lack their bounds (`withoutBounds`), and keep them where they extend others.
 */
function isPartOf(part: Schema, whole: Schema, isOfAnswers: boolean): boolean {
  const fields = new Map(fieldsOf(whole))
  const parts = fieldsOf(part)
  const isSame = (field: string, schema: Schema): boolean => {
    const text = JSON.stringify(fields.get(field))
    return text === JSON.stringify(schema) || (isOfAnswers && text === JSON.stringify(withoutBounds(schema)))
  }
  return (
    parts.length >= 3 &&
    parts.length < fields.size &&
    parts.every(([field, schema]) => isSame(field, schema)) &&
    requiredOf(part).every((field) => requiredOf(whole).includes(field))
  )
}

const BOUNDS = [
  'pattern',
  'minLength',
  'maxLength',
  'minimum',
  'maximum',
  'minItems',
  'maxItems',
  'propertyNames',
]

/** Fields that only the edge writes need no bounds, because no caller has to keep them. */
const withoutBounds = (schema: Schema): Schema =>
  JSON.parse(JSON.stringify(schema), (key, value: unknown) =>
    typeof value === 'object' && value !== null && !Array.isArray(value) && key !== 'properties'
      ? Object.fromEntries(Object.entries(value).filter(([name]) => !BOUNDS.includes(name)))
      : value,
  ) as Schema // a schema before, and a schema after

/** Our only recursive schema is JSON itself; its local reference would break inside a document. */
const rewritten = (schema: Schema, io: Direction): Schema =>
  JSON.parse(
    JSON.stringify(schema).replaceAll(/"#\/\$defs\/(\w+)"/g, (_, name: string) =>
      name in COMPONENTS ? `"${REF}${name}${io === 'input' ? OF_REQUESTS : ''}"` : `"${REF}Json"`,
    ),
    (_, value: unknown) => (isObject(value) ? nullable(value) : value),
  ) as Schema // as above

const isObject = (value: unknown): value is Schema =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Writes a number or a text that may be null as one schema with two types. */
function nullable(schema: Schema): Schema {
  const { anyOf, ...rest } = schema
  const [one, other, ...more] = (anyOf ?? []) as Schema[] // JSON Schema's keyword
  const isPlain =
    typeof one?.['type'] === 'string' && !('enum' in one) && !('const' in one) && !('properties' in one)
  return isPlain && one['type'] !== 'array' && other?.['type'] === 'null' && more.length === 0
    ? { ...one, type: [one['type'], 'null'], ...rest }
    : schema
}

/** Adds the sentences on fields. */
function described(name: string, schema: Schema, isWhole: boolean): Schema {
  const { fields = {}, isOpaque, outlined = [], description } = COMPONENTS[name] ?? {}
  if (isOpaque === true) return { type: 'object', description }
  const properties = schema['properties'] as Record<string, Schema> | undefined // an object’s schema
  if (properties === undefined) return schema
  const withText = Object.entries(properties).map(([field, whole]) => {
    const description = fields[field]
    const value = !isWhole && outlined.includes(field) ? outlineOf(whole) : whole
    return [field, description === undefined || description === '' ? value : { ...value, description }]
  })
  return { ...schema, properties: Object.fromEntries(withText) }
}

const outlineOf = ({ type }: Schema): Schema =>
  type === 'array' ? { type, items: {} } : { type: 'object', additionalProperties: {} }
