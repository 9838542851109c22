// The next time at which a call must be checked; the run sets its alarm by it. Pure. Whether a
// deadline has passed is decided by the lifecycle.

import { LIMITS } from '../../shared/limits.ts'
import type { Status } from './lifecycle.ts'

/**
 * How often a granted or running call is checked. The doorbell of a granted call may be lost. The
 * lease of a running call is in its object's memory, and an object that is idle for 10 s is
 * evicted: that would restart the lease.
 */
const WATCH_MS = 5_000
/** Pauses between doorbells grow with the time that a call has waited. */
const restOf = (waited: number): number => Math.min(Math.max(waited, WATCH_MS), 60_000)

/** The time of the next check; null if time can't change the call. */
export function dueAt(status: Status, now: number, leaseUntil = 0): number | null {
  switch (status.state) {
    case 'awaiting_approval':
      return status.approval.expiresAt
    case 'granted':
      return Math.min(status.until, now + restOf(now - (status.until - LIMITS.claim_window_ms)))
    case 'running':
      return Math.min(Math.max(status.leaseUntil, leaseUntil), now + WATCH_MS)
    default:
      return null
  }
}
