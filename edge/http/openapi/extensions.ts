// Writes objects as references to named schemas that have the same fields, or as extensions of
// those that have some of them. Sentences don't count: those of the named schema apply.

import { REF, type Schema, withoutBounds } from './json-schema.ts'

/** Fewer fields in common may be a coincidence; named schemas are compared from three on. */
const LEAST_INLINE = 4
const LEAST_NAMED = 3

type Fields = ReadonlyMap<string, string>
/** A named schema as it is compared: each field as text, with its bounds and without them. */
type Named = {
  readonly name: string
  readonly fields: Fields
  readonly unbounded: Fields
  readonly required: readonly string[]
}

export class Extensions {
  readonly #named: readonly Named[]

  constructor(components: Readonly<Record<string, Schema>>) {
    this.#named = Object.entries(components)
      .map(([name, schema]) => ({
        name,
        fields: textsOf(schema),
        unbounded: textsOf(withoutBounds(schema)),
        required: requiredOf(schema),
      }))
      .filter(({ fields }) => fields.size >= LEAST_NAMED)
      .sort((a, b) => b.fields.size - a.fields.size)
  }

  /** `isOfAnswers`: the schema lacks bounds. `self`: its name, if it has one. */
  write(schema: Schema, isOfAnswers: boolean, self?: string): Schema {
    const inner = (part: Schema): Schema => this.write(part, isOfAnswers)
    const bases: Named[] = []
    let rest = schema
    for (;;) {
      const base = this.#baseOf(rest, isOfAnswers, self)
      if (base === undefined) break
      bases.push(base)
      rest = without(rest, base)
    }
    if (bases.length === 0) return withParts(schema, inner)
    const words = schema['description'] === undefined ? {} : { description: schema['description'] }
    const named = bases.map(({ name }) => ({ $ref: `${REF}${name}` }))
    const own = fieldsOf(rest).length === 0 ? [] : [withParts(rest, inner)]
    const [only] = named
    return named.length === 1 && own.length === 0
      ? { ...only, ...words }
      : { ...words, allOf: [...named, ...own] }
  }

  #baseOf(schema: Schema, isOfAnswers: boolean, self: string | undefined): Named | undefined {
    const fields = textsOf(schema)
    const least = self === undefined ? LEAST_INLINE : LEAST_NAMED
    if (fields.size < least) return undefined
    const required = new Set(requiredOf(schema))
    const isSame = ({ fields: bounded, unbounded }: Named, field: string): boolean => {
      const text = fields.get(field)
      return text === bounded.get(field) || (isOfAnswers && text === unbounded.get(field))
    }
    return this.#named.find(
      (one) =>
        one.name !== self &&
        one.fields.size >= least &&
        (one.fields.size < fields.size ||
          (self === undefined && one.fields.size === fields.size && one.required.length === required.size)) &&
        [...one.fields.keys()].every((field) => isSame(one, field)) &&
        one.required.every((field) => required.has(field)),
    )
  }
}

const fieldsOf = ({ properties = {} }: Schema) => Object.entries(properties as Record<string, Schema>) // an object’s schema
const requiredOf = ({ required = [] }: Schema) => required as string[] // as above

/** The fields of an object that its base doesn't have. */
function without(schema: Schema, { fields, required: known }: Named): Schema {
  const own = fieldsOf(schema).filter(([field]) => !fields.has(field))
  const required = requiredOf(schema).filter((field) => !known.includes(field))
  return {
    type: 'object',
    properties: Object.fromEntries(own),
    ...(required.length === 0 ? {} : { required }),
  }
}

const textsOf = (schema: Schema): Fields =>
  new Map(fieldsOf(schema).map(([field, part]) => [field, JSON.stringify(withoutWords(part))]))

const withoutWords = ({ description: _, ...schema }: Schema): Schema => withParts(schema, withoutWords)

/** Changes the schemas that are parts of a schema. */
function withParts(schema: Schema, change: (part: Schema) => Schema): Schema {
  const changed = ([keyword, value]: [string, unknown]): [string, unknown] => {
    if (keyword === 'properties')
      return [keyword, Object.fromEntries(fieldsOf(schema).map(([field, part]) => [field, change(part)]))]
    if (['anyOf', 'oneOf', 'allOf'].includes(keyword)) return [keyword, (value as Schema[]).map(change)] // lists of schemas
    const isPart = ['items', 'additionalProperties'].includes(keyword) && typeof value === 'object'
    return [keyword, isPart ? change(value as Schema) : value] // both are a schema or a boolean
  }
  return Object.fromEntries(Object.entries(schema).map(changed))
}
