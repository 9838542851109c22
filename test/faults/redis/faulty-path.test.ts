// Promise: whether a worker's request is lost, duplicated or late, its response is lost, or the
// worker dies around it, the call runs at most once, ends once, and its output is complete (J02).

import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import type { Call } from '../../../shared/wire/calls.ts'
import { attested, endsIn, journalOf } from '../../support/auditor.ts'
import { eventually } from '../../support/eventually.ts'
import { about, HurtStack, processesWith, revive, strike } from '../../support/stack/hurt-stack.ts'
import { SHORT_LEASES } from '../../support/stack/other-limits.ts'
import {
  arrivesTwice,
  type Fault,
  FaultyPath,
  failedButPersisted,
  lostOnTheWay,
  noFault,
  type WorkerRoute,
} from '../../support/worker/faulty-path.ts'

/** Later than the worker's next heartbeat. */
const LATE_MS = 1.5 * SHORT_LEASES.heartbeat_ms
const late: Fault = async ({ forward, reply }) => {
  const answer = await forward()
  await sleep(LATE_MS)
  reply(answer)
}

const FAULTS = {
  'is lost': lostOnTheWay,
  'loses its response': failedButPersisted,
  'arrives twice': arrivesTwice,
  'arrives late': late,
}
const WHOLE = Array.from({ length: 40 }, (_, n) => `line ${n}\n`).join('')

const KNOWN_WITHIN_MS = SHORT_LEASES.lease_ms + 8_000

let hurt: HurtStack
let path: FaultyPath
beforeAll(async () => {
  hurt = await HurtStack.start({ limits: SHORT_LEASES })
  path = new FaultyPath(hurt.stack.url)
  await hurt.leadWorker(await path.open())
})
afterAll(async () => {
  await hurt?.stop()
  await path?.close()
})
afterEach(() => eventually('nothing is left in the spool', () => hurt.spool().size === 0))

const kindsOf = async (call: Call): Promise<string[]> =>
  (await journalOf(hurt, call.run)).map(({ kind }) => kind)
const ONCE = ['allowed', 'claimed', 'succeeded']

describe.each(Object.entries(FAULTS))('J02 with a request that %s,', (what, fault) => {
  test.each<WorkerRoute>(['claim', 'settle'])(
    'J02 a call runs once although its %s request fails on the way',
    async (route) => {
      path.next(route, fault)
      const call = await hurt.propose('mark_quickly', { mark: `${what}\n` }, { wait: 15 })
      const ended = await hurt.ended(call)
      expect(ended.state).toBe('succeeded')
      expect(path.spent).toBe(true)
      expect(hurt.marks(call.run)).toEqual([what])
      expect(await kindsOf(call)).toEqual(ONCE)
      await attested(hurt, ended)
    },
  )

  test('J02 a call keeps its whole output although its output and heartbeat requests fail on the way', async () => {
    path.next('output', fault)
    path.next('heartbeat', fault)
    const call = await hurt.propose('talk_slowly', { mark: what }, { wait: 15 })
    const ended = await hurt.ended(call)
    expect(ended).toMatchObject({ state: 'succeeded', result: { output: WHOLE, truncated: false } })
    await eventually('the faults have happened', () => path.spent, 5_000)
    expect(await kindsOf(call)).toEqual(ONCE)
    await attested(hurt, ended)
  })
})

/**
 * Holds a request of this route `where`, and resolves when it arrives. It never gets a response.
 */
function caught(route: WorkerRoute, where: 'before' | 'after'): Promise<void> {
  return new Promise((settle) => {
    path.next(route, async ({ forward }) => {
      if (where === 'after') await forward()
      settle()
    })
  })
}

describe('J02 the worker is killed', () => {
  test('J02 if a worker is killed before it settles an ended call, the next worker process settles it from the spool', async () => {
    const there = caught('settle', 'before')
    const call = await hurt.propose('mark_quickly', { mark: 'spool\n' })
    await there
    await strike(hurt.stack.worker)
    expect((await hurt.read(call)).state).toBe('running')
    expect(hurt.spool().has(call.id)).toBe(true)
    await revive(hurt.stack.worker)
    const ended = await hurt.ended(call)
    expect(ended).toMatchObject({ state: 'succeeded', result: { output: 'spool\n' } })
    await attested(hurt, ended)
    expect(hurt.marks(call.run)).toEqual(['spool'])
    expect(await kindsOf(call)).toEqual(ONCE)
  })

  test('J02 if a worker is killed before it learns that its settlement was accepted, it settles again, and the call ends once', async () => {
    const there = caught('settle', 'after')
    const call = await hurt.propose('mark_quickly', { mark: 'twice\n' })
    await there
    await strike(hurt.stack.worker)
    const ended = await hurt.ended(call, 2_000)
    const before = await attested(hurt, ended)
    expect(hurt.spool().has(call.id)).toBe(true)
    await revive(hurt.stack.worker)
    await eventually('the spool is empty', () => hurt.spool().size === 0)
    expect(await attested(hurt, await hurt.read(call))).toEqual(before)
    expect(await kindsOf(call)).toEqual(ONCE)
    expect(hurt.marks(call.run)).toEqual(['twice'])
  })
})

describe('J02 the worker is killed and away for longer than a lease', () => {
  let unheard: Call
  let untold: Call
  let at: number
  beforeAll(async () => {
    const ended = caught('settle', 'before')
    untold = await hurt.propose('mark_quickly', { mark: 'untold\n' })
    await ended
    const granted = caught('claim', 'after')
    unheard = await hurt.propose('mark_quickly', { mark: 'unheard\n' })
    await granted
    await strike(hurt.stack.worker)
    at = Date.now()
    for (const call of [untold, unheard]) await hurt.toldByLog(call, KNOWN_WITHIN_MS + 2_000)
    await revive(hurt.stack.worker)
  })

  test('J02 if a worker is killed before it receives its grant, the call ends indeterminate and does not run later', async () => {
    const call = await hurt.read(unheard)
    expect(call.state).toBe('indeterminate')
    expect((call.ended_at_ms ?? 0) - at).toBeLessThan(KNOWN_WITHIN_MS)
    await attested(hurt, call)
    expect((await hurt.propose('mark_quickly', { mark: 'next\n' }, { wait: 10 })).state).toBe('succeeded')
    expect(hurt.marks(call.run)).toEqual([])
    expect(await kindsOf(call)).toEqual(['allowed', 'claimed', 'indeterminate'])
  })

  test('Q05 if a worker is away too long with a result in its spool, the call ends indeterminate, and the late result is refused and dropped', async () => {
    expect(await hurt.dropped(untold)).toBe('stale_fence')
    const call = await hurt.read(untold)
    expect(call).toMatchObject({ state: 'indeterminate', result: { ok: false, output: '' } })
    expect((call.ended_at_ms ?? 0) - at).toBeLessThan(KNOWN_WITHIN_MS)
    expect((await attested(hurt, call)).predicate.execution.executor).toBe('edge')
    expect(hurt.marks(call.run)).toEqual(['untold'])
    expect(endsIn(await journalOf(hurt, call.run))).toHaveLength(1)
  })
})

test('if the worker can’t reach the edge for longer than a lease, its call ends indeterminate, its process is stopped, and its result refused', async () => {
  const stays = about(65)
  const short = await hurt.propose('mark_slowly', { mark: 'short\n', seconds: about(2) })
  const long = await hurt.propose('mark_slowly', { mark: 'long\n', seconds: stays })
  for (const { run } of [short, long]) await eventually('it runs', () => hurt.marks(run).length === 1)
  path.cutAll()
  const at = Date.now()
  const waits = await hurt.propose('mark_quickly', { mark: 'waits\n' })
  for (const call of [short, long]) {
    const { ended_at_ms = 0 } = await hurt.until(call, ['indeterminate'], KNOWN_WITHIN_MS)
    expect(ended_at_ms - at).toBeGreaterThan(SHORT_LEASES.lease_ms - SHORT_LEASES.heartbeat_ms - 1_000)
    expect(ended_at_ms - at).toBeLessThan(KNOWN_WITHIN_MS)
  }
  expect((await hurt.read(waits)).state).toBe('granted')
  path.mend()
  for (const call of [short, long]) expect(await hurt.dropped(call)).toBe('stale_fence')
  expect(processesWith(stays)).toEqual([])
  expect((await hurt.ended(waits)).state).toBe('succeeded')
  expect(hurt.marks(waits.run)).toEqual(['waits'])
  for (const call of [short, long]) {
    await attested(hurt, await hurt.read(call))
    expect(endsIn(await journalOf(hurt, call.run)).map(({ kind }) => kind)).toEqual(['indeterminate'])
  }
})

test('control: a call through the proxy without faults succeeds', async () => {
  path.next('settle', noFault)
  const call = await hurt.propose('mark_quickly', { mark: 'control\n' }, { wait: 10 })
  expect(call.state).toBe('succeeded')
  expect(readFileSync(`${hurt.stack.state.worker}/worker.json`, 'utf8')).not.toContain(hurt.stack.url)
})
