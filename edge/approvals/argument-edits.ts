// Editing a call's arguments before approval. An operator edits the redacted arguments. A mark in
// place of a hidden value may be kept, moved or replaced, but not edited: nobody edits a value
// that they cannot see. Pure.

import { canonical } from '../../shared/bytes/json.ts'
import { failure } from '../../shared/failures.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { ArgumentChange, Revision } from '../../shared/wire/approvals.ts'
import { escapeConfusables, shorten } from '../platform/visible-text.ts'
import { MARK_PATTERN, type Redaction } from '../secrets/redaction.ts'
import type { FullText } from './card.ts'

/** The outcome that an edit would have. `whole` holds the full text of all that it shortens. */
export type Preview = { preview: Revision; whole: { changes: ArgumentChange[] | null; texts: FullText[] } }

type Args = Record<string, unknown>
const isObject = (value: unknown): value is Args =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** The redacted arguments that an operator edits. */
export const editable = (args: Args, redaction: Redaction): Args => redaction.of(args) as Args // redaction maps an object to an object

/** Puts the stored values back in place of the marks that an operator kept or moved. */
export function restoreHidden(given: Args, stored: Args, redaction: Redaction): Result<Args> {
  const [values, names] = [new Map<string, unknown>(), new Map<string, string>()]
  const shown = redaction.of(stored)
  gather(shown, stored, values, names)
  const restored = restore(given, { shown, stored }, values, names)
  return isObject(restored)
    ? ok(restored)
    : err(
        failure(
          'invalid_arguments',
          'keep the mark of a hidden value exactly as it is, or replace it; it can’t be part of another text',
        ),
      )
}

/** Pairs the members of an object before and after redaction, which keeps their order. */
const members = (
  shown: Args,
  stored: Args,
): { name: string; was: string; shown: unknown; stored: unknown }[] => {
  const entries = Object.entries(stored)
  return Object.entries(shown).map(([name, item], i) => ({
    name,
    was: entries[i]?.[0] ?? name,
    shown: item,
    stored: entries[i]?.[1],
  }))
}

/** Collects what each mark hides: values by their mark, and member names by theirs. */
function gather(
  shown: unknown,
  stored: unknown,
  values: Map<string, unknown>,
  names: Map<string, string>,
): void {
  if (typeof shown === 'string') {
    if (shown !== stored) values.set(shown, stored)
  } else if (Array.isArray(shown) && Array.isArray(stored)) {
    for (const [i, item] of shown.entries()) gather(item, stored[i], values, names)
  } else if (isObject(shown) && isObject(stored)) {
    for (const member of members(shown, stored)) {
      if (member.name !== member.was) names.set(member.name, member.was)
      gather(member.shown, member.stored, values, names)
    }
  }
}

type Pair = { readonly shown: unknown; readonly stored: unknown }

/**
 * An unchanged text becomes its stored value again. Returns `undefined` if any text contains a
 * mark that is not in the redacted arguments.
 */
function restore(
  given: unknown,
  pair: Pair | undefined,
  values: ReadonlyMap<string, unknown>,
  names: ReadonlyMap<string, string>,
): unknown {
  if (typeof given === 'string') {
    if (given === pair?.shown) return pair.stored
    return values.has(given) ? values.get(given) : MARK_PATTERN.test(given) ? undefined : given
  }
  if (Array.isArray(given)) {
    const { shown, stored } = pair ?? {}
    const at = (i: number) =>
      Array.isArray(shown) && Array.isArray(stored) ? { shown: shown[i], stored: stored[i] } : undefined
    const items = given.map((item, i) => restore(item, at(i), values, names))
    return items.includes(undefined) ? undefined : items
  }
  if (!isObject(given)) return given
  const before = new Map(
    isObject(pair?.shown) && isObject(pair.stored)
      ? members(pair.shown, pair.stored).map((member) => [member.name, member])
      : [],
  )
  const kept = Object.entries(given).map(([name, item]) => {
    const known = before.get(name)
    return [
      known?.was ?? names.get(name) ?? name,
      restore(item, known, values, names),
      known !== undefined,
    ] as const
  })
  return kept.some(([name, item, known]) => item === undefined || (!known && MARK_PATTERN.test(name)))
    ? undefined
    : Object.fromEntries(kept)
}

/**
 * Whether `after` only removes members or items of `before`: the rest is unchanged and in order.
 */
export function onlyRemoves(before: unknown, after: unknown): boolean {
  if (Array.isArray(before) && Array.isArray(after)) {
    let at = 0
    return after.every((item) => {
      while (at < before.length) if (onlyRemoves(before[at++], item)) return true
      return false
    })
  }
  if (isObject(before) && isObject(after))
    return Object.entries(after).every(
      ([name, item]) => Object.hasOwn(before, name) && onlyRemoves(before[name], item),
    )
  return canonical(before) === canonical(after)
}

/**
 * The differences of two sets of arguments, shortened as cards show them; `more` counts the rest.
 */
export function changesOf(
  before: Args,
  after: Args,
  redaction: Redaction,
): { changes: ArgumentChange[]; more: number } {
  const all = [...differences(redaction.of(before), redaction.of(after), '')]
  const changes = all
    .slice(0, LIMITS.edit_changes)
    .map((change) => printable(change, (text) => shorten(text, LIMITS.edit_chars)))
  return { changes, more: all.length - changes.length }
}

/** All differences in full, with secrets hidden; `null` if `changesOf` shortened nothing. */
export function wholeChangesOf(before: Args, after: Args, redaction: Redaction): ArgumentChange[] | null {
  const whole = [...differences(redaction.of(before), redaction.of(after), '')]
  const isCut = ({ at, from, to }: ArgumentChange) =>
    [at, from ?? '', to ?? ''].some(({ length }) => length > LIMITS.edit_chars)
  return whole.length > LIMITS.edit_changes || whole.some(isCut)
    ? whole.map((change) => printable(change, (text) => text))
    : null
}

function* differences(from: unknown, to: unknown, at: string): Generator<ArgumentChange> {
  if (isObject(from) && isObject(to)) {
    for (const name of new Set([...Object.keys(from), ...Object.keys(to)]))
      yield* differences(from[name], to[name], `${at}/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`)
  } else if (Array.isArray(from) && Array.isArray(to)) {
    for (let i = 0; i < Math.max(from.length, to.length); i++)
      yield* differences(from[i], to[i], `${at}/${i}`)
  } else if (from === undefined || to === undefined || canonical(from) !== canonical(to))
    yield {
      at,
      from: from === undefined ? null : JSON.stringify(from),
      to: to === undefined ? null : JSON.stringify(to),
    }
}

function printable({ at, from, to }: ArgumentChange, shorten: (text: string) => string): ArgumentChange {
  const shown = (text: string): string => escapeConfusables(shorten(text))
  return { at: shown(at), from: from === null ? null : shown(from), to: to === null ? null : shown(to) }
}
