// How much a skill may keep from call to call: the same where its own object keeps it and where a trial has recorded it. Pure.

import { failure } from '../../../shared/failures.ts'
import { LIMITS } from '../../../shared/limits.ts'
import type { Result } from '../../../shared/result.ts'
import { err, ok } from '../../../shared/result.ts'
import { faultInKey } from './keys.ts'

/** Of all that it keeps, keys included. */
export type Sums = { readonly keys: number; readonly bytes: number }

export const sizeOf = (key: string, value: Uint8Array): number => key.length + value.byteLength

/** What it keeps once the key has the value, where `before` was the size of what it had; or why it can't have it. */
export function afterSetting(
  all: Sums,
  before: number | undefined,
  key: string,
  value: Uint8Array,
): Result<Sums> {
  const fault = faultInKey(key)
  if (fault !== undefined) return err(failure('invalid_input', fault))
  const full = (why: string) => err(failure('limit_reached', why))
  if (value.byteLength > LIMITS.skill_value_bytes)
    return full(`the value has ${value.byteLength} bytes; ${LIMITS.skill_value_bytes} are kept under one key`)
  const after = {
    keys: all.keys + (before === undefined ? 1 : 0),
    bytes: all.bytes + sizeOf(key, value) - (before ?? 0),
  }
  if (after.keys > LIMITS.skill_keys && before === undefined)
    return full(`the skill keeps ${all.keys} keys already; delete some`)
  if (after.bytes > LIMITS.skill_storage_bytes && after.bytes > all.bytes)
    return full(`the skill keeps ${all.bytes} of ${LIMITS.skill_storage_bytes} bytes already; delete some`)
  return ok(after)
}

/** All or none: who is told a part of them might take it for the whole. */
export function listed(keys: readonly string[]): Result<string[]> {
  const most = LIMITS.skill_keys_listed
  return keys.length > most
    ? err(failure('limit_reached', `more than ${most} keys begin so; ask for a longer beginning`))
    : ok(keys.toSorted())
}
