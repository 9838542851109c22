// The quota of a skill's storage. SkillObject and the recorded storage of trials both enforce it.
// Pure.

import { failure } from '../../../shared/failures.ts'
import { LIMITS } from '../../../shared/limits.ts'
import type { Result } from '../../../shared/result.ts'
import { err, ok } from '../../../shared/result.ts'
import { faultInKey } from './keys.ts'

/** Number of keys, and the bytes of all keys and values. */
export type StorageTotals = { readonly keys: number; readonly bytes: number }

export const sizeOf = (key: string, value: Uint8Array): number => key.length + value.byteLength

/** The bytes that the tenant counts for a skill that keeps `bytes`. */
export const reservationFor = (bytes: number): number =>
  Math.ceil(bytes / LIMITS.skill_storage_step_bytes) * LIMITS.skill_storage_step_bytes

/**
 * The totals after the key is set, or why it can't be. `before` is the size of the key's old entry,
 * undefined if there is none.
 */
export function totalsAfterSet(
  all: StorageTotals,
  before: number | undefined,
  key: string,
  value: Uint8Array,
): Result<StorageTotals> {
  const fault = faultInKey(key)
  if (fault !== undefined) return err(failure('invalid_input', fault))
  const full = (why: string) => err(failure('limit_reached', why))
  if (value.byteLength > LIMITS.skill_value_bytes)
    return full(
      `the value has ${value.byteLength} bytes; the limit for one key is ${LIMITS.skill_value_bytes}`,
    )
  const after = {
    keys: all.keys + (before === undefined ? 1 : 0),
    bytes: all.bytes + sizeOf(key, value) - (before ?? 0),
  }
  if (after.keys > LIMITS.skill_keys && before === undefined)
    return full(`the skill’s storage has ${all.keys} keys already, which is the limit; delete some`)
  if (after.bytes > LIMITS.skill_storage_bytes && after.bytes > all.bytes)
    return full(
      `the skill’s storage has ${all.bytes} of ${LIMITS.skill_storage_bytes} bytes already; delete some keys`,
    )
  return ok(after)
}

/**
 * The sorted keys, or a refusal if there are too many: a caller could mistake a part for the whole.
 */
export function checkListing(keys: readonly string[]): Result<string[]> {
  const most = LIMITS.skill_keys_listed
  return keys.length > most
    ? err(failure('limit_reached', `more than ${most} keys have this prefix; list with a longer one`))
    : ok(keys.toSorted())
}
