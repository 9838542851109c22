// The keys under which skills keep what they keep, and which of them a call was granted. Pure.

import { LIMITS } from '../../../shared/limits.ts'

const KEY = new RegExp(`^[A-Za-z0-9][A-Za-z0-9_./-]{0,${LIMITS.skill_key_chars - 1}}$`)
/** What a key may begin with: part of one, or nothing. */
const BEGINNING = new RegExp(`^(?:[A-Za-z0-9][A-Za-z0-9_./-]{0,${LIMITS.skill_key_chars - 1}})?$`)

/** No segment is `..`: whoever makes paths of keys one day must not be led out of theirs. */
const climbs = (text: string): boolean => text.split('/').includes('..')

/** Why it is no key, or nothing. */
export function faultInKey(key: string): string | undefined {
  if (key === '') return 'a key is empty'
  if (key.length > LIMITS.skill_key_chars) return `a key is longer than ${LIMITS.skill_key_chars} characters`
  if (!KEY.test(key))
    return 'a key begins with a letter or digit and holds nothing but these, `_`, `.`, `/` and `-`'
  return climbs(key) ? 'a segment of a key is `..`' : undefined
}

/** Whether a call that was granted these prefixes may use the key. */
export const granted = (prefixes: readonly string[], key: string): boolean =>
  faultInKey(key) === undefined && prefixes.some((prefix) => key.startsWith(prefix))

/** Whether it may ask which keys begin so: all of them have to be its own. */
export const listable = (prefixes: readonly string[], beginning: string): boolean =>
  BEGINNING.test(beginning) && !climbs(beginning) && prefixes.some((prefix) => beginning.startsWith(prefix))
