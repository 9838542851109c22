// Computes the cost of validating a value against a schema before the validator runs: both are
// untrusted, and a running validation can't be interrupted. It visits the same places as the
// validator, without judging whether the value fits.

/**
 * Steps of the validator, of about 25 ns at worst: for each place that it checks, more where it
 * continues after the first mismatch, and for each value that it compares or copies.
 */
const COST = {
  place: 16,
  checked: 4,
  collected: 16,
  multiple: 64,
  name: 4,
  member: 4,
  copied: 6,
  scalars: 4,
} as const
/** Texts are compared, counted and copied this many characters per step. */
const CHARS = 16

type Members = Readonly<Record<string, unknown>>
type Schema = Readonly<Record<string, unknown>>

const isObject = (value: unknown): value is Members =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
const entriesOf = (value: unknown): [string, unknown][] => (isObject(value) ? Object.entries(value) : [])
const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])

/** The size of a value in comparisons: its members and items, and its texts. */
export function sizeOf(value: unknown): number {
  if (typeof value === 'string') return 1 + value.length / CHARS
  if (Array.isArray(value)) return value.reduce((sum: number, item) => sum + sizeOf(item), 1)
  return entriesOf(value).reduce((sum, [name, item]) => sum + name.length / CHARS + sizeOf(item), 1)
}

/** The cost of validating a value against this schema. Counting stops once it exceeds `most`. */
export function validationCost(schema: Schema, most: number): (value: unknown) => number {
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
  /** Sizes of the values in the schema that values are compared with. */
  readonly #sizes: Map<unknown, number>
  /** A cache of one: most values are checked against several schemas in a row. */
  #counted: { readonly value: unknown; readonly members: number } = { value: undefined, members: 0 }

  constructor(root: Schema, sizes: Map<unknown, number>, most: number) {
    this.left = most
    this.#definitions = root['$defs']
    this.#sizes = sizes
  }

  /**
   * Counts one place of the value against one schema. Returns how many of its members were visited.
   */
  at(schema: unknown, value: unknown): number {
    this.left -= COST.place
    if (this.left < 0 || !isObject(schema)) return 0
    const members = this.#membersOf(value)
    this.left -= COST.member * members + (typeof value === 'string' ? value.length / CHARS : 0)
    let visited = 0
    for (const keyword in schema) {
      if (this.left < 0) return 0
      const operand = schema[keyword]
      this.#compares(keyword, operand, value, members)
      visited += this.#joins(keyword, operand, value)
      if (Array.isArray(value)) visited += this.#items(schema, keyword, operand, value)
      else if (isObject(value)) visited += this.#properties(schema, keyword, operand, value)
    }
    return Math.min(visited, Array.isArray(value) ? value.length : members)
  }

  #compares(keyword: string, operand: unknown, value: unknown, members: number): void {
    if (keyword === 'enum') this.left -= this.#sizeOf(operand) + listOf(operand).length * members
    else if (keyword === 'const') this.left -= this.#sizeOf(operand) + members
    else if (keyword === 'required' || keyword === 'dependentRequired')
      this.left -= COST.name * this.#sizeOf(operand)
    else if (keyword === 'type') this.left -= listOf(operand).length
    else if (keyword === 'format' && typeof value === 'string') this.left -= value.length
    else if (keyword === 'multipleOf') this.left -= COST.multiple
  }

  /**
   * Schemas that apply to the same place. The validator copies what they visited if there may be
   * several.
   */
  #joins(keyword: string, operand: unknown, value: unknown): number {
    switch (keyword) {
      case '$ref':
        return this.at(memberOf(this.#definitions, String(operand).slice('#/$defs/'.length)), value)
      case 'not':
      case 'then':
      case 'else':
        return this.at(operand, value)
      case 'if':
        return this.#copied(this.at(operand, value))
      case 'allOf':
      case 'anyOf':
      case 'oneOf':
        return listOf(operand).reduce((sum: number, schema) => sum + this.#copied(this.at(schema, value)), 0)
      default:
        return 0
    }
  }

  #copied(visited: number): number {
    this.left -= COST.copied * visited
    return visited
  }

  #items(schema: Schema, keyword: string, operand: unknown, items: readonly unknown[]): number {
    const before = listOf(schema['prefixItems']).length
    if (keyword === 'items') return this.#each(items, before, COST.checked, () => operand)
    if (keyword === 'contains' || keyword === 'unevaluatedItems')
      return this.#each(items, 0, COST.collected, () => operand)
    if (keyword === 'prefixItems')
      return this.#each(items.slice(0, before), 0, COST.checked, (index) => listOf(operand)[index])
    if (keyword === 'uniqueItems' && operand === true)
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

  #properties(schema: Schema, keyword: string, operand: unknown, value: Members): number {
    let visited = 0
    if (keyword === 'properties' || keyword === 'dependentSchemas')
      for (const name in isObject(operand) ? operand : {}) {
        this.left -= 1
        if (this.left < 0) break
        if (!Object.hasOwn(value, name)) continue
        const inner = memberOf(operand, name)
        visited +=
          keyword === 'properties'
            ? this.#member(name, COST.checked, inner, value[name])
            : this.at(inner, value)
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
        visited += this.#member(
          name,
          keyword === 'additionalProperties' ? COST.checked : COST.collected,
          operand,
          keyword === 'propertyNames' ? name : value[name],
        )
      }
    return visited
  }

  /** The validator encodes the member's name into a JSON pointer, character by character. */
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
