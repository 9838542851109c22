// Promise: waiting skill calls are bounded per agent, per tenant and in total, because each keeps
// an object open. Further calls are refused with `queue_full`, waiting ones are not lost, and no
// agent takes all of its tenant's share.

import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ConcurrencySlots } from '../../../../edge/skills/execution/concurrency-slots.ts'
import type { Stack } from '../../../../infra/stack.ts'
import { LIMITS } from '../../../../shared/limits.ts'
import type { Call } from '../../../../shared/wire/calls.ts'
import { Fixtures, refusalOf, unwrap } from '../../../support/fixtures.ts'
import { component, hostCallSkill, Publisher } from '../../../support/skills/skill.ts'
import { startTestStack } from '../../../support/stack/stack.ts'

describe('bounds on waiting calls', () => {
  const LONG_MS = 60_000
  const held = (): Promise<never> => new Promise(() => undefined)
  /** Adds this many calls of the agent, which wait if no slot is free. */
  const wait = (slots: ConcurrencySlots, tenant: string, who: string, count: number): void => {
    for (let i = 0; i < count; i++) void slots.take([tenant, who, 'a'], LONG_MS, held)
  }
  /** Slots that are all taken. */
  const taken = (bounds: { all: number; tenant: number; who: number }): ConcurrencySlots => {
    const slots = new ConcurrencySlots(2, bounds)
    wait(slots, 'x', 'x', 1)
    wait(slots, 'y', 'y', 1)
    return slots
  }

  test('an agent at its bound may not add a waiting call, and another agent of its tenant may', () => {
    const slots = taken({ all: 100, tenant: 100, who: 3 })
    wait(slots, 'a', 'one', 3)
    expect([
      slots.isFull(['a', 'one', 'b']),
      slots.isFull(['a', 'two', 'a']),
      slots.isFull(['b', 'one', 'a']),
    ]).toEqual([true, false, false])
  })

  test('at the tenant’s bound, an agent with less than an equal share may add a waiting call, up to twice the bound', () => {
    const slots = taken({ all: 100, tenant: 6, who: 5 })
    wait(slots, 'a', 'one', 4)
    wait(slots, 'a', 'two', 2)
    expect([slots.isFull(['a', 'one', 'a']), slots.isFull(['a', 'two', 'a'])]).toEqual([true, false])
    wait(slots, 'a', 'two', 1)
    expect([
      slots.isFull(['a', 'two', 'a']),
      slots.isFull(['a', 'three', 'a']),
      slots.isFull(['b', 'one', 'a']),
    ]).toEqual([true, false, false])
    for (let i = 0; i < 5; i++) wait(slots, 'a', `more${i}`, 1)
    expect(slots.isFull(['a', 'the last', 'a'])).toBe(true)
  })

  test('at the total bound, a tenant with less than an equal share may add a waiting call', () => {
    const slots = taken({ all: 4, tenant: 3, who: 3 })
    wait(slots, 'a', 'one', 3)
    wait(slots, 'b', 'one', 1)
    expect([
      slots.isFull(['a', 'two', 'a']),
      slots.isFull(['b', 'one', 'a']),
      slots.isFull(['c', 'one', 'a']),
    ]).toEqual([true, true, false])
  })

  test('an admitted call no longer counts as waiting, and a call beyond the bound is not added', async () => {
    const slots = new ConcurrencySlots(2, { all: 100, tenant: 100, who: 1 })
    const first = Promise.withResolvers<void>()
    const holding = slots.take(['a', 'one', 'a'], LONG_MS, () => first.promise)
    const waiting = slots.takeUnlessFull(['a', 'one', 'a'], LONG_MS, async () => 'ran')
    expect(await slots.takeUnlessFull(['a', 'one', 'a'], LONG_MS, async () => 'ran too')).toBeUndefined()
    expect(slots.isFull(['a', 'one', 'a'])).toBe(true)
    first.resolve()
    await holding
    expect([await waiting, slots.isFull(['a', 'one', 'a'])]).toEqual(['ran', false])
  })
})

describe('at the edge', () => {
  const HOST = 'slow.example.test'
  const waiting: ServerResponse[] = []
  let isOpen = false
  /** Answers nobody until it is opened. */
  const origin: Server = createServer((_, response) => {
    if (isOpen) response.end('"at last"')
    else waiting.push(response)
  })
  let stack: Stack
  let fixtures: Fixtures
  beforeAll(async () => {
    await new Promise<void>((resolve) => origin.listen(0, '127.0.0.1', resolve))
    const to = `http://127.0.0.1:${(origin.address() as AddressInfo).port}` // the address of a TCP server
    stack = await startTestStack({ worker: 'idle', loopbackChannels: { [`https://${HOST}`]: to } })
    fixtures = new Fixtures('crowd', stack.dev)
    const acme = await Publisher.listed('acme', fixtures.root)
    const maker = await fixtures.operator(['admin'])
    const code = await component(hostCallSkill({ url: `https://${HOST}/` }))
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
      unwrap(await maker.client('publishSkill', { body: acme.pack(manifest, code) }))
      unwrap(await fixtures.root('enableSkill', { params: { id, version: '1.0.0' }, body: {} }))
    }
  })
  afterAll(async () => {
    origin.closeAllConnections()
    origin.close()
    await stack.stop()
  })

  test('W01 an agent beyond its bound gets `queue_full`, another agent does not, and no waiting call is lost', async () => {
    const [crowd, other] = [await fixtures.agent(), await fixtures.agent()]
    const newRun = async () => unwrap(await crowd.client('createRun', { body: { session: 'a-crowd' } })).id
    const propose = async (tool: string) =>
      crowd.client('proposeCall', { params: { run: await newRun() }, body: { tool, args: {} } })
    const approve = async ({ approval }: Call, scope: 'once' | 'session') =>
      unwrap(
        await fixtures.root('answerApproval', {
          params: { id: approval?.id ?? '' },
          body: { decision: 'approve', scope },
        }),
      )
    const first = unwrap(await propose('slow_run'))
    await approve(first, 'session')
    const asked = unwrap(await propose('guarded_run'))
    const taken: Call[] = []
    const lane = async (): Promise<string> => {
      for (;;) {
        const answer = await propose('slow_run')
        if (!answer.ok) return refusalOf(answer)
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
      body: JSON.stringify({ tool: 'slow_run', args: {} }),
    })
    expect([answer.status, answer.headers.get('retry-after')]).toEqual([503, '1'])
    expect(await answer.json()).toMatchObject({
      code: 'queue_full',
      retry: true,
      detail: expect.stringContaining('skills'),
    })
    const others = unwrap(await other.client('proposeCallInNewRun', { body: { tool: 'slow_run', args: {} } }))
    await approve(others, 'once')
    // A call approved in the meantime keeps no object open; the run's alarm retries it.
    await approve(asked, 'once')

    isOpen = true
    for (const response of waiting) response.end('"at last"')
    const endOf = async ({ run, id }: Call, by = crowd.client) =>
      unwrap(await by('readCall', { params: { run, call: id }, wait: 50 })).state
    expect([await endOf(asked), await endOf(others, other.client)]).toEqual(['succeeded', 'succeeded'])
    const ends = await Promise.all(taken.map((call) => endOf(call)))
    expect(ends.filter((end) => end !== 'succeeded' && end !== 'failed' && end !== 'timed_out')).toEqual([])
    expect(ends.filter((end) => end === 'succeeded').length).toBeGreaterThan(
      LIMITS.waiting_skill_calls_per_agent / 2,
    )
    expect((await propose('slow_run')).ok).toBe(true)
  }, 120_000)
})
