// Promise: code that can't suspend, such as `cabi_realloc`, has one fuel budget until the skill has
// run suspendable code again, so an answer of many parts delays nobody longer than an answer of
// one. While eight hostile calls run, wherever they burn fuel, others are served promptly.

import { beforeAll, describe, expect, test } from 'vitest'
import { LIMITS, MAX_SKILL_LIMITS } from '../../../../shared/limits.ts'
import type { Call } from '../../../../shared/wire/calls.ts'
import type { SkillManifest } from '../../../../shared/wire/skills.ts'
import { Fixtures, unwrap } from '../../../support/fixtures.ts'
import { answer, component, LOG, type Parts, Publisher, RANDOM } from '../../../support/skills/skill.ts'
import * as w from '../../../support/skills/wasm.ts'
import { sharedStack } from '../../../support/stack/stack.ts'

const fixtures = new Fixtures('crossing', sharedStack())
let acme: Publisher
let maker: Awaited<ReturnType<Fixtures['operator']>>
let agent: Awaited<ReturnType<Fixtures['agent']>>

beforeAll(async () => {
  acme = await Publisher.listed('crossing-acme', fixtures.root)
  maker = await fixtures.operator(['admin'])
  agent = await fixtures.agent()
})

const enabled = async (parts: Parts, change: Partial<SkillManifest> = {}, id = fixtures.name()) =>
  acme.enable({ maker: maker.client, root: fixtures.root }, acme.manifest(id, change), await component(parts))
const called = async (tool: string, by = agent): Promise<Call> =>
  unwrap(await by.client('proposeCallInNewRun', { body: { tool, args: {} }, wait: 20 }))
async function fuelOf(call: Call): Promise<number> {
  const { envelope } = unwrap(
    await agent.client('readAttestation', { params: { run: call.run, call: call.id } }),
  )
  const { predicate } = JSON.parse(Buffer.from(envelope.payload, 'base64').toString()) as {
    predicate: { execution: { skill: { fuel_used: number } } }
  } // the edge signed it
  return predicate.execution.skill.fuel_used
}

const KV = (name: string, params: number) =>
  ({ from: 'countersign:skill/kv@0.1.0', name, params: Array.from({ length: params }, () => w.I32) }) as const
/** Each is on the disk before the next one, and all of them within the 10 s that a skill has. */
const KEYS = 400
const SAID = [0, ...w.i32(1_024), 0x0b, 9, ...Buffer.from('k/000"ok"')]
const OK = answer(w.i32(1_029), w.i32(4))
const count = (local: number, to: number, body: w.Code): w.Code =>
  w.loop([...body, ...w.get(local), ...w.i32(1), 0x6a, ...w.tee(local), ...w.i32(to), 0x48, ...w.brIf(0)])

/** Stores this many keys. */
function keeping(): Parts {
  const place = (at: number, of: number): w.Code =>
    w.digit(at, [...w.get(4), ...w.i32(of), 0x6d, ...w.i32(10), 0x6f])
  const key = [...place(1_026, 100), ...place(1_027, 10), ...place(1_028, 1)]
  const set = [...w.i32(1_024), ...w.i32(5), ...w.i32(1_024), ...w.i32(1), ...w.i32(512), ...w.call(0)]
  return {
    imports: [KV('set', 5)],
    data: [SAID],
    locals: [w.I32],
    run: [...count(4, KEYS, [...key, ...set]), ...OK],
  }
}
/** Burns this much fuel, at most one budget for code that can't suspend, in each `cabi_realloc`. */
const burning = (rounds: number): w.Fn => ({
  ...w.REALLOC_SHAPE,
  locals: [w.I32],
  body: [...count(4, rounds, []), ...w.i32(70_000)],
})
const listing = (rounds: number): Parts => ({
  imports: [KV('keys', 3)],
  data: [SAID],
  realloc: burning(rounds),
  run: [...w.i32(1_024), ...w.i32(2), ...w.i32(512), ...w.call(0), ...OK],
})
const ROUNDS = LIMITS.skill_alone_fuel / 20
const limits = { fuel: 2_000_000_000, timeout_ms: 10_000 }

describe('W01 fuel in `cabi_realloc`', () => {
  test('W01 `cabi_realloc` gets one fuel budget for a whole list of keys, which suffices if each call burns little', async () => {
    const id = fixtures.name()
    const capabilities = { kv: ['k/'] }
    expect((await called(await enabled(keeping(), { capabilities, limits }, id))).result?.output).toBe('"ok"')
    const burnt = await called(await enabled(listing(ROUNDS), { capabilities, limits, version: '2.0.0' }, id))
    expect([burnt.state, burnt.result?.error?.code]).toEqual(['failed', 'quota_exceeded'])
    // The first call is for its input, the others are for the keys.
    expect(await fuelOf(burnt)).toBeLessThan(2.1 * LIMITS.skill_alone_fuel)
    const little = await called(await enabled(listing(100), { capabilities, limits, version: '3.0.0' }, id))
    expect([little.state, little.result?.output]).toEqual(['succeeded', '"ok"'])
    expect(await fuelOf(little)).toBeGreaterThan(KEYS * 100)
  })

  test('W01 `cabi_realloc` gets a new fuel budget after suspendable code ran, and all of it is counted', async () => {
    const draws = (times: number): Parts => ({
      imports: [RANDOM],
      data: [SAID],
      locals: [w.I32],
      realloc: burning(ROUNDS),
      run: [...count(4, times, [...w.i32(8), ...w.i32(512), ...w.call(0)]), ...OK],
    })
    const [ten, twenty] = [
      await called(await enabled(draws(10), { limits })),
      await called(await enabled(draws(20), { limits })),
    ]
    expect([ten.result?.output, twenty.result?.output]).toEqual(['"ok"', '"ok"'])
    const [less, more] = [await fuelOf(ten), await fuelOf(twenty)]
    expect((more - less) / 10).toBeGreaterThan(ROUNDS)
    expect(less).toBeGreaterThan(2 * LIMITS.skill_alone_fuel)
  })
})

test('a call that has used a host function `skill_host_calls` times is refused it from then on', async () => {
  const get = [...w.i32(1_024), ...w.i32(5), ...w.i32(512), ...w.call(0)]
  const failed = [...w.digit(1_030, [...w.i32(512), ...w.load(0x2d)]), ...answer(w.i32(1_030), w.i32(1))]
  const lastOf = async (uses: number) => {
    const parts = {
      imports: [KV('get', 3)],
      data: [SAID],
      locals: [w.I32],
      run: [...count(4, uses, get), ...failed],
    }
    return (await called(await enabled(parts, { capabilities: { kv: ['k/'] }, limits }))).result?.output
  }
  expect([await lastOf(LIMITS.skill_host_calls), await lastOf(LIMITS.skill_host_calls + 1)]).toEqual([
    '0',
    '1',
  ])
})

describe('eight calls of a hostile skill', () => {
  const endless = (body: w.Code): w.Code => [...w.loop([...body, ...w.br(0)]), w.UNREACHABLE]
  /** A chase through pseudo-random addresses, the slowest way to use a unit of fuel. */
  const somewhere = (at: number): w.Code => {
    const next = [...w.get(at), ...w.i32(1_664_525), 0x6c, ...w.i32(1_013_904_223), 0x6a, ...w.tee(at)]
    return [...next, ...w.i32(0xfffffc), 0x71, ...w.load(), w.DROP]
  }
  /** At most half of the budget, because its input takes two allocations. */
  const ROAMED = 40_000
  const roaming: w.Fn = {
    ...w.REALLOC_SHAPE,
    locals: [w.I32, w.I32],
    body: [...count(4, ROAMED, somewhere(5)), ...w.i32(70_000)],
  }
  const memory = { min: 256 }
  const MEGABYTES = 3_000_000
  const written = (length: number): w.Code => [
    ...w.i32(1_024),
    ...w.i32(2),
    ...w.i32(1_024),
    ...w.i32(length),
    ...w.call(0),
  ]

  test.each<[string, Parts]>([
    ['loop', { run: endless([]) }],
    ['read memory all over', { memory, locals: [w.I32], run: endless(somewhere(4)) }],
    ['call their host', { imports: [LOG], data: [SAID], run: endless(written(8)) }],
    [
      'send megabytes to the host',
      { imports: [LOG], data: [SAID], memory, run: endless(written(MEGABYTES)) },
    ],
    [
      'burn fuel where the host passes a value',
      {
        imports: [RANDOM],
        memory,
        realloc: roaming,
        run: endless([...w.i32(8), ...w.i32(512), ...w.call(0)]),
      },
    ],
    [
      'burn fuel where the host passes a thousand values',
      {
        imports: [KV('keys', 3)],
        memory,
        data: [SAID],
        realloc: roaming,
        run: endless([...w.i32(1_024), ...w.i32(2), ...w.i32(512), ...w.call(0)]),
      },
    ],
  ])('W01 another skill and other requests are served while eight hostile calls %s', async (_, parts) => {
    const [id, other] = [fixtures.name(), await fixtures.agent()]
    const most = {
      capabilities: { kv: ['k/'], log: true as const, random: true as const },
      limits: { ...limits, timeout_ms: 2_000 },
    }
    if (parts.imports?.[0]?.name === 'keys')
      await called(await enabled(keeping(), { ...most, version: '0.1.0' }, id))
    const hostile = await enabled(
      parts,
      { ...most, limits: { ...most.limits, memory_bytes: MAX_SKILL_LIMITS.memory_bytes } },
      id,
    )
    const good = await enabled({}, { limits: { timeout_ms: 10_000 } })
    await called(good, other)
    const burning = Array.from({ length: 8 }, () => called(hostile))
    const took: number[] = []
    for (let i = 0; i < 20; i++) {
      const begun = performance.now()
      if (i % 2 === 0) unwrap(await other.client('listTools', {}))
      else expect((await called(good, other)).state).toBe('succeeded')
      took.push(performance.now() - begun)
    }
    for (const call of await Promise.all(burning)) expect(['failed', 'timed_out']).toContain(call.state)
    const [, p95 = 0] = took.sort((one, next) => next - one)
    expect(p95).toBeLessThan(1_000) // about 50 ms on a quiet machine, as `npm run bench` measures
  })
})
