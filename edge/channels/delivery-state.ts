// The state of one delivery: due, then sent, failed or dropped. Pure. An attempt is counted before
// it is made, so that one that a crash interrupts is repeated, and so that everybody who may have
// been asked gets a message about the end.

import { LIMITS } from '../../shared/limits.ts'
import type { DeliveryState } from '../../shared/wire/channels.ts'
import type { DeliveryFailure, DeliveryResult } from './medium.ts'

export type DeliveryProgress = {
  state: DeliveryState
  tries: number
  nextAt: number | null
  why: string | null
}

/** Longer than an attempt may take: one without a result by then is dead and can be repeated. */
const LEASE_MS = LIMITS.delivery_ms + 2_000

export const beginAttempt = (course: DeliveryProgress, now: number): DeliveryProgress => ({
  ...course,
  tries: course.tries + 1,
  nextAt: now + LEASE_MS,
})

/** Due, without an alarm, until somebody collects it. */
export const awaitCollection = (course: DeliveryProgress): DeliveryProgress => ({
  ...course,
  nextAt: null,
  why: course.why ?? 'waiting to be collected',
})

/**
 * The collector could not deliver it. It chooses when to retry; only the end of the approval drops
 * it.
 */
export const returnUndelivered = (course: DeliveryProgress, why: string): DeliveryProgress => ({
  ...course,
  tries: course.tries + 1,
  nextAt: null,
  why,
})

export const drop = (course: DeliveryProgress, why: string): DeliveryProgress => ({
  ...course,
  state: 'dropped',
  nextAt: null,
  why,
})

/** `chance`: from 0 up to 1. */
export function applyResult(
  course: DeliveryProgress,
  sent: DeliveryResult,
  now: number,
  chance: number,
): DeliveryProgress {
  if (sent.ok) return { ...course, state: 'sent', nextAt: null, why: null }
  // Its approval ended, or its channel was removed, during the attempt.
  if (course.state !== 'due') return course
  const { again, why, pause_ms = 0 } = sent.error
  // A `Retry-After` is not counted as an attempt, or many messages would use up each other's tries.
  if (again && pause_ms > 0)
    return { ...course, tries: course.tries - 1, nextAt: now + pause(course.tries, sent.error, chance), why }
  if (!again || course.tries >= LIMITS.delivery_tries)
    return { ...course, state: 'failed', nextAt: null, why }
  return { ...course, nextAt: now + pause(course.tries, sent.error, chance), why }
}

/**
 * Exponential backoff with jitter, at least as long as the receiver asks for. In whole
 * milliseconds, because an alarm takes no fractions.
 */
function pause(tries: number, { pause_ms = 0 }: DeliveryFailure, chance: number): number {
  const longest = Math.min(LIMITS.delivery_pause_ms * 2 ** (tries - 1), LIMITS.delivery_pause_max_ms)
  return Math.ceil(Math.max(pause_ms, longest / 2 + (longest / 2) * chance))
}
