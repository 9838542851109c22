// When an object of runs has rested for long enough to be sealed. Pure.

import { LIMITS } from '../../../shared/limits.ts'

/** The facts by which an object is sealed. Times are null if there is none. */
export type RestFacts = {
  /** There are calls, and log, lists, inbox, channels and webhook have everything of them. */
  readonly isDelivered: boolean
  /** When something next happens without a request: to a call, a waiting client or a file. */
  readonly nextDue: number | null
  readonly storedBytes: number
  readonly born: number | null
  readonly changed: number
  readonly sealAfterMs: number
}

/** When the object may be sealed; null if not before something else happens. */
export function restedAt({ isDelivered, nextDue, storedBytes, ...at }: RestFacts): number | null {
  if (!isDelivered || nextDue !== null || storedBytes > LIMITS.sealed_run_bytes) return null
  return Math.max(at.changed + at.sealAfterMs, (at.born ?? 0) + LIMITS.seal_never_before_ms)
}
