// Promise: live streams and pages are limited for each owner and in total, and the slot of a stream
// that no longer polls becomes free.

import { expect, test } from 'vitest'
import { StreamSlots } from '../../../edge/platform/stream-slots.ts'
import { LIMITS } from '../../../shared/limits.ts'

/** Opens streams of this many owners, each as many as asked; returns how many were let in. */
const opened = (slots: StreamSlots, owners: number, each: number, now = 0): number =>
  Array.from({ length: owners }, (_, owner) =>
    Array.from({ length: each }, (__, n) => slots.enter(`${owner} ${n}`, `owner ${owner}`, now).ok),
  )
    .flat()
    .filter((entered) => entered).length

test.each([
  ['a tenant has at most `streams_tenant` live pages', () => new StreamSlots(), LIMITS.streams_tenant, 512],
  [
    'a run has at most `streams_run` subscribers',
    () => new StreamSlots(LIMITS.streams_run),
    LIMITS.streams_run,
    64,
  ],
])('G10 %s, of many owners together', (_, slots, limit, expected) => {
  expect([limit, opened(slots(), expected + 1, 1)]).toEqual([expected, expected])
})

test('G10 one owner has at most `streams_each` live streams, and another one still gets a slot', () => {
  const slots = new StreamSlots()
  expect([LIMITS.streams_each, opened(slots, 1, 20)]).toEqual([8, 8])
  expect(slots.enter('first', 'another owner', 0)).toEqual({ ok: true, value: true })
  expect(slots.enter('0 0', 'owner 0', 1).ok).toBe(true) // an open stream is renewed
  slots.leave('0 0')
  expect(slots.enter('later', 'owner 0', 1).ok).toBe(true)
})

test('a stream that has not polled for 20 s gives its slot back', () => {
  const slots = new StreamSlots()
  expect(opened(slots, 1, 8)).toBe(8)
  expect(slots.enter('late', 'owner 0', 19_999).ok).toBe(false)
  expect(slots.enter('late', 'owner 0', 20_000).ok).toBe(true)
  expect(slots.open(20_000)).toBe(1)
})
