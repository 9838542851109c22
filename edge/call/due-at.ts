// When time may next change a call, or it is to be looked at: what the run's alarm is set by. Pure. Whether its time has come is the
// lifecycle's to judge.

import { LIMITS } from '../../shared/limits.ts'
import type { Status } from './lifecycle.ts'

/**
 * How often a call that waits for a worker, or for its worker's word, is looked at. A granted one may have lost its doorbell. A running one
 * keeps its object in memory, where its lease is: objects are evicted after 10 s of rest, and a lease forgotten is a lease begun anew.
 */
const WATCH_MS = 5_000
/** The longer a call has waited for a worker, the longer until its doorbell is rung again. */
const restOf = (waited: number): number => Math.min(Math.max(waited, WATCH_MS), 60_000)

/** When time may next change this call, or it is to be looked at. */
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
