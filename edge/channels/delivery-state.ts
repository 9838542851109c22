// One message's way: due, then sent, failed or dropped. Pure. An attempt is counted before it is made, so that one that a crash cuts off
// is made again, and so that whoever may have been asked is told of the end.

import { LIMITS } from '../../shared/limits.ts'
import type { DeliveryState } from '../../shared/wire/channels.ts'
import type { Sent, Undelivered } from './medium.ts'

export type Course = { state: DeliveryState; tries: number; nextAt: number | null; why: string | null }

/** Beyond the time that an attempt may take: whoever has not told its end by then is dead. */
const LEASE_MS = LIMITS.delivery_ms + 2_000

export const begun = (course: Course, now: number): Course => ({
  ...course,
  tries: course.tries + 1,
  nextAt: now + LEASE_MS,
})

/** Due until somebody collects it. */
export const waiting = (course: Course): Course => ({
  ...course,
  nextAt: null,
  why: course.why ?? 'waits to be collected',
})

/** Whoever collects paces the tries: it is given up on when its approval ends, and not before. */
export const returned = (course: Course, why: string): Course => ({
  ...course,
  tries: course.tries + 1,
  nextAt: null,
  why,
})

export const dropped = (course: Course, why: string): Course => ({
  ...course,
  state: 'dropped',
  nextAt: null,
  why,
})

/** `chance`: from 0 up to 1. */
export function after(course: Course, sent: Sent, now: number, chance: number): Course {
  if (sent.ok) return { ...course, state: 'sent', nextAt: null, why: null }
  // Its approval ended, or its channel went, while it was under way.
  if (course.state !== 'due') return course
  const { again, why, pause_ms = 0 } = sent.error
  // Whoever names a time has taken nothing, and that costs nothing: many questions at once must not use up each other's tries.
  if (again && pause_ms > 0)
    return { ...course, tries: course.tries - 1, nextAt: now + pause(course.tries, sent.error, chance), why }
  if (!again || course.tries >= LIMITS.delivery_tries)
    return { ...course, state: 'failed', nextAt: null, why }
  return { ...course, nextAt: now + pause(course.tries, sent.error, chance), why }
}

/**
 * Twice as long each time, and never in step with others; at least as long as the receiver asks for. Whole: the clock that wakes us
 * knows no less.
 */
function pause(tries: number, { pause_ms = 0 }: Undelivered, chance: number): number {
  const longest = Math.min(LIMITS.delivery_pause_ms * 2 ** (tries - 1), LIMITS.delivery_pause_max_ms)
  return Math.ceil(Math.max(pause_ms, longest / 2 + (longest / 2) * chance))
}
