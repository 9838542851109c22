// Turns the schemas of the route table into JSON Schema, with named components and a sentence on
// each of their fields.

import { z } from 'zod'
import { COMPONENTS, registry } from './components/all.ts'
import { Extensions } from './extensions.ts'
import { mapped, REF, type Schema, withoutBounds } from './json-schema.ts'

type Direction = 'input' | 'output'

/** Marks a reference to the schema of requests, until we know whether that of answers differs. */
const OF_REQUESTS = '~input'

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
    }) as unknown as { properties: { root: Schema }; $defs?: Record<string, Schema> } // `{root: schema}` was converted
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
      ) as Schema // a schema with other references is still a schema
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
    const extensions = new Extensions(Object.fromEntries(components))
    return {
      document: withExtensions(resolve(document), extensions),
      components: Object.fromEntries(
        components.map(([name, schema]) => [name, extensions.write(schema, ofAnswers.has(name), name)]),
      ),
    }
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

type Media = Record<string, { schema?: Schema }>
type Part = Schema & { content?: Media }
type Operation = Schema & { requestBody?: Part; responses: Record<string, Part> }

/** The schemas of bodies and answers of a document as `operation` makes it. */
function withExtensions(document: Schema, extensions: Extensions): Schema {
  const write = (part: Part, isOfAnswers: boolean): Part =>
    part.content === undefined
      ? part
      : {
          ...part,
          content: mapped(part.content, ({ schema, ...rest }) =>
            schema === undefined ? rest : { schema: extensions.write(schema, isOfAnswers), ...rest },
          ),
        }
  const paths = mapped(document['paths'] as Record<string, Record<string, Operation>>, (methods) =>
    mapped(methods, ({ requestBody, responses, ...rest }) => ({
      ...rest,
      ...(requestBody === undefined ? {} : { requestBody: write(requestBody, false) }),
      responses: mapped(responses, (answer) => write(answer, true)),
    })),
  )
  return { ...document, paths }
}

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
