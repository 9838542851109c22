// Promise: of each run a few doorbells are out at a time, in the order in which its calls came; a run has a share of what may wait in a
// pool; and what is lost on the way holds up no one for long.

import { expect, test } from 'vitest'
import { type Ring, Rings } from '../../edge/rings.ts'

const BOUNDS = { out: 2, perRun: 4, all: 6 }
const ring = (run: string, n: number, until = 1_000_000): Ring => ({ run, call: `${run}.${n}`, until, worker: null })
const named = (rings: readonly Ring[]): string => rings.map(({ call }) => call).join(' ')

test('a run’s next doorbell goes out when one of its calls is claimed', () => {
  const rings = new Rings(BOUNDS)
  expect([1, 2, 3, 4].map((n) => named(rings.waits(ring('a', n), 0)))).toEqual(['a.1', 'a.2', '', ''])
  expect(named(rings.waits(ring('b', 1), 0))).toBe('b.1') // whatever the other run has
  expect(named(rings.left('a', 'a.2', 1))).toBe('a.3')
  expect(named(rings.left('a', 'a.2', 1))).toBe('') // told twice
  expect(named(rings.left('a', 'a.4', 1))).toBe('') // cancelled before its turn
  expect(named(rings.left('a', 'a.1', 1))).toBe('')
})

test('a call that waits still is rung again if it is out, and keeps its place if it is not', () => {
  const rings = new Rings(BOUNDS)
  for (const n of [1, 2, 3]) rings.waits(ring('a', n), 0)
  expect(named(rings.waits(ring('a', 1), 10))).toBe('a.1')
  expect(named(rings.waits(ring('a', 3), 10))).toBe('')
  expect(rings.waits({ ...ring('a', 1), worker: 'wkr_1' }, 20)).toEqual([{ ...ring('a', 1), worker: 'wkr_1' }])
})

test('doorbells that nobody answered for 5 s, or whose claim was not heard of, make room for the next', () => {
  const rings = new Rings(BOUNDS)
  for (const n of [1, 2, 3]) rings.waits(ring('a', n), 0)
  expect(named(rings.waits(ring('a', 3), 4_999))).toBe('')
  expect(named(rings.waits(ring('a', 3), 5_000))).toBe('a.3')
})

test('a run is full before its pool is, and both have room again when calls are claimed or lapse', () => {
  const rings = new Rings(BOUNDS)
  for (const n of [1, 2, 3, 4]) rings.waits(ring('a', n), 0)
  expect([rings.full('a', 0), rings.full('b', 0)]).toEqual([true, false])
  rings.waits(ring('b', 1, 50), 0)
  rings.waits(ring('c', 1), 0)
  expect([rings.full('b', 49), rings.full('never.seen', 49)]).toEqual([true, true])
  expect([rings.full('b', 50), rings.full('a', 50)]).toEqual([false, true])
  rings.left('a', 'a.1', 60)
  expect(rings.full('a', 60)).toBe(false)
})

test('what runs say again in a pool that is full is taken up to a bound', () => {
  const rings = new Rings(BOUNDS)
  const taken = Array.from({ length: 20 }, (_, n) => rings.waits(ring(`r${n}`, 1), 0).length)
  expect(taken.filter((count) => count === 1)).toHaveLength(2 * BOUNDS.all)
})
