// Measures tier A over HTTP: warm and cold calls of a small skill and of one in JavaScript next to
// the cheapest requests, the publication of a large skill, the effect of as many skills as a tenant
// may have, and the latency of other calls while hostile skills burn fuel.

import type { Stack } from '../../infra/stack.ts'
import { MAX_SKILL_LIMITS } from '../../shared/limits.ts'
import { bearer, type Client, client } from '../../shared/routes/client.ts'
import { javaScriptSkill } from '../support/skills/javascript-skill.ts'
import { component, LOG, type Parts, Publisher, type Unbound } from '../support/skills/skill.ts'
import * as w from '../support/skills/wasm.ts'
import { bytesOf, Connection, type Request } from './connection.ts'
import { type Kernel, timeKernels } from './kernels.ts'
import type { Load } from './load.ts'
import type { Peer } from './peer.ts'
import { inRounds, type Row } from './rounds.ts'
import { type Extent, median, type Slice } from './slice.ts'
import { done, type SubjectRequests, type Subjects } from './subjects.ts'

export const HOSTILE_LANES = 8
/** Other requests come at this interval, each on its own connection. */
const OTHERS = { every_ms: 25, lanes: 64 } as const
const { fuel, timeout_ms, memory_bytes } = MAX_SKILL_LIMITS
const MOST = { capabilities: { log: true as const }, limits: { fuel, timeout_ms, memory_bytes } }
/**
 * Hostile skills: all lanes call each at once, with the most fuel, memory and time that a skill may
 * have.
 */
const HOSTILE: Readonly<Record<string, Parts>> = {
  'loops for ever': { run: [...w.loop(w.br(0)), w.UNREACHABLE] },
  'reads memory at random': {
    locals: [w.I32],
    memory: { min: 256 },
    run: [...w.loop([...Array.from({ length: 32 }, () => somewhere(4)).flat(), ...w.br(0)]), w.UNREACHABLE],
  },
  'fills 16 MiB at a time': {
    memory: { min: 256 },
    run: [
      ...w.loop([...w.i32(0), ...w.i32(0), ...w.i32(16_700_000), ...w.bulk(11, 0), ...w.br(0)]),
      w.UNREACHABLE,
    ],
  },
  'burns cheaply, then reads memory at random': {
    locals: [w.I32],
    memory: { min: 1_000 },
    run: [
      ...w.loop([
        ...again(2_000, Array.from({ length: 5_000 }, () => [...w.i32(1), w.DROP]).flat()),
        ...again(60_000, Array.from({ length: 32 }, () => somewhere(4)).flat()),
        ...w.br(0),
      ]),
      w.UNREACHABLE,
    ],
  },
  'returns bytes that are not UTF-8': {
    imports: [LOG],
    memory: { min: 16 },
    run: [
      ...[...w.i32(65_536), ...w.i32(0xff), ...w.i32(130_000), ...w.bulk(11, 0)],
      ...w.loop([
        ...w.i32(65_536),
        ...w.i32(130_000),
        ...w.i32(65_536),
        ...w.i32(130_000),
        ...w.call(0),
        ...w.br(0),
      ]),
      w.UNREACHABLE,
    ],
  },
  'loops when the host allocates memory': {
    realloc: { ...w.REALLOC_SHAPE, body: [...w.loop(w.br(0)), w.UNREACHABLE] },
  },
}
/** A load from a pseudo-random address that depends on the last one. */
function somewhere(local: number): w.Code {
  const next = [...w.get(local), ...w.i32(1_664_525), 0x6c, ...w.i32(1_013_904_223), 0x6a, ...w.tee(local)]
  return [...next, ...w.i32(0xfffffc), 0x71, ...w.load(), w.DROP]
}
/**
 * A loop of this many rounds, counted in the skill's first parameter, which is no longer needed.
 */
function again(times: number, body: w.Code): w.Code {
  return [
    ...w.i32(times),
    ...w.set(0),
    ...w.loop([...body, ...w.get(0), ...w.i32(1), 0x6b, ...w.tee(0), ...w.brIf(0)]),
  ]
}
const GREETING = 'export const run = (tool, input) => JSON.stringify({ hello: JSON.parse(input).name })'

export type WarmName = 'healthz' | 'denial' | 'small' | 'javascript'
/** Milliseconds; `rows` at concurrency 1. */
export type Skills = {
  readonly rows: readonly Row<WarmName>[]
  readonly cold: { readonly small: number; readonly javascript: number }
  readonly published: { readonly bytes: number; readonly ms: number }
  readonly kernels: readonly Kernel[]
  /** p50 of a warm call with few other skills, and with `size` others. */
  readonly crowd: { readonly size: number; readonly few: number; readonly many: number }
  /** p95 without other load, and the worst while a kind of hostile skill burns, with its name. */
  readonly beside: Readonly<
    Record<'denial' | 'small', { readonly quiet: number; readonly burning: number; readonly worst: string }>
  >
}
export type Scale = {
  readonly rounds: number
  readonly extent: Extent
  readonly colds: number
  readonly kernels: number
  readonly burning: Extent
  readonly crowd: number
}

export async function timeSkills(
  stack: Stack,
  load: Peer<Load, Slice>,
  { healthz, denial }: Subjects,
  scale: Scale,
): Promise<Skills> {
  const maker = await Maker.on(stack)
  const small = await maker.enabled('bench_small', await component())
  const javascript = await maker.enabled('bench_javascript', await javaScriptSkill(GREETING, []))
  const warm = { healthz, denial, small: await maker.sent(small), javascript: await maker.sent(javascript) }
  const measured = (sent: SubjectRequests, extent: Extent, concurrency = 1) =>
    load.ask({ port: maker.port, concurrency, extent, ...sent })
  const subjects = (Object.keys(warm) as WarmName[]).map((name) => ({
    name,
    measure: (_: number, extent: Extent) => measured(warm[name], extent),
  })) // its own keys
  const parts = { edge: stack.edge, worker: stack.worker, redis: stack.redis }
  const few = { rounds: scale.rounds, concurrency: 1, extent: scale.extent }
  await inRounds(subjects, { ...few, rounds: 1 }, parts)
  const rows = await inRounds(subjects, few, parts)
  const p50Of = async (): Promise<number> =>
    median((await inRounds(subjects.slice(2, 3), few, parts)).map(({ p50 }) => p50))
  const cold = {
    small: await maker.cold(scale.colds, await component()),
    javascript: await maker.cold(scale.colds, await javaScriptSkill(GREETING, [])),
  }
  const published = await maker.timePublished(await large())
  const beside = await timeBeside(maker, { denial, small: warm.small }, measured, scale.burning)
  const before = await p50Of()
  await maker.crowd(scale.crowd)
  const many = await p50Of()
  await maker.alone(scale.crowd)
  return {
    rows,
    cold,
    published,
    kernels: await timeKernels(scale.kernels),
    crowd: { size: scale.crowd, few: median([before, await p50Of()]), many },
    beside,
  }
}

async function timeBeside(
  maker: Maker,
  subjects: Readonly<Record<'denial' | 'small', SubjectRequests>>,
  measured: (sent: SubjectRequests, extent: Extent, concurrency: number) => Promise<Slice>,
  extent: Extent,
): Promise<Skills['beside']> {
  const p95 = async (name: 'denial' | 'small'): Promise<number> => {
    const slice = await measured(subjects[name], { ...extent, every_ms: OTHERS.every_ms }, OTHERS.lanes)
    if (slice.faults.length > 0) throw new Error(slice.faults.join('\n'))
    return slice.p95
  }
  const found = {
    denial: [{ p95: await p95('denial'), kind: '' }],
    small: [{ p95: await p95('small'), kind: '' }],
  }
  for (const [kind, hostile] of Object.entries(HOSTILE)) {
    const stop = await maker.burning(
      await maker.enabled(`bench_hostile${found.small.length}`, await component(hostile), MOST),
    )
    for (const name of ['denial', 'small'] as const) found[name].push({ p95: await p95(name), kind })
    await stop()
  }
  const told = ([quiet, ...burning]: readonly { p95: number; kind: string }[]) => {
    const worst = burning.reduce((one, other) => (other.p95 > one.p95 ? other : one))
    return { quiet: quiet?.p95 ?? Number.NaN, burning: worst.p95, worst: worst.kind }
  }
  return { denial: told(found.denial), small: told(found.small) }
}

/** A publisher, the operator who enables its skills, and an agent that calls them. */
export class Maker {
  readonly port: number
  readonly #stack: Stack
  readonly #publisher: Publisher
  readonly #publish: Client
  #made = 0
  #agents = 0

  private constructor(stack: Stack, publisher: Publisher, publish: Client) {
    this.port = Number(new URL(stack.url).port)
    this.#stack = stack
    this.#publisher = publisher
    this.#publish = publish
  }

  static async on(stack: Stack): Promise<Maker> {
    const publisher = await Publisher.listed('bench', stack.operator)
    const { key = '' } = done(
      await stack.operator('putOperator', { params: { name: 'bench-maker' }, body: { roles: ['admin'] } }),
    )
    return new Maker(stack, publisher, client(stack.url, bearer(key)))
  }

  async enabled(id: string, code: Uint8Array, change: Partial<Unbound> = {}): Promise<string> {
    done(
      await this.#publish('publishSkill', {
        body: this.#publisher.pack(this.#publisher.manifest(id, { capabilities: {}, ...change }), code),
      }),
    )
    done(await this.#stack.operator('enableSkill', { params: { id, version: '1.0.0' }, body: {} }))
    this.#made++
    return `${id}_run`
  }

  async #agentOf(tools: string[]): Promise<{ key: string; run: string }> {
    const body = { tools, budget: { max_calls_per_run: 1_000_000, max_denied_per_run: 1_000_000 } }
    const { key = '' } = done(
      await this.#stack.operator('putAgent', { params: { name: `bench-skill-${this.#agents++}` }, body }),
    )
    const { id: run } = done(await client(this.#stack.url, bearer(key))('createRun', { body: {} }))
    return { key, run }
  }

  async sent(tool: string): Promise<SubjectRequests> {
    const { key, run } = await this.#agentOf([tool])
    return {
      requests: [proposal(key, run, tool)],
      expect: { status: 200, contains: ['"state":"succeeded"', '"attestation":{'] },
    }
  }

  /** The first calls of several skills, none of which has an isolate yet. */
  async cold(count: number, code: Uint8Array): Promise<number> {
    const tools: string[] = []
    for (let i = 0; i < count; i++) tools.push(await this.enabled(`bench_cold${this.#made}`, code))
    const { key, run } = await this.#agentOf(tools)
    const connection = await Connection.open(this.port)
    const took: number[] = []
    // The first call, whichever it is, reads the tenant's changes.
    await connection.exchange(bytesOf(proposal(key, run, 'bench_none'), this.port))
    for (const tool of tools) {
      const begun = performance.now()
      const { body } = await connection.exchange(bytesOf(proposal(key, run, tool), this.port))
      took.push(performance.now() - begun)
      if (!body.includes('"state":"succeeded"')) throw new Error(`a cold call: ${body.slice(0, 500)}`)
    }
    connection.close()
    return median(took)
  }

  async timePublished(code: Uint8Array): Promise<Skills['published']> {
    const took: number[] = []
    for (let i = 0; i < 3; i++) {
      const body = this.#publisher.pack(
        this.#publisher.manifest(`bench_large${i}`, { capabilities: {} }),
        code,
      )
      const begun = performance.now()
      done(await this.#publish('publishSkill', { body }))
      took.push(performance.now() - begun)
      this.#made++
    }
    return { bytes: code.byteLength, ms: median(took) }
  }

  /** Publishes skills until there are this many. */
  async crowd(size: number): Promise<void> {
    const code = await component()
    while (this.#made < size) await this.enabled(`bench_crowd${this.#made}`, code)
  }

  async alone(size: number): Promise<void> {
    const ids = Array.from({ length: size }, (_, i) => `bench_crowd${i}`)
    for (const id of ids)
      await this.#stack.operator('disableSkill', {
        params: { id, version: '1.0.0' },
        body: { reason: 'measured' },
      })
  }

  /** Calls it repeatedly on all lanes at once until it is stopped. */
  async burning(tool: string): Promise<() => Promise<void>> {
    const { key } = await this.#agentOf([tool])
    const agent = client(this.#stack.url, bearer(key))
    let goesOn = true
    const lane = async (): Promise<void> => {
      while (goesOn) {
        let call = done(await agent('proposeCallInNewRun', { body: { tool, args: {} }, wait: 20 }))
        // A call that waits for a slot has not begun, so its time has not started.
        while (call.result === undefined)
          call = done(await agent('readCall', { params: { run: call.run, call: call.id }, wait: 20 }))
        const { state, result } = call
        if (state !== 'timed_out' && result?.error?.code !== 'quota_exceeded')
          throw new Error(`a hostile call of ${tool} ended ${state}: ${JSON.stringify(result?.error)}`)
      }
    }
    const lanes = Promise.all(Array.from({ length: HOSTILE_LANES }, lane))
    return async () => {
      goesOn = false
      await lanes
    }
  }
}

const proposal = (key: string, run: string, tool: string): Request => ({
  method: 'POST',
  path: `/v1/runs/${run}/calls`,
  headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', prefer: 'wait=20' },
  body: JSON.stringify({ tool, args: { name: 'bench' } }),
})

const LARGE_BYTES = 1_500_000

/**
 * A module of that size, like a compiled program: its functions loop, branch, load, store and call
 * each other.
 */
async function large(): Promise<Uint8Array> {
  const body = (seed: number): w.Code => {
    const step = [
      ...w.get(0),
      ...w.i32(seed),
      0x6a,
      ...w.tee(0),
      ...w.i32(0xfffc),
      0x71,
      ...w.get(1),
      ...w.store(0x36, seed % 64),
    ]
    const choice = [
      ...w.get(0),
      ...w.i32(seed % 7),
      0x71,
      ...w.when([...w.get(1), ...w.i32(seed), 0x73, ...w.set(1)], [...w.get(0), ...w.load(), ...w.set(1)]),
    ]
    const again = [...w.get(1), ...w.i32(1), 0x6b, ...w.tee(1), ...w.brIf(0)]
    return [
      ...w.loop([...Array.from({ length: 6 }, () => [...step, ...choice]).flat(), ...again]),
      ...(seed < 3 ? [] : [...w.get(0), ...w.get(1), ...w.call(seed - 1)]),
    ]
  }
  const others: w.Fn[] = []
  for (let bytes = 0; bytes < LARGE_BYTES; bytes += others.at(-1)?.body.length ?? 0)
    others.push({ params: [w.I32, w.I32], body: body(others.length + 2) })
  return component({ others })
}
