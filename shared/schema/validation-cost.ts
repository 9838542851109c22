// Owns what it takes to hold a value against a schema, counted before it is done: both are somebody else's, and what holds them against each
// other can't be stopped once it has begun. It goes where the validator would go, and says nothing of whether the value fits.

/**
 * About 25 ns each, at the worst: what the library does at each place that a schema is held against, more where it goes on after the first that
 * does not fit, for each of what it compares with, and for what it copies.
 */
const COST = {
  place: 16,
  held: 4,
  told: 16,
  multiple: 64,
  name: 4,
  member: 4,
  copied: 6,
  scalars: 4,
} as const
/** A text is compared, counted and copied that many characters at a time. */
const CHARS = 16

type Members = Readonly<Record<string, unknown>>
type Schema = Readonly<Record<string, unknown>>

const isObject = (value: unknown): value is Members =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
const entriesOf = (value: unknown): [string, unknown][] => (isObject(value) ? Object.entries(value) : [])
const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])

/** Of a value that is compared with: all that it is made of, and its texts. */
export function sizeOf(value: unknown): number {
  if (typeof value === 'string') return 1 + value.length / CHARS
  if (Array.isArray(value)) return value.reduce((sum: number, item) => sum + sizeOf(item), 1)
  return entriesOf(value).reduce((sum, [name, item]) => sum + name.length / CHARS + sizeOf(item), 1)
}

/** What it takes to hold a value against this schema; more than `most` is not counted to its end. */
export function effortOf(schema: Schema, most: number): (value: unknown) => number {
  const sizes = new Map<unknown, number>()
  return (value) => {
    const walk = new Walk(schema, sizes, most)
    walk.at(schema, value)
    return most - walk.left
  }
}

class Walk {
  left: number
  readonly #definitions: unknown
  /** Of what values are compared with. */
  readonly #sizes: Map<unknown, number>
  /** The last value whose members were counted: most are held against several schemas at once. */
  #counted: { readonly value: unknown; readonly members: number } = { value: undefined, members: 0 }

  constructor(root: Schema, sizes: Map<unknown, number>, most: number) {
    this.left = most
    this.#definitions = root['$defs']
    this.#sizes = sizes
  }

  /** One place of the value, held against one schema. How many of its members that has looked at is told. */
  at(schema: unknown, value: unknown): number {
    this.left -= COST.place
    if (this.left < 0 || !isObject(schema)) return 0
    const members = this.#membersOf(value)
    this.left -= COST.member * members + (typeof value === 'string' ? value.length / CHARS : 0)
    let looked = 0
    for (const keyword in schema) {
      if (this.left < 0) return 0
      const held = schema[keyword]
      this.#compares(keyword, held, value, members)
      looked += this.#joins(keyword, held, value)
      if (Array.isArray(value)) looked += this.#items(schema, keyword, held, value)
      else if (isObject(value)) looked += this.#properties(schema, keyword, held, value)
    }
    return Math.min(looked, Array.isArray(value) ? value.length : members)
  }

  #compares(keyword: string, held: unknown, value: unknown, members: number): void {
    if (keyword === 'enum') this.left -= this.#sizeOf(held) + listOf(held).length * members
    else if (keyword === 'const') this.left -= this.#sizeOf(held) + members
    else if (keyword === 'required' || keyword === 'dependentRequired')
      this.left -= COST.name * this.#sizeOf(held)
    else if (keyword === 'type') this.left -= listOf(held).length
    else if (keyword === 'format' && typeof value === 'string') this.left -= value.length
    else if (keyword === 'multipleOf') this.left -= COST.multiple
  }

  /** Schemas that are held against the same place. What these have looked at is copied, where there may be several. */
  #joins(keyword: string, held: unknown, value: unknown): number {
    switch (keyword) {
      case '$ref':
        return this.at(memberOf(this.#definitions, String(held).slice('#/$defs/'.length)), value)
      case 'not':
      case 'then':
      case 'else':
        return this.at(held, value)
      case 'if':
        return this.#copied(this.at(held, value))
      case 'allOf':
      case 'anyOf':
      case 'oneOf':
        return listOf(held).reduce((sum: number, schema) => sum + this.#copied(this.at(schema, value)), 0)
      default:
        return 0
    }
  }

  #copied(looked: number): number {
    this.left -= COST.copied * looked
    return looked
  }

  #items(schema: Schema, keyword: string, held: unknown, items: readonly unknown[]): number {
    const before = listOf(schema['prefixItems']).length
    if (keyword === 'items') return this.#each(items, before, COST.held, () => held)
    if (keyword === 'contains' || keyword === 'unevaluatedItems')
      return this.#each(items, 0, COST.told, () => held)
    if (keyword === 'prefixItems')
      return this.#each(items.slice(0, before), 0, COST.held, (index) => listOf(held)[index])
    if (keyword === 'uniqueItems' && held === true)
      this.left -=
        items.length *
        (items.some((item) => typeof item === 'object') ? sizeOf(items) : sizeOf(items) / COST.scalars)
    return 0
  }

  #each(items: readonly unknown[], from: number, cost: number, schemaOf: (index: number) => unknown): number {
    for (let index = from; index < items.length && this.left >= 0; index++) {
      this.left -= cost
      this.at(schemaOf(index), items[index])
    }
    return items.length - from
  }

  #properties(schema: Schema, keyword: string, held: unknown, value: Members): number {
    let looked = 0
    if (keyword === 'properties' || keyword === 'dependentSchemas')
      for (const name in isObject(held) ? held : {}) {
        this.left -= 1
        if (this.left < 0) break
        if (!Object.hasOwn(value, name)) continue
        const inner = memberOf(held, name)
        looked +=
          keyword === 'properties' ? this.#member(name, COST.held, inner, value[name]) : this.at(inner, value)
      }
    else if (
      keyword === 'additionalProperties' ||
      keyword === 'unevaluatedProperties' ||
      keyword === 'propertyNames'
    )
      for (const name in value) {
        this.left -= 1
        if (this.left < 0) break
        if (keyword === 'additionalProperties' && memberOf(schema['properties'], name) !== undefined) continue
        looked += this.#member(
          name,
          keyword === 'additionalProperties' ? COST.held : COST.told,
          held,
          keyword === 'propertyNames' ? name : value[name],
        )
      }
    return looked
  }

  /** Its name is spelt as a place, a character at a time. */
  #member(name: string, cost: number, schema: unknown, value: unknown): number {
    this.left -= cost + name.length
    this.at(schema, value)
    return 1
  }

  #membersOf(value: unknown): number {
    if (!isObject(value)) return 0
    if (this.#counted.value !== value) this.#counted = { value, members: Object.keys(value).length }
    return this.#counted.members
  }

  #sizeOf(value: unknown): number {
    const size = this.#sizes.get(value) ?? sizeOf(value)
    this.#sizes.set(value, size)
    return size
  }
}

const memberOf = (value: unknown, name: string): unknown =>
  isObject(value) && Object.hasOwn(value, name) ? value[name] : undefined
