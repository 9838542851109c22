// Promise: calls of skills that wait for a place are bounded, for each keeps an object open: of an agent, of a tenant, of all. Who comes beyond
// is told to come again, what waits already is not lost, and an agent never takes all that its tenant has.

import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ConcurrencySlots } from '../../../../edge/skills/execution/concurrency-slots.ts'
import type { Stack } from '../../../../infra/stack.ts'
import { LIMITS } from '../../../../shared/limits.ts'
import type { Call } from '../../../../shared/wire/calls.ts'
import { Desk, granted, refusal } from '../../../support/fixtures.ts'
import { asking, component, Publisher } from '../../../support/skills/skill.ts'
import { startTestStack } from '../../../support/stack/stack.ts'

describe('who may wait', () => {
  const LONG_MS = 60_000
  const held = (): Promise<never> => new Promise(() => undefined)
  /** So many of this agent wait, none of whom holds a place. */
  const wait = (places: ConcurrencySlots, tenant: string, who: string, count: number): void => {
    for (let i = 0; i < count; i++) void places.take([tenant, who, 'a'], LONG_MS, held)
  }
  /** With all its places taken. */
  const taken = (bounds: { all: number; tenant: number; who: number }): ConcurrencySlots => {
    const places = new ConcurrencySlots(2, bounds)
    wait(places, 'x', 'x', 1)
    wait(places, 'y', 'y', 1)
    return places
  }

  test('of one agent so many, and another of its tenant waits beside them', () => {
    const places = taken({ all: 100, tenant: 100, who: 3 })
    wait(places, 'a', 'one', 3)
    expect([
      places.full(['a', 'one', 'b']),
      places.full(['a', 'two', 'a']),
      places.full(['b', 'one', 'a']),
    ]).toEqual([true, false, false])
  })

  test('of a tenant so many, and whoever has less than an equal share of that gets in, up to twice as many', () => {
    const places = taken({ all: 100, tenant: 6, who: 5 })
    wait(places, 'a', 'one', 4)
    wait(places, 'a', 'two', 2)
    expect([places.full(['a', 'one', 'a']), places.full(['a', 'two', 'a'])]).toEqual([true, false])
    wait(places, 'a', 'two', 1)
    expect([
      places.full(['a', 'two', 'a']),
      places.full(['a', 'three', 'a']),
      places.full(['b', 'one', 'a']),
    ]).toEqual([true, false, false])
    for (let i = 0; i < 5; i++) wait(places, 'a', `more${i}`, 1)
    expect(places.full(['a', 'the last', 'a'])).toBe(true)
  })

  test('of all so many, and a tenant that has less than an equal share gets in', () => {
    const places = taken({ all: 4, tenant: 3, who: 3 })
    wait(places, 'a', 'one', 3)
    wait(places, 'b', 'one', 1)
    expect([
      places.full(['a', 'two', 'a']),
      places.full(['b', 'one', 'a']),
      places.full(['c', 'one', 'a']),
    ]).toEqual([true, true, false])
  })

  test('who is let in waits no more, and who would have to wait beyond is left out', async () => {
    const places = new ConcurrencySlots(2, { all: 100, tenant: 100, who: 1 })
    const first = Promise.withResolvers<void>()
    const holding = places.take(['a', 'one', 'a'], LONG_MS, () => first.promise)
    const waiting = places.takeOrLeave(['a', 'one', 'a'], LONG_MS, async () => 'it waited')
    expect(await places.takeOrLeave(['a', 'one', 'a'], LONG_MS, async () => 'it waited too')).toBeUndefined()
    expect(places.full(['a', 'one', 'a'])).toBe(true)
    first.resolve()
    await holding
    expect([await waiting, places.full(['a', 'one', 'a'])]).toEqual(['it waited', false])
  })
})

describe('at the edge', () => {
  const HOST = 'slow.example.test'
  const waiting: ServerResponse[] = []
  let isOpen = false
  /** It answers nobody before it is opened. */
  const origin: Server = createServer((_, response) => {
    if (isOpen) response.end('"at last"')
    else waiting.push(response)
  })
  let stack: Stack
  let desk: Desk
  beforeAll(async () => {
    await new Promise<void>((resolve) => origin.listen(0, '127.0.0.1', resolve))
    const to = `http://127.0.0.1:${(origin.address() as AddressInfo).port}` // it listens on TCP
    stack = await startTestStack({ loopbackChannels: { [`https://${HOST}`]: to } })
    desk = new Desk('crowd', stack.dev)
    const acme = await Publisher.listed('acme', desk.root)
    const maker = await desk.operator(['admin'])
    const code = await component(asking({ url: `https://${HOST}/` }))
    for (const [id, sensitive] of [
      ['slow', false],
      ['guarded', true],
    ] as const) {
      const tools = [
        { name: 'run', description: 'asks its host', input_schema: { type: 'object' }, sensitive },
      ]
      const manifest = acme.manifest(id, {
        tools,
        capabilities: { http: { hosts: [HOST], methods: ['GET'] } },
        limits: { timeout_ms: 10_000 },
      })
      granted(await maker.client('publishSkill', { body: acme.pack(manifest, code) }))
      granted(await desk.root('enableSkill', { params: { id, version: '1.0.0' }, body: {} }))
    }
  })
  afterAll(async () => {
    origin.closeAllConnections()
    origin.close()
    await stack.stop()
  })

  test('W01 beyond what may wait, an agent is told to come again; another is not, and nothing that waits is lost', async () => {
    const [crowd, other] = [await desk.agent(), await desk.agent()]
    const newRun = async () => granted(await crowd.client('createRun', { body: { session: 'a-crowd' } })).id
    const propose = async (tool: string) =>
      crowd.client('proposeCall', { params: { run: await newRun() }, body: { tool, args: {} } })
    const approve = async ({ approval }: Call, scope: 'once' | 'session') =>
      granted(
        await desk.root('answerApproval', {
          params: { id: approval?.id ?? '' },
          body: { decision: 'approve', scope },
        }),
      )
    const first = granted(await propose('slow.run'))
    await approve(first, 'session')
    const asked = granted(await propose('guarded.run'))
    const taken: Call[] = []
    const lane = async (): Promise<string> => {
      for (;;) {
        const answer = await propose('slow.run')
        if (!answer.ok) return refusal(answer)
        taken.push(answer.value)
      }
    }
    const refusals = await Promise.all(Array.from({ length: 8 }, lane))
    expect(new Set(refusals)).toEqual(new Set(['503 queue_full']))
    expect(taken.length).toBeGreaterThanOrEqual(LIMITS.waiting_skill_calls_per_agent)
    expect(taken.length).toBeLessThan(2 * LIMITS.waiting_skill_calls_per_agent)
    const answer = await fetch(new URL(`/v1/runs/${await newRun()}/calls`, stack.url), {
      method: 'POST',
      headers: { authorization: `Bearer ${crowd.key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ tool: 'slow.run', args: {} }),
    })
    expect([answer.status, answer.headers.get('retry-after')]).toEqual([503, '1'])
    expect(await answer.json()).toMatchObject({
      code: 'queue_full',
      retry: true,
      detail: expect.stringContaining('skills'),
    })
    const others = granted(
      await other.client('proposeCallInNewRun', { body: { tool: 'slow.run', args: {} } }),
    )
    await approve(others, 'once')
    // What humans say yes to meanwhile holds no object open: it is looked at again.
    await approve(asked, 'once')

    isOpen = true
    for (const response of waiting) response.end('"at last"')
    const endOf = async ({ run, id }: Call, by = crowd.client) =>
      granted(await by('readCall', { params: { run, call: id }, wait: 50 })).state
    expect([await endOf(asked), await endOf(others, other.client)]).toEqual(['succeeded', 'succeeded'])
    const ends = await Promise.all(taken.map((call) => endOf(call)))
    expect(ends.filter((end) => end !== 'succeeded' && end !== 'failed' && end !== 'timed_out')).toEqual([])
    expect(ends.filter((end) => end === 'succeeded').length).toBeGreaterThan(
      LIMITS.waiting_skill_calls_per_agent / 2,
    )
    expect((await propose('slow.run')).ok).toBe(true)
  }, 120_000)
})
