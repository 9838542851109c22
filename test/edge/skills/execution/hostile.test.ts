// Promise: a hostile skill that was enabled by mistake always ends with a recorded outcome,
// whatever it loops over, passes to the host, allocates or returns, and others are served in the
// meantime. The file starts its own edge and measures it from outside.

import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Stack } from '../../../../infra/stack.ts'
import { LIMITS, MAX_SKILL_LIMITS } from '../../../../shared/limits.ts'
import type { Outcome } from '../../../../shared/plan/plan.ts'
import type { Call } from '../../../../shared/wire/calls.ts'
import { Fixtures, unwrap } from '../../../support/fixtures.ts'
import {
  answer,
  assemble,
  component,
  LOG,
  type Parts,
  Publisher,
  RANDOM,
  type Unbound,
} from '../../../support/skills/skill.ts'
import * as w from '../../../support/skills/wasm.ts'
import { startTestStack } from '../../../support/stack/stack.ts'

let stack: Stack
let fixtures: Fixtures
let acme: Publisher
let maker: Awaited<ReturnType<Fixtures['operator']>>
let agent: Awaited<ReturnType<Fixtures['agent']>>
let other: Awaited<ReturnType<Fixtures['agent']>>

beforeAll(async () => {
  stack = await startTestStack({ worker: 'idle' })
  fixtures = new Fixtures('hostile', stack.dev)
  acme = await Publisher.listed('acme', fixtures.root)
  maker = await fixtures.operator(['admin'])
  agent = await fixtures.agent({ budget: { max_denied_per_run: 1_000 } })
  other = await fixtures.agent({ tools: ['text_stats'] })
})
afterAll(async () => {
  await stack.stop()
})

async function published(code: Uint8Array, change: Partial<Unbound> = {}): Promise<string> {
  const id = fixtures.name()
  unwrap(await maker.client('publishSkill', { body: acme.pack(acme.manifest(id, change), code) }))
  unwrap(await fixtures.root('enableSkill', { params: { id, version: '1.0.0' }, body: {} }))
  return `${id}_run`
}
const enabled = async (parts: Parts, change: Partial<Unbound> = {}): Promise<string> =>
  published(await component(parts), change)
const called = async (tool: string, args: Record<string, unknown> = {}): Promise<Call> =>
  unwrap(await agent.client('proposeCallInNewRun', { body: { tool, args }, wait: 30 }))

type Ran = {
  readonly outcome: Outcome
  readonly skill: { readonly fuel_used: number; readonly host_calls: Record<string, number> }
}
async function ran(call: Call): Promise<Ran> {
  const { envelope } = unwrap(
    await agent.client('readAttestation', { params: { run: call.run, call: call.id } }),
  )
  const { predicate } = JSON.parse(Buffer.from(envelope.payload, 'base64').toString()) as {
    predicate: { execution: Ran }
  } // the edge signed it
  return predicate.execution
}
/** A request that has nothing to do with skills is answered. */
const others = async (): Promise<string> =>
  unwrap(
    await other.client('proposeCallInNewRun', {
      body: { tool: 'process_run', args: { command: 'true', args: [] } },
    }),
  ).state

/** Memory of the edge, in MiB. */
const rss = (): number =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${stack.edge.pid}/status`, 'utf8'))?.[1]) / 1_024

const FOREVER = [...w.loop(w.br(0))]
const endless = (...code: readonly w.Code[]): w.Code => [
  ...w.loop([...code.flat(), ...w.br(0)]),
  w.UNREACHABLE,
]
const FLAG = 8
/** A `cabi_realloc` that returns a fixed address, or `otherwise` once `run` has set the flag. */
const reallocUnlessFlagged = (otherwise: w.Code): w.Fn => ({
  ...w.REALLOC_SHAPE,
  body: [...w.i32(FLAG), ...w.load(), ...w.when(otherwise), ...w.i32(65_536)],
})
const flagged: w.Code = [...w.i32(FLAG), ...w.i32(1), ...w.store()]
const drawn = (count: number): w.Code => [...w.i32(count), ...w.i32(32), ...w.call(0)]
const logged = (at: number, length: number): w.Code => [
  ...w.i32(at),
  ...w.i32(length),
  ...w.i32(0),
  ...w.i32(0),
  ...w.call(0),
]
const OK = answer(w.get(2), w.get(3))

describe('a hostile skill always ends', () => {
  const table = { tables: [{ min: 10, holds: w.EXTERNREF }, { min: 5_000 }] }
  test.each<[string, Parts, Outcome['kind']]>([
    [
      'W01 endless copies of much memory',
      { run: endless(w.i32(8), w.i32(0), w.i32(1_900_000), w.bulk(10, 0, 0)) },
      'fuel_exhausted',
    ],
    [
      'W01 one fill beyond the end of memory',
      { run: [...w.i32(0), ...w.i32(0), ...w.i32(-1), ...w.bulk(11, 0), ...OK] },
      'fuel_exhausted',
    ],
    [
      'W01 endless fills of a table',
      { ...table, run: endless(w.i32(0), w.op(0xd0, w.FUNCREF), w.i32(5_000), w.bulk(17, 1)) },
      'fuel_exhausted',
    ],
    [
      'W03 endless growth of memory',
      { run: endless(w.i32(1_000), w.op(0x40, 0), [w.DROP]) },
      'fuel_exhausted',
    ],
    [
      'W01 a loop in `cabi_realloc`',
      {
        imports: [RANDOM],
        realloc: reallocUnlessFlagged(FOREVER),
        run: [...flagged, ...drawn(8), ...OK],
      },
      'fuel_exhausted',
    ],
    [
      'W01 a loop in the function that frees the result',
      { others: [{ params: [w.I32], body: FOREVER, as: 'cabi_post_run' }] },
      'fuel_exhausted',
    ],
    [
      'W12 endless requests for random bytes',
      { imports: [RANDOM], realloc: reallocUnlessFlagged([]), run: endless(drawn(64)) },
      'fuel_exhausted',
    ],
    [
      'W05 an endless recursion without tail calls',
      { run: [...w.get(0), ...w.get(1), ...w.get(2), ...w.get(3), ...w.call(0), ...w.i32(1), 0x6a] },
      'trap',
    ],
    ['W07 a text that begins beyond memory', { imports: [LOG], run: [...logged(-1, 10), ...OK] }, 'trap'],
    ['W07 a text of 4 GiB', { imports: [LOG], run: [...logged(0, -1), ...OK] }, 'trap'],
    [
      'W07 a text that ends beyond memory',
      { imports: [LOG], run: [...logged(32 * 65_536 - 5, 10), ...OK] },
      'trap',
    ],
    [
      'W07 an invalid address from `cabi_realloc`',
      {
        imports: [RANDOM],
        realloc: reallocUnlessFlagged([...w.i32(-8), w.RETURN]),
        run: [...flagged, ...drawn(64), ...OK],
      },
      'trap',
    ],
    [
      'W07 addresses beyond memory from `cabi_realloc` and for the result',
      { imports: [RANDOM], run: [...w.i32(64), ...w.i32(-4), ...w.call(0), ...OK] },
      'trap',
    ],
    [
      'W12 more random bytes than one request may have',
      { imports: [RANDOM], run: [...drawn(65_537), ...OK] },
      'trap',
    ],
    ['W07 a result of 60 MB', { memory: { min: 1_000 }, run: answer(w.i32(64), w.i32(60_000_000)) }, 'trap'],
    [
      'W07 an error of 60 MB',
      { memory: { min: 1_000 }, run: answer(w.i32(64), w.i32(60_000_000), 'error') },
      'trap',
    ],
    [
      'W07 a log of 200 KB',
      { imports: [LOG], memory: { min: 1_000 }, run: [...logged(64, 200_000), ...OK] },
      'trap',
    ],
    [
      'W07 a log of 60 MB',
      { imports: [LOG], memory: { min: 1_000 }, run: [...logged(64, 60_000_000), ...OK] },
      'trap',
    ],
  ])('%s: the skill call ends, and its outcome is recorded', async (_, parts, kind) => {
    const call = await called(
      await enabled(parts, { limits: { fuel: 50_000_000, memory_bytes: MAX_SKILL_LIMITS.memory_bytes } }),
      {
        t: 'x',
      },
    )
    const { outcome, skill } = await ran(call)
    expect([outcome.kind, call.state, await others()]).toEqual([kind, 'failed', 'denied'])
    expect(skill.fuel_used).toBeLessThanOrEqual(50_000_000)
  })

  test('W01 the deadline ends a skill that computes, and the fuel used until then is recorded', async () => {
    const limits = { fuel: MAX_SKILL_LIMITS.fuel, timeout_ms: 500 }
    const begun = performance.now()
    const call = await called(await enabled({ run: endless() }, { limits }))
    const { outcome, skill } = await ran(call)
    expect([call.state, outcome.kind]).toEqual(['timed_out', 'timeout'])
    expect(skill.fuel_used).toBeGreaterThan(LIMITS.skill_slice_fuel)
    expect(skill.fuel_used).toBeLessThan(limits.fuel)
    expect(performance.now() - begun).toBeLessThan(15_000)
  })

  test('a cancellation ends a skill that computes, and the fuel used until then is recorded', async () => {
    const { fuel, timeout_ms } = MAX_SKILL_LIMITS
    const tool = await enabled({ run: endless() }, { limits: { fuel, timeout_ms } })
    const { run, id } = unwrap(await agent.client('proposeCallInNewRun', { body: { tool, args: {} } }))
    const params = { run, call: id }
    await expect
      .poll(async () => unwrap(await agent.client('readCall', { params })).state, { timeout: 10_000 })
      .toBe('running')
    unwrap(await agent.client('cancelCall', { params }))
    const call = unwrap(await agent.client('readCall', { params, wait: 20 }))
    const { outcome, skill } = await ran(call)
    expect([call.state, call.result?.error?.code, outcome.kind]).toEqual([
      'cancelled',
      'cancelled',
      'cancelled',
    ])
    expect(skill.fuel_used).toBeGreaterThan(0)
    expect(skill.fuel_used).toBeLessThan(fuel)
  })

  test('W07 a host call with arguments above `skill_asked_bytes` is not passed on, and the skill gets an error', async () => {
    const set = {
      from: 'countersign:skill/kv@0.1.0',
      name: 'set',
      params: Array.from({ length: 5 }, () => w.I32),
    }
    const [key, at] = [1_024, 512]
    const asked = [
      ...w.i32(key),
      ...w.i32(1),
      ...w.i32(2_048),
      ...w.i32(60_000_000),
      ...w.i32(at),
      ...w.call(0),
    ]
    const run = [
      ...w.loop([...asked, ...w.get(4), ...w.i32(1), 0x6a, ...w.tee(4), ...w.i32(20), 0x49, ...w.brIf(0)]),
      ...OK,
    ]
    const parts: Parts = {
      imports: [set],
      locals: [w.I32],
      memory: { min: 1_000 },
      data: [[0, ...w.i32(key), 0x0b, 1, 0x6b]],
      run,
    }
    const limits = {
      fuel: MAX_SKILL_LIMITS.fuel,
      memory_bytes: MAX_SKILL_LIMITS.memory_bytes,
      timeout_ms: MAX_SKILL_LIMITS.timeout_ms,
    }
    const tool = await enabled(parts, { capabilities: { kv: ['k'] }, limits })
    const before = rss()
    const calls = await Promise.all(Array.from({ length: 4 }, () => called(tool, { t: 'x' })))
    expect(calls.map(({ state }) => state)).toEqual(Array(4).fill('succeeded'))
    expect((await ran(calls[0] as Call)).skill.host_calls['kv.set']).toBe(20)
    expect(rss() - before).toBeLessThan(1_500) // of 4,800 MB, and copies of it
  })

  test('W05 a stack overflow is charged all fuel, because its depth differs by machine', async () => {
    const deep = [...w.get(0), ...w.get(1), ...w.get(2), ...w.get(3), ...w.call(0), ...w.i32(1), 0x6a]
    const { outcome, skill } = await ran(
      await called(await enabled({ run: deep }, { limits: { fuel: 40_000_000 } })),
    )
    expect([outcome, skill.fuel_used]).toEqual([{ kind: 'trap', detail: 'call stack exhausted' }, 40_000_000])
  })

  test('W12 host calls in straight-line code, without a loop, are charged one by one (`skill_host_call_fuel`)', async () => {
    const many = Array.from({ length: 5_000 }, () => logged(0, 10)).flat()
    const call = await called(
      await enabled({ imports: [LOG], run: [...many, ...OK] }, { limits: { fuel: 5_000_000 } }),
    )
    expect((await ran(call)).outcome.kind).toBe('fuel_exhausted')
    expect((await ran(call)).skill.host_calls['log.write']).toBeLessThan(2_500)
  })
})

describe('fuel and isolation of concurrent calls', () => {
  /** About 60 million units, which take many slices. */
  const BURNS: w.Code = [
    ...w.i32(10_000_000),
    ...w.set(4),
    ...w.loop([...w.get(4), ...w.i32(1), 0x6b, ...w.tee(4), ...w.brIf(0)]),
    ...OK,
  ]

  test('W13 concurrent skill calls use the same fuel as alone, and see nothing of each other', async () => {
    const tool = await enabled({ run: BURNS, locals: [w.I32] })
    const calls = await Promise.all(Array.from({ length: 8 }, (_, i) => called(tool, { canary: `c${i}` })))
    expect(calls.map(({ result }) => result?.output)).toEqual(calls.map((_, i) => `{"canary":"c${i}"}`))
    const fuel = await Promise.all(calls.map(async (call) => (await ran(call)).skill.fuel_used))
    expect(new Set(fuel).size).toBe(1)
    expect(fuel[0]).toBeGreaterThan(50 * LIMITS.skill_slice_fuel)
    expect((await ran(await called(tool, { canary: 'c9' }))).skill.fuel_used).toBe(fuel[0])
  })

  test('W13 memory, globals and tables of a skill call don’t reach the next call', async () => {
    // One digit each: a counter in memory at 2,048, one in a global, and whether the table has an
    // element.
    const isSet: w.Code = [...w.i32(0), ...w.op(0x25, 0), 0xd1, 0x45]
    const run = [
      ...w.i32(2_048),
      ...w.i32(2_048),
      ...w.load(),
      ...w.i32(1),
      0x6a,
      ...w.store(),
      ...w.globalGet(0),
      ...w.i32(1),
      0x6a,
      ...w.globalSet(0),
      ...w.digit(3_001, [...w.i32(2_048), ...w.load()]),
      ...w.digit(3_002, [...w.globalGet(0), ...w.i32(7), 0x71]),
      ...w.digit(3_003, isSet),
      ...w.i32(0),
      ...w.op(0xd2, 0),
      ...w.op(0x26, 0),
      ...w.i32(3_000),
      ...w.i32(0x31),
      ...w.store(0x3a),
      ...answer(w.i32(3_000), w.i32(4)),
    ]
    const tool = await enabled({
      run,
      tables: [{ min: 1 }],
      realloc: { ...w.REALLOC_SHAPE, body: w.i32(131_072) },
    })
    const [first, second] = [(await called(tool)).result?.output, (await called(tool)).result?.output]
    expect([first?.slice(0, 2), first?.at(-1), second]).toEqual(['11', '0', first])
  })

  test('W03 the memory of ended skill calls is freed', async () => {
    const touched = [...w.i32(64), ...w.i32(32), ...w.i32(60_000_000), ...w.bulk(11, 0), ...OK]
    const tool = await enabled(
      { run: touched, memory: { min: 1_000 } },
      { limits: { memory_bytes: MAX_SKILL_LIMITS.memory_bytes } },
    )
    for (let i = 0; i < 4; i++) await called(tool)
    const before = rss()
    for (let i = 0; i < 20; i++) expect((await called(tool)).state).toBe('failed') // the blanks overwrite the host's answer
    expect(rss() - before).toBeLessThan(400) // of 1,200 MB
  })
})

describe('W08 a skill’s texts', () => {
  const utf16 = (units: readonly number[]): string => `(component
    (core module $m (memory (export "memory") 2) (data (i32.const 64) "${units
      .flatMap((unit) => [unit & 255, unit >> 8])
      .map((byte) => `\\${byte.toString(16).padStart(2, '0')}`)
      .join('')}")
      (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 4096))
      (func (export "run") (param i32 i32 i32 i32) (result i32)
        (i32.store (i32.const 16) (i32.const 0)) (i32.store (i32.const 20) (i32.const 64)) (i32.store (i32.const 24) (i32.const ${units.length})) (i32.const 16)))
    (core instance $i (instantiate $m))
    (alias core export $i "memory" (core memory $memory)) (alias core export $i "realloc" (core func $realloc)) (alias core export $i "run" (core func $run))
    (type $answer (result string (error string))) (type $f (func (param "tool" string) (param "input" string) (result $answer)))
    (func $go (type $f) (canon lift (core func $run) (memory $memory) (realloc $realloc) string-encoding=utf16))
    (export "run" (func $go)))`

  test('W08 a skill’s UTF-16 and UTF-8 output becomes valid text, with lone surrogates replaced', async () => {
    const code = (text: string): number[] => [...text].flatMap((_, i) => text.charCodeAt(i))
    const whole = await called(await published(await assemble(utf16(code('"ü漢"')))))
    expect(whole.result?.output).toBe('"ü漢"')
    const broken = await called(await published(await assemble(utf16([0x22, 0xd800, 0x61, 0xdc00, 0x22]))))
    expect(broken.result?.output).toBe('"\uFFFDa\uFFFD"')
  })

  test('W08 a skill’s errors and logs become valid text', async () => {
    const bytes = [0x61, 0xff, 0xed, 0xa0, 0x80, 0x62]
    const data = [[0, ...w.i32(1_024), 0x0b, bytes.length, ...bytes]]
    const run = [
      ...w.i32(1_024),
      ...w.i32(6),
      ...w.i32(1_024),
      ...w.i32(6),
      ...w.call(0),
      ...answer(w.i32(1_024), w.i32(6), 'error'),
    ]
    const call = await called(await enabled({ imports: [LOG], run, data }))
    const text = 'a\uFFFD\uFFFD\uFFFD\uFFFDb'
    expect([call.result?.stderr, call.result?.error]).toEqual([
      `${text}: ${text}\n`,
      { code: 'skill_error', detail: text },
    ])
  })
})

describe('others while hostile skills run', () => {
  test('W01 a skill call that arrives while eight others burn all their fuel ends before any of them', async () => {
    const limits = { fuel: MAX_SKILL_LIMITS.fuel, timeout_ms: 6_000 }
    const fills = endless(w.i32(0), w.i32(0), w.i32(16_700_000), w.bulk(11, 0))
    const hostile = await enabled({ memory: { min: 256 }, run: fills }, { limits })
    const good = await enabled({})
    const burner = await fixtures.agent()
    await called(good)
    let ended = 0
    const burning = Array.from({ length: 8 }, async () => {
      const { result } = unwrap(
        await burner.client('proposeCallInNewRun', { body: { tool: hostile, args: {} }, wait: 30 }),
      )
      ended += 1
      return result?.error?.code
    })
    for (let i = 0; i < 3; i++)
      expect([await others(), (await called(good, { i })).result?.output]).toEqual(['denied', `{"i":${i}}`])
    expect(ended).toBe(0)
    // In as many runs, whose objects share the thread with the skills that burn fuel.
    for (let wave = 0; wave < 5; wave++) {
      const crowd = Array.from({ length: 30 }, (_, i) => i).map(
        async (i) => (await called(good, { i })).result?.output,
      )
      expect(await Promise.all(crowd)).toEqual(Array.from({ length: 30 }, (_, i) => `{"i":${i}}`))
    }
    for (const code of await Promise.all(burning)) expect(['timed_out', 'quota_exceeded']).toContain(code)
  })

  test('W06 other requests are answered while the largest possible skill is published and first called', async () => {
    const functions = 4_500
    const unit = (i: number): w.Code => [
      ...Array.from({ length: 8 }, () => [...w.i32(i), w.DROP]).flat(),
      ...w.i32(i),
      ...w.when([...w.loop([...w.i32(0), ...w.brIf(0)])], [w.UNREACHABLE]),
    ]
    const many: w.Fn[] = Array.from({ length: functions }, (_, i) => ({
      body: Array.from({ length: 16 }, () => unit(i + 1)).flat(),
    }))
    const code = await component({ others: many, run: [...many.flatMap((_, i) => w.call(2 + i)), ...OK] })
    expect(code.byteLength).toBeGreaterThan(0.7 * LIMITS.skill_component_bytes)
    const publishing = published(code)
    expect(await others()).toBe('denied')
    const call = called(await publishing)
    expect(await others()).toBe('denied')
    expect((await ran(await call)).outcome.kind).toBe('returned')
  })
})
