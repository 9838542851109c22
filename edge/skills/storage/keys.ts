// The keys of a skill's storage, and which of them a call was granted. Pure.

import { LIMITS } from '../../../shared/limits.ts'

const KEY = new RegExp(`^[A-Za-z0-9][A-Za-z0-9_./-]{0,${LIMITS.skill_key_chars - 1}}$`)
/** The beginning of a key, possibly empty. */
const KEY_PREFIX = new RegExp(`^(?:[A-Za-z0-9][A-Za-z0-9_./-]{0,${LIMITS.skill_key_chars - 1}})?$`)

/** Keys have no `..` segment, so that code that ever maps keys to paths can't leave its folder. */
const hasParentSegment = (text: string): boolean => text.split('/').includes('..')

/** Why the text is not a valid key; undefined if it is one. */
export function faultInKey(key: string): string | undefined {
  if (key === '') return 'the key is empty'
  if (key.length > LIMITS.skill_key_chars)
    return `the key is longer than ${LIMITS.skill_key_chars} characters`
  if (!KEY.test(key))
    return 'a key begins with a letter or digit and may contain only letters, digits, `_`, `.`, `/` and `-`'
  return hasParentSegment(key) ? 'a key may not have `..` as a segment' : undefined
}

/** Whether a call with these granted prefixes may use the key. */
export const isGranted = (prefixes: readonly string[], key: string): boolean =>
  faultInKey(key) === undefined && prefixes.some((prefix) => key.startsWith(prefix))

/** Whether the call may list the keys that begin so: it must have been granted all of them. */
export const canList = (prefixes: readonly string[], start: string): boolean =>
  KEY_PREFIX.test(start) && !hasParentSegment(start) && prefixes.some((prefix) => start.startsWith(prefix))
