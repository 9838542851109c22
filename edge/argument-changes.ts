// Arguments as an operator may change them, and what a change says. What a card hides stands as the card shows it, and may be kept, moved
// or replaced, but not edited: nobody edits what they do not see. Pure.

import { failure } from '../shared/failures.ts'
import { canonical } from '../shared/json.ts'
import { LIMITS } from '../shared/limits.ts'
import type { Result } from '../shared/result.ts'
import { err, ok } from '../shared/result.ts'
import type { ArgumentChange, Revision } from '../shared/wire.ts'
import { cut, type Unfolded, written } from './approvals.ts'
import { HIDDEN, type Redaction } from './redaction.ts'

/** The result that edited arguments would have, and in `whole` the full text of everything that it shortens. */
export type Preview = { preview: Revision; whole: { changes: ArgumentChange[] | null; texts: Unfolded[] } }

type Args = Record<string, unknown>
const isObject = (value: unknown): value is Args => typeof value === 'object' && value !== null && !Array.isArray(value)

/** What an operator starts from. */
export const editable = (args: Args, redaction: Redaction): Args => redaction.of(args) as Args // an object stays one

/** The arguments that are meant: with the hidden values in their places, and wherever else they were put. */
export function withHidden(given: Args, stored: Args, redaction: Redaction): Result<Args> {
  const [values, names] = [new Map<string, unknown>(), new Map<string, string>()]
  const shown = redaction.of(stored)
  gather(shown, stored, values, names)
  const meant = restored(given, { shown, stored }, values, names)
  return isObject(meant)
    ? ok(meant)
    : err(failure('invalid_arguments', 'what is hidden can be kept whole or replaced, but not be a part of another text'))
}

/** Members of two objects side by side: redaction keeps their order. */
const members = (shown: Args, stored: Args): { name: string; was: string; shown: unknown; stored: unknown }[] => {
  const those = Object.entries(stored)
  return Object.entries(shown).map(([name, item], i) => ({ name, was: those[i]?.[0] ?? name, shown: item, stored: those[i]?.[1] }))
}

function gather(shown: unknown, stored: unknown, values: Map<string, unknown>, names: Map<string, string>): void {
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

type Place = { readonly shown: unknown; readonly stored: unknown }

/** What stands as it stood is what was there. `undefined` where a part of it hides something that nobody can see. */
function restored(
  given: unknown,
  place: Place | undefined,
  values: ReadonlyMap<string, unknown>,
  names: ReadonlyMap<string, string>,
): unknown {
  if (typeof given === 'string') {
    if (given === place?.shown) return place.stored
    return values.has(given) ? values.get(given) : HIDDEN.test(given) ? undefined : given
  }
  if (Array.isArray(given)) {
    const { shown, stored } = place ?? {}
    const at = (i: number) => (Array.isArray(shown) && Array.isArray(stored) ? { shown: shown[i], stored: stored[i] } : undefined)
    const items = given.map((item, i) => restored(item, at(i), values, names))
    return items.includes(undefined) ? undefined : items
  }
  if (!isObject(given)) return given
  const before = new Map(
    isObject(place?.shown) && isObject(place.stored) ? members(place.shown, place.stored).map((one) => [one.name, one]) : [],
  )
  const kept = Object.entries(given).map(([name, item]) => {
    const known = before.get(name)
    return [known?.was ?? names.get(name) ?? name, restored(item, known, values, names), known !== undefined] as const
  })
  return kept.some(([name, item, known]) => item === undefined || (!known && HIDDEN.test(name))) ? undefined : Object.fromEntries(kept)
}

/** Whether nothing is there that was not: members and items are left out, and what stays is in its order and says the same. */
export function leavesOut(before: unknown, after: unknown): boolean {
  if (Array.isArray(before) && Array.isArray(after)) {
    let at = 0
    return after.every((item) => {
      while (at < before.length) if (leavesOut(before[at++], item)) return true
      return false
    })
  }
  if (isObject(before) && isObject(after))
    return Object.entries(after).every(([name, item]) => Object.hasOwn(before, name) && leavesOut(before[name], item))
  return canonical(before) === canonical(after)
}

/** Where two sets of arguments differ, as cards show them; and how many more places there are than are told. */
export function changesOf(before: Args, after: Args, redaction: Redaction): { changes: ArgumentChange[]; more: number } {
  const all = [...differences(redaction.of(before), redaction.of(after), '')]
  const changes = all.slice(0, LIMITS.edit_changes).map((one) => told(one, (text) => cut(text, LIMITS.edit_chars)))
  return { changes, more: all.length - changes.length }
}

/** The same with nothing left out but secrets; `null` where nothing was. */
export function wholeChangesOf(before: Args, after: Args, redaction: Redaction): ArgumentChange[] | null {
  const whole = [...differences(redaction.of(before), redaction.of(after), '')]
  const isCut = ({ at, from, to }: ArgumentChange) => [at, from ?? '', to ?? ''].some(({ length }) => length > LIMITS.edit_chars)
  return whole.length > LIMITS.edit_changes || whole.some(isCut) ? whole.map((one) => told(one, (text) => text)) : null
}

function* differences(from: unknown, to: unknown, at: string): Generator<ArgumentChange> {
  if (isObject(from) && isObject(to)) {
    for (const name of new Set([...Object.keys(from), ...Object.keys(to)]))
      yield* differences(from[name], to[name], `${at}/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`)
  } else if (Array.isArray(from) && Array.isArray(to)) {
    for (let i = 0; i < Math.max(from.length, to.length); i++) yield* differences(from[i], to[i], `${at}/${i}`)
  } else if (from === undefined || to === undefined || canonical(from) !== canonical(to))
    yield {
      at,
      from: from === undefined ? null : JSON.stringify(from),
      to: to === undefined ? null : JSON.stringify(to),
    }
}

function told({ at, from, to }: ArgumentChange, length: (text: string) => string): ArgumentChange {
  const shown = (text: string): string => written(length(text))
  return { at: shown(at), from: from === null ? null : shown(from), to: to === null ? null : shown(to) }
}
