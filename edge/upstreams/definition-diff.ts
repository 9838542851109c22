// Compares two definitions of a tool, for the operator who accepts the new one. Pure.

import { canonical, type Json } from '../../shared/bytes/json.ts'
import { LIMITS } from '../../shared/limits.ts'
import { escapeConfusables, readableJson } from '../platform/visible-text.ts'

export type DefinitionChange = { readonly at: string; readonly was: string; readonly is: string }

const NOTHING = '(nothing)'
const [CONTEXT_CHARS, SHOWN_CHARS] = [80, 1_000]

/** The innermost places that differ, as JSON pointers, with both values as readable JSON. */
export function changesBetween(was: Json | undefined, is: Json | undefined, at = ''): DefinitionChange[] {
  if (was !== undefined && is !== undefined && canonical(was) === canonical(is)) return []
  const [before, after] = [membersOf(was), membersOf(is)]
  if (before === undefined || after === undefined)
    return [{ at: escapeConfusables(at === '' ? '/' : at), ...bothShown(was, is) }]
  const names = [...new Set([...before.keys(), ...after.keys()])]
  return names
    .flatMap((name) => changesBetween(before.get(name), after.get(name), `${at}/${pointer(name)}`))
    .slice(0, LIMITS.page)
}

/** Of two long texts, the part where they begin to differ. */
function bothShown(was: Json | undefined, is: Json | undefined): Pick<DefinitionChange, 'was' | 'is'> {
  if (typeof was !== 'string' || typeof is !== 'string') return { was: shown(was), is: shown(is) }
  let same = 0
  while (same < was.length && was[same] === is[same]) same += 1
  const from = Math.max(0, same - CONTEXT_CHARS)
  const part = (text: string): string => {
    const [head, tail] = [from > 0 ? '… ' : '', text.length > from + SHOWN_CHARS ? ' …' : '']
    return shown(`${head}${text.slice(from, from + SHOWN_CHARS)}${tail}`.toWellFormed())
  }
  return { was: part(was), is: part(is) }
}

const shown = (value: Json | undefined): string => (value === undefined ? NOTHING : readableJson(value))
const pointer = (name: string): string => name.replaceAll('~', '~0').replaceAll('/', '~1')

function membersOf(value: Json | undefined): Map<string, Json> | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  return new Map(Object.entries(value))
}
