// Promise: many calls run in parallel, and none waits forever behind those of another agent or run.
// If too many wait, a proposal is refused before anybody is asked, with advice to retry.

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { LIMITS } from '../../shared/limits.ts'
import { bearer, type Client, client } from '../../shared/routes/client.ts'
import { eventually } from '../support/eventually.ts'
import { unwrap } from '../support/fixtures.ts'
import { HurtStack } from '../support/stack/hurt-stack.ts'

/** The most calls of a run that may wait: the real limit takes a thousand proposals to reach. */
const WAITING = 150

let hurt: HurtStack

async function inLanes<T>(count: number, lanes: number, work: (n: number) => Promise<T>): Promise<T[]> {
  const done: T[] = []
  let next = 0
  const lane = async (): Promise<void> => {
    while (next < count) {
      const n = next++
      done[n] = await work(n)
    }
  }
  await Promise.all(Array.from({ length: lanes }, lane))
  return done
}

const STAYS = {
  description: 'stays for a while',
  input_schema: { type: 'object', properties: { seconds: { type: 'string' } }, required: ['seconds'] },
  capabilities: [],
  executor: {
    kind: 'process' as const,
    tiers: ['C' as const],
    argv: ['sleep', '{seconds}'],
    stdin: 'none' as const,
  },
  egress: { mode: 'strict' as const, hosts: [] },
  workspace: 'call' as const,
  limits: { timeout_ms: 60_000 },
}

describe('on a worker with four slots', () => {
  beforeAll(async () => {
    hurt = await HurtStack.start({ concurrency: 4, limits: { waiting_calls_per_run: WAITING } })
    unwrap(await hurt.operator('putTool', { params: { name: 'stays' }, body: STAYS }))
  })
  afterAll(() => hurt?.stop())

  test('a hundred waiting calls of an agent in ten runs hold up no first call of another agent or run', async () => {
    const body = { tools: ['stays'] }
    const { key = '' } = unwrap(await hurt.operator('putAgent', { params: { name: 'guest' }, body }))
    const guest = client(hurt.stack.url, bearer(key))
    const runs = await inLanes(10, 4, () => hurt.run())
    const waiting = await inLanes(100, 8, (n) =>
      hurt.propose('stays', { seconds: '0.5' }, { run: runs[n % 10] ?? '' }),
    )
    const endedOf = async (): Promise<number> => {
      const states = await inLanes(
        waiting.length,
        8,
        async (n) => (await hurt.read(waiting[n] ?? { run: '', id: '' })).state,
      )
      return states.filter((state) => state === 'succeeded').length
    }
    const before = await endedOf()
    const own = await Promise.all([
      guest('proposeCallInNewRun', { body: { tool: 'stays', args: { seconds: '0' } }, wait: 30 }),
      hurt.agent('proposeCallInNewRun', { body: { tool: 'stays', args: { seconds: '0' } }, wait: 30 }),
    ])
    expect(own.map((call) => unwrap(call).state)).toEqual(['succeeded', 'succeeded'])
    const meanwhile = (await endedOf()) - before
    // Calls that ran, were rung for, or ended while we counted. In a plain queue it would be almost
    // all.
    expect(before).toBeLessThan(40)
    expect(meanwhile).toBeLessThan(50)
    for (const run of runs) unwrap(await hurt.agent('cancelRun', { params: { run } }))
  })

  describe('in a pool without a worker', () => {
    let agent: Client
    let run: string
    let secret: string
    const propose = (of: string, tool = 'stays', key?: string) =>
      agent('proposeCall', {
        params: { run: of },
        body: { tool, args: tool === 'stays' ? { seconds: '1' } : { mark: 'x' } },
        ...(key === undefined ? {} : { headers: { 'idempotency-key': key } }),
      })
    beforeAll(async () => {
      const body = { tools: ['stays', 'mark_asking'], pool: 'nobody', budget: { max_calls_per_run: 5_000 } }
      const { key = '' } = unwrap(await hurt.operator('putAgent', { params: { name: 'crowd' }, body }))
      secret = key
      agent = client(hurt.stack.url, bearer(key))
      run = unwrap(await agent('createRun', { body: {} })).id
      unwrap(await propose(run, 'stays', 'the-first'))
      await inLanes(WAITING - 1, 8, async () => unwrap(await propose(run)))
    })

    test('a run’s call beyond its share of the queue (`waiting_calls_per_run`) is refused with `queue_full`, and nobody is asked', async () => {
      for (const tool of ['stays', 'mark_asking']) {
        const answer = await fetch(new URL(`/v1/runs/${run}/calls`, hurt.stack.url), {
          method: 'POST',
          headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
          body: JSON.stringify({ tool, args: tool === 'stays' ? { seconds: '1' } : { mark: 'x' } }),
        })
        expect([answer.status, answer.headers.get('retry-after')]).toEqual([503, '1'])
        expect(await answer.json()).toMatchObject({ code: 'queue_full', retry: true })
      }
      const { items } = unwrap(await hurt.operator('listApprovals', { query: {} }))
      expect(items.filter(({ call }) => call.startsWith(run.replace('run_', 'call_')))).toEqual([])
      expect(unwrap(await agent('readRun', { params: { run } })).used.calls).toBe(WAITING)
    })

    test('a repeated proposal still returns its call when the queue is full, and another run has its own share', async () => {
      expect(unwrap(await propose(run, 'stays', 'the-first')).state).toBe('granted')
      const other = unwrap(await agent('createRun', { body: {} })).id
      expect(unwrap(await propose(other)).state).toBe('granted')
    })

    test('an agent has only a few doorbells in Redis, however many calls wait', async () => {
      const redis = hurt.redis()
      const fresh = unwrap(await agent('createRun', { body: {} })).id
      await inLanes(50, 8, async () => unwrap(await propose(fresh)))
      const lying = async (): Promise<Set<string | null>> => {
        const ids = await redis.lrange('cs:doorbell-default.nobody:wait', 0, -1)
        return new Set(
          await Promise.all(ids.map((id) => redis.hget(`cs:doorbell-default.nobody:${id}`, 'data'))),
        )
      }
      await eventually('doorbells lie in Redis', async () => (await lying()).size > 0)
      const before = await lying()
      expect(before.size).toBeLessThanOrEqual(LIMITS.doorbells_per_agent) // calls that wait for long are rung again
      // Doorbells that are gone were lost or reached workers that may not claim: after a while,
      // others ring.
      const others = async (): Promise<boolean> => {
        if ([...(await lying())].some((call) => !before.has(call))) return true
        await redis.del('cs:doorbell-default.nobody:wait')
        return false
      }
      await eventually('others lie there', others, 30_000)
      redis.disconnect()
    })

    test('cancelled calls make room in the queue', async () => {
      const { id } = unwrap(await propose(run, 'stays', 'the-first'))
      unwrap(await agent('cancelCall', { params: { run, call: id } }))
      await eventually('a call is taken', async () => (await propose(run)).ok)
    })
  })
})

describe('on a worker with 64 slots', () => {
  beforeAll(async () => {
    hurt = await HurtStack.start({ concurrency: 64 })
    unwrap(await hurt.operator('putTool', { params: { name: 'stays' }, body: STAYS }))
  })
  afterAll(() => hurt?.stop())

  test('64 calls of one run are executed at once, and end when the run is cancelled', async () => {
    const run = await hurt.run()
    const calls = await inLanes(64, 8, () => hurt.propose('stays', { seconds: '50' }, { run }))
    const states = () => Promise.all(calls.map(async (call) => (await hurt.read(call)).state))
    await eventually('all run', async () => (await states()).every((state) => state === 'running'), 40_000)
    unwrap(await hurt.agent('cancelRun', { params: { run } }))
    for (const call of calls) expect((await hurt.ended(call, 40_000)).state).toBe('cancelled')
  })
})
