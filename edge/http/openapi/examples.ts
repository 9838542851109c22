// Examples of the API description: requests that a real edge has accepted, and its answers, with
// ids, digests and times replaced. test/infra/openapi-examples.test.ts records and checks them.

import type { Paths } from './answers.ts'
import { COMPONENTS } from './components/all.ts'
import recorded from './examples.json' with { type: 'json' }
import type { Schema } from './json-schema.ts'

export type Example = {
  readonly parameters?: Readonly<Record<string, unknown>>
  readonly request?: unknown
  readonly response?: unknown
  /** A refusal in the form of the route's own protocol. */
  readonly refusal?: unknown
}

export const EXAMPLES: Readonly<Record<string, Example>> = recorded

type Described = { readonly paths: Paths; readonly components: Readonly<Record<string, Schema>> }
type Operation = Paths[string][string]
type Content = NonNullable<Operation['responses'][string]['content']>

/**
 * Gives each operation one example: of its body, or else of its answer. The example of a named
 * schema is in the schema, where the operations that answer with it, or with a list of it, share it.
 */
export function placeExamples({ paths, components }: Described): Described {
  const named = examplesOfSchemas(paths)
  const shown = new ShownSchemas(named, components)
  for (const name of [...named.keys()]) if (shown.extendsShown(components[name])) named.delete(name)
  const withExample = (content: Content | undefined, value: unknown): Content =>
    mapped(content ?? {}, (media) =>
      value === undefined || media.schema === undefined || shown.has(media.schema)
        ? media
        : { ...media, example: value },
    )
  const place = (operation: Operation): Operation => {
    const { request, response } = EXAMPLES[operation.operationId] ?? {}
    const { requestBody, responses } = operation
    const answer = (one: Operation['responses'][string]) =>
      request === undefined && one.content?.[JSON_TYPE] !== undefined
        ? { ...one, content: withExample(one.content, response) }
        : one
    const body = { ...requestBody, content: withExample(requestBody?.content, request) }
    return {
      ...operation,
      ...(requestBody === undefined ? {} : { requestBody: body }),
      responses: mapped(responses, answer),
    }
  }
  return {
    paths: mapped(paths, (methods) => mapped(methods, place)),
    components: mapped(components, (schema, name) =>
      named.has(name) ? { ...schema, examples: [abridged(name, named.get(name), components)] } : schema,
    ),
  }
}

const JSON_TYPE = 'application/json'

const mapped = <T>(
  all: Readonly<Record<string, T>>,
  change: (one: T, name: string) => T,
): Record<string, T> =>
  Object.fromEntries(Object.entries(all).map(([name, one]) => [name, change(one, name)]))

/** The first recorded answer of each named schema; if there is none, the first item of a list. */
function examplesOfSchemas(paths: Paths): Map<string, unknown> {
  const named = new Map<string, unknown>()
  const answers = Object.values(paths)
    .flatMap((methods) => Object.values(methods))
    .flatMap(({ operationId, responses }) => {
      const schema = Object.values(responses)[0]?.content?.[JSON_TYPE]?.schema
      const { request, response } = EXAMPLES[operationId] ?? {}
      return schema === undefined || request !== undefined ? [] : [{ schema, response }]
    })
  const note = (schema: Schema | undefined, value: unknown) => {
    const name = nameOf(schema)
    if (name !== undefined && value !== undefined && !named.has(name)) named.set(name, value)
  }
  for (const { schema, response } of answers) note(schema, response)
  for (const { schema, response } of answers) {
    const { items } = propertiesOf(schema)
    note(items?.['items'] as Schema | undefined, (response as { items?: unknown[] } | undefined)?.items?.[0]) // lists have `items`
  }
  return named
}

/** Leaves out the parts of an example that the description of its schema leaves to words. */
function abridged(name: string, value: unknown, components: Described['components']): unknown {
  if (typeof value !== 'object' || value === null) return value
  const { outlined = [] } = COMPONENTS[name] ?? {}
  const schemas = propertiesOf(components[name] ?? {})
  const parts = Object.entries(value).map(([field, part]: [string, unknown]) => {
    if (typeof part !== 'object' || part === null) return [field, part]
    const union = (schemas[field]?.['anyOf'] ?? [schemas[field]]) as Schema[] // JSON Schema's keyword
    const [named] = union.flatMap((one) => nameOf(one) ?? [])
    if (outlined.includes(field) || (named !== undefined && COMPONENTS[named]?.isOpaque === true))
      return [field, Array.isArray(part) ? [] : {}]
    return [field, named === undefined ? part : abridged(named, part, components)]
  })
  return Object.fromEntries(parts)
}

const nameOf = (schema: Schema | undefined): string | undefined =>
  typeof schema?.['$ref'] === 'string' ? schema['$ref'].split('/').at(-1) : undefined
const propertiesOf = (schema: Schema): Readonly<Record<string, Schema>> =>
  (schema['properties'] ?? {}) as Record<string, Schema> // an object’s schema

const SCALARS = ['string', 'integer', 'number', 'boolean', 'null']

/** Schemas whose examples follow from those of the named schemas in them. */
class ShownSchemas {
  readonly #named: ReadonlyMap<string, unknown>
  readonly #components: Described['components']

  constructor(named: ReadonlyMap<string, unknown>, components: Described['components']) {
    this.#named = named
    this.#components = components
  }

  has(schema: Schema): boolean {
    const name = nameOf(schema)
    if (name !== undefined) return this.#named.has(name) || this.extendsShown(this.#components[name])
    if (schema['type'] === 'array') return this.has(schema['items'] as Schema) // JSON Schema's keyword
    const parts = Object.values(propertiesOf(schema))
    return (
      parts.some((part) => this.has(part)) && parts.every((part) => this.has(part) || this.#isScalar(part))
    )
  }

  /** Whether a schema extends one that has an example. */
  extendsShown(schema: Schema | undefined): boolean {
    const [extended] = (schema?.['allOf'] ?? []) as (Schema | undefined)[] // as `extended` writes it
    return extended !== undefined && this.has(extended)
  }

  #isScalar(schema: Schema): boolean {
    const name = nameOf(schema)
    if (name !== undefined) return this.#isScalar(this.#components[name] ?? {})
    const union = schema['anyOf'] as Schema[] | undefined // JSON Schema's keyword
    if (union !== undefined) return union.every((one) => this.has(one) || this.#isScalar(one))
    return [schema['type']].flat().every((type) => SCALARS.includes(String(type)))
  }
}
