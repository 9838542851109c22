// Promise: each agent has only a few doorbells out, taken from its runs in turn and from each run
// in the order of its calls. Agents and runs have shares of a pool's queue. A lost doorbell delays
// nobody for long.

import { expect, test } from 'vitest'
import { type Doorbell, DoorbellQueue } from '../../../edge/pool/doorbell-queue.ts'
import { LIMITS } from '../../../shared/limits.ts'

const BOUNDS = { out: 2, perRun: 4, all: 6 }
/** Agents are named by capital letters, and their runs by the same letters in lower case. */
const ring = (run: string, n: number, until = 1_000_000): Doorbell => ({
  agent: run.slice(0, 1).toUpperCase(),
  run,
  call: `${run}.${n}`,
  until,
  worker: null,
})
const named = (rings: readonly Doorbell[]): string => rings.map(({ call }) => call).join(' ')

test('an agent’s next doorbell goes out when one of its calls is claimed', () => {
  const rings = new DoorbellQueue(BOUNDS)
  expect([1, 2, 3, 4].map((n) => named(rings.add(ring('a', n), 0)))).toEqual(['a.1', 'a.2', '', ''])
  expect(named(rings.add(ring('b', 1), 0))).toBe('b.1') // regardless of the other agent's doorbells
  expect(named(rings.remove(ring('a', 2), 1))).toBe('a.3')
  expect(named(rings.remove(ring('a', 2), 1))).toBe('') // reported twice
  expect(named(rings.remove(ring('a', 4), 1))).toBe('') // cancelled before its turn
  expect(named(rings.remove(ring('a', 1), 1))).toBe('')
})

test('doorbells of an agent’s runs go out in turn', () => {
  const rings = new DoorbellQueue(BOUNDS)
  for (const run of ['a1', 'a2', 'a3']) for (const n of [1, 2, 3]) rings.add(ring(run, n), 0)
  const order = ['a1.1', 'a1.2']
  for (const call of order) {
    const [run = '', n] = call.split('.')
    order.push(...rings.remove(ring(run, Number(n)), 1).map((next) => next.call))
  }
  expect(order.join(' ')).toBe('a1.1 a1.2 a1.3 a2.1 a3.1 a2.2 a3.2 a2.3 a3.3')
})

test('an agent with a hundred waiting calls has only a few doorbells before another agent’s first call', () => {
  const rings = new DoorbellQueue()
  const line: string[] = []
  const say = (said: readonly Doorbell[]): void => void line.push(...said.map(({ call }) => call))
  for (let run = 0; run < 10; run++) for (let n = 0; n < 10; n++) say(rings.add(ring(`a${run}`, n), 0))
  say(rings.add(ring('b', 1), 0))
  expect(line.indexOf('b.1')).toBe(LIMITS.doorbells_per_agent)
  // Reporting them again while workers are busy gains nothing.
  for (let now = 10_000; now < 100_000; now += 10_000)
    for (let n = 0; n < 10; n++) rings.add(ring('a0', n), now)
  say(rings.add(ring('c', 1), 100_000))
  expect(line.indexOf('c.1')).toBe(LIMITS.doorbells_per_agent + 1)
})

test('a call reported again is rung again if its doorbell is out, and otherwise keeps its place', () => {
  const rings = new DoorbellQueue(BOUNDS)
  for (const n of [1, 2, 3]) rings.add(ring('a', n), 0)
  expect(named(rings.add(ring('a', 1), 10))).toBe('a.1')
  expect(named(rings.add(ring('a', 3), 10))).toBe('')
})

test('doorbells for one worker have a queue of their own', () => {
  const rings = new DoorbellQueue(BOUNDS)
  const of = (n: number): Doorbell => ({ ...ring('a', n), worker: 'wkr_1' })
  for (const n of [1, 2, 3]) rings.add(ring('a', n), 0)
  expect([4, 5, 6].map((n) => named(rings.add(of(n), 0)))).toEqual(['a.4', 'a.5', ''])
  expect(rings.add(of(1), 20)).toEqual([of(1)]) // its run has a folder there by now
  expect(named(rings.remove(ring('a', 2), 30))).toBe('a.3')
  expect(named(rings.remove(of(4), 30))).toBe('')
  expect(named(rings.remove(of(5), 30))).toBe('a.6')
})

test('stale doorbells free their slots after 5 s if the queue is empty, and keep them if it is not', () => {
  const rings = new DoorbellQueue(BOUNDS)
  for (const n of [1, 2, 3]) rings.add(ring('a', n), 0)
  expect([rings.hasStale(ring('a', 3), 4_999), named(rings.releaseStale(ring('a', 3), 4_999))]).toEqual([
    false,
    '',
  ])
  expect(named(rings.add(ring('a', 3), 5_000))).toBe('')
  expect([
    rings.hasStale(ring('a', 3), 5_000),
    rings.hasStale({ ...ring('a', 3), worker: 'wkr_1' }, 5_000),
  ]).toEqual([true, false])
  expect(named(rings.releaseStale(ring('a', 3), 5_000))).toBe('a.3')
  expect(named(rings.add(ring('a', 1), 10_000))).toBe('a.1')
})

test('a run reaches its bound before the pool does, and both have room again when calls are claimed or lapse', () => {
  const rings = new DoorbellQueue(BOUNDS)
  for (const n of [1, 2, 3, 4]) rings.add(ring('a1', n), 0)
  expect([rings.isFull(ring('a1', 5), 0), rings.isFull(ring('a2', 1), 0)]).toEqual([true, false])
  rings.add(ring('a2', 1, 50), 0)
  rings.add(ring('a3', 1), 0)
  expect([rings.isFull(ring('a2', 2), 49), rings.isFull(ring('a4', 1), 49)]).toEqual([true, true])
  expect([rings.isFull(ring('a2', 2), 50), rings.isFull(ring('a1', 5), 50)]).toEqual([false, true])
  rings.remove(ring('a1', 1), 60)
  expect(rings.isFull(ring('a1', 5), 60)).toBe(false)
})

test('a pool filled by one agent has room for other agents, up to their share', () => {
  const rings = new DoorbellQueue(BOUNDS)
  for (const run of ['a1', 'a2']) for (const n of [1, 2, 3]) rings.add(ring(run, n), 0)
  expect([rings.isFull(ring('a3', 1), 0), rings.isFull(ring('b', 1), 0)]).toEqual([true, false])
  for (const n of [1, 2, 3]) rings.add(ring('b', n), 0)
  expect([rings.isFull(ring('b', 4), 0), rings.isFull(ring('c', 1), 0)]).toEqual([true, false])
  for (const n of [1, 2]) rings.add(ring('c', n), 0)
  expect([rings.isFull(ring('c', 3), 0), rings.isFull(ring('d', 1), 0)]).toEqual([true, false])
  rings.add(ring('d', 1), 0)
  expect(rings.isFull(ring('e', 1), 0)).toBe(true) // at most twice the normal bound
})

test('a full pool accepts calls that runs report again only up to a bound', () => {
  const rings = new DoorbellQueue(BOUNDS)
  const taken = Array.from({ length: 20 }, (_, n) => rings.add(ring(`r${n}`, 1), 0).length)
  expect(taken.filter((count) => count === 1)).toHaveLength(BOUNDS.out)
  const left = Array.from({ length: 20 }, (_, n) => rings.remove(ring(`r${n}`, 1), 0).length)
  expect(BOUNDS.out + left.filter((count) => count === 1).length).toBe(2 * BOUNDS.all)
})

test('a pool holds `waiting_calls_per_pool` calls and a run `waiting_calls_per_run`, and an agent with less than its share is admitted even then', () => {
  expect([LIMITS.waiting_calls_per_run, LIMITS.waiting_calls_per_pool]).toEqual([1_000, 10_000])
  const rings = new DoorbellQueue()
  const waits = { full: [] as string[], run: '' }
  for (let run = 0; run < 10; run++)
    for (let n = 0; n < 1_000; n++) {
      waits.run = `a${run}`
      if (rings.isFull(ring(waits.run, n), 0)) waits.full.push(`${waits.run}.${n}`)
      rings.add(ring(waits.run, n), 0)
      if (run === 0 && n === 999) expect(rings.isFull(ring('a0', 1_000), 0)).toBe(true)
    }
  expect(waits.full).toEqual([])
  expect(rings.isFull(ring('a10', 0), 0)).toBe(true)
  expect(rings.isFull(ring('b', 0), 0)).toBe(false)
})
