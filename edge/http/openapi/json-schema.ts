// JSON Schema as the API description uses it, and the ways in which it is rewritten.

export type Schema = Record<string, unknown>

/** References to named schemas begin with this. */
export const REF = '#/components/schemas/'

export const mapped = <T, U>(all: Readonly<Record<string, T>>, change: (one: T) => U): Record<string, U> =>
  Object.fromEntries(Object.entries(all).map(([name, one]) => [name, change(one)]))

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

/** Fields that only the edge writes need no bounds, because no caller has to respect them. */
export const withoutBounds = (schema: Schema): Schema =>
  JSON.parse(JSON.stringify(schema), (key, value: unknown) =>
    typeof value === 'object' && value !== null && !Array.isArray(value) && key !== 'properties'
      ? Object.fromEntries(Object.entries(value).filter(([name]) => !BOUNDS.includes(name)))
      : value,
  ) as Schema // leaving out keywords keeps a schema a schema
