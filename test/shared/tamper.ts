// Alters JSON values: lists the paths of all members, other values for each, and applies changes.

export type Path = readonly (string | number)[]
type Members = Record<string | number, unknown>

/** Every member of a value at every depth. */
export function paths(value: unknown, at: Path = []): Path[] {
  const here = at.length > 0 ? [at] : []
  if (typeof value !== 'object' || value === null) return here
  const keys = Array.isArray(value) ? [...value.keys()] : Object.keys(value)
  return [...here, ...keys.flatMap((key) => paths((value as Members)[key], [...at, key]))] // an object, and its own key
}

export const GONE = Symbol('gone')

/** Other values of the same kind, values of other kinds, and none at all. */
export function others(value: unknown): unknown[] {
  if (typeof value === 'string')
    return [`${value}x`, value.slice(1), value.toUpperCase(), '', null, 0, GONE].filter(
      (other) => other !== value,
    )
  if (typeof value === 'number') return [value + 1, value - 1, -value - 1, String(value), null, GONE]
  if (typeof value === 'boolean') return [!value, null, GONE]
  if (value === null) return [{}, 0, '', GONE]
  return Array.isArray(value)
    ? [[], [...value, ...value, 0], null, GONE]
    : [{}, { ...value, extra: 1 }, null, GONE]
}

export const reached = (value: unknown, path: Path): unknown =>
  path.reduce<unknown>((inner, key) => (inner as Members)[key], value) // `paths` made it

/**
 * A copy of `value` with the member at `path` replaced or removed. Despite its type it may no
 * longer be a valid T.
 */
export function changed<T>(value: T, path: Path, to: unknown): T {
  const [key, ...rest] = path
  if (key === undefined) return to as T // see above
  const copy = (Array.isArray(value) ? [...value] : { ...value }) as Members // an array is one too, with numbers for names
  if (rest.length > 0) copy[key] = changed(copy[key], rest, to)
  else if (to !== GONE) copy[key] = to
  else if (Array.isArray(copy)) copy.splice(Number(key), 1)
  else delete copy[key]
  return copy as T // see above
}

/** Changes by dotted path. */
export type Changes = Readonly<Record<string, unknown>>
export const withChanges = <T>(value: T, changes: Changes): T =>
  Object.entries(changes).reduce((all, [path, to]) => changed(all, path.split('.'), to), value)
