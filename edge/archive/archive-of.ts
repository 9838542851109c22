// Which archive has the entry of an object of runs: it follows from the object's name, so nothing has
// to remember it. The name is the id of its run, or `runs_` and the beginning of the ids of its runs
// (`runObjectName` in shared/ids.ts).

import { base32Number } from '../../shared/ids.ts'

const TIME = /^run_([0-7][0-9A-HJKMNP-TV-Z]{9})/
/** The first bit is set, and no part of the time. The last 20 bits of the time are left out. */
const SHARED = /^runs_([4-7][0-9A-HJKMNP-TV-Z]{5})/
const SHARED_BIT = 4 * 32 ** 5
const SPAN_MS = 2 ** 20
/** Times from here on are no times: the ids are derived from idempotency keys (edge/run/run-id.ts). */
const KEYED = 0x7f0000000000
const DAY_CHARS = 'YYYY-MM-DD'.length

/** Whether the object may have several runs. */
export const isShared = (name: string): boolean => SHARED.test(name)

/** The earliest time at which the object can have been made; null for the id of an idempotency key. */
export function bornAt(name: string): number | null {
  const shared = SHARED.exec(name)?.[1]
  if (shared !== undefined) return (Number(base32Number(shared)) - SHARED_BIT) * SPAN_MS
  const time = TIME.exec(name)?.[1]
  if (time === undefined) throw new Error('not the name of an object of runs')
  const at = Number(base32Number(time))
  return at < KEYED ? at : null
}

/**
 * The archive of the day of the object. The run of a key may be of any day; these have 32 archives,
 * by the last character of the id, which is part of a MAC.
 */
export function archiveOf(name: string): string {
  const at = bornAt(name)
  return at === null ? `keyed-${name.slice(-1)}` : new Date(at).toISOString().slice(0, DAY_CHARS)
}
