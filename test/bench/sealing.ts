// Measures what sealing makes of runs of one call, of ten and of a thousand: bytes on disk, processor
// time, how long it holds up another request, and how fast a sealed call is read. The calls are denied
// ones, because these are made fast; an executed one has about twice the rows.

import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Stack } from '../../infra/stack.ts'
import { splitId } from '../../shared/ids.ts'
import { bearer, client } from '../../shared/routes/client.ts'
import { cpuNanos } from './machine.ts'
import { diskBytes } from './new-runs.ts'
import { median } from './slice.ts'
import { done, FORBIDDEN } from './subjects.ts'
import { type Figure, figure, ms, table } from './table.ts'

/** How long runs rest before they are sealed: long enough to make all others and to measure them at rest. */
export const SEAL_AFTER_S = 30
/** workerd closes an object that has rested for 10 s. */
const AT_REST_MS = 15_000
const QUIET_MS = 5_000
/** How long we measure after the quiet time. The runs are sealed in this time. */
const SEALING_MS = 25_000

type Delay = { readonly p99: number; readonly most: number }
type Shape = { readonly title: string; readonly runs: number; readonly calls: number }
export type Sealing = Shape & {
  /** Bytes on disk for each call. */
  readonly stored: number
  readonly sealed: number
  readonly cpu_ms: number
  /** How long another request takes, without sealing and during it. */
  readonly quiet: Delay
  readonly meanwhile: Delay
  readonly first_ms: number
  readonly other_ms: number
  readonly next_ms: number
}

export async function timeSealing(stack: Stack, isQuick: boolean): Promise<Sealing[]> {
  const shapes: Shape[] = [
    { title: 'runs of one call', runs: isQuick ? 200 : 1_000, calls: 1 },
    { title: 'runs of ten', runs: isQuick ? 20 : 100, calls: 10 },
    { title: 'a run of many', runs: 1, calls: isQuick ? 300 : 1_000 },
  ]
  const measured: Sealing[] = []
  for (const shape of shapes) measured.push(await timeShape(stack, shape))
  return measured
}

async function timeShape(stack: Stack, shape: Shape): Promise<Sealing> {
  const agent = await newAgent(stack, `sealing-${shape.calls}`)
  const folder = join(stack.state.edge, 'objects')
  const pid = stack.edge.pid ?? 0
  await sleep(AT_REST_MS)
  const empty = diskBytes(folder)
  const calls: string[] = []
  for (let i = 0; i < shape.runs; i++) {
    const first = done(await agent('proposeCallInNewRun', { body: FORBIDDEN }))
    const params = { run: first.run }
    calls.push(first.id)
    for (let n = 1; n < shape.calls; n++)
      calls.push(done(await agent('proposeCall', { params, body: FORBIDDEN })).id)
  }
  await sleep(AT_REST_MS)
  const stored = diskBytes(folder)
  const cpuOf = async (duration: number): Promise<{ delay: Delay; cpu: number }> => {
    const before = cpuNanos(pid)
    const delay = await delays(stack.url, duration)
    return { delay, cpu: (cpuNanos(pid) - before) / 1e6 }
  }
  const quiet = await cpuOf(QUIET_MS)
  const meanwhile = await cpuOf(SEALING_MS)
  await sleep(AT_REST_MS)
  const sealed = diskBytes(folder)
  const read = async (call = ''): Promise<number> => {
    const at = performance.now()
    done(await agent('readCall', { params: { run: splitId(call).run, call } }))
    return performance.now() - at
  }
  const middle = calls[Math.floor(calls.length / 2)]
  const first_ms = await read(middle)
  const other_ms = await read(calls[1] ?? calls[0])
  const next: number[] = []
  for (let i = 0; i < 30; i++) next.push(await read(middle))
  return {
    ...shape,
    stored: (stored - empty) / calls.length,
    sealed: (sealed - empty) / calls.length,
    cpu_ms: (meanwhile.cpu - (quiet.cpu * SEALING_MS) / QUIET_MS) / calls.length,
    quiet: quiet.delay,
    meanwhile: meanwhile.delay,
    first_ms,
    other_ms,
    next_ms: median(next),
  }
}

async function newAgent({ operator, url }: Stack, name: string) {
  const budget = { max_calls_per_run: 10_000, max_denied_per_run: 10_000 }
  const { key = '' } = done(
    await operator('putAgent', { params: { name }, body: { tools: ['none'], budget } }),
  )
  return client(url, bearer(key))
}

/** Sends one request after the other that needs only the edge's thread, and returns how long they took. */
async function delays(url: string, duration: number): Promise<Delay> {
  const taken: number[] = []
  for (const ends = performance.now() + duration; performance.now() < ends; await sleep(2)) {
    const at = performance.now()
    await (await fetch(`${url}/healthz`)).arrayBuffer()
    taken.push(performance.now() - at)
  }
  taken.sort((a, b) => a - b)
  return { p99: taken[Math.floor(taken.length * 0.99)] ?? 0, most: taken.at(-1) ?? 0 }
}

const kib = (bytes: number): string => (bytes / 1024).toFixed(2)

export function sealingTables(measured: readonly Sealing[]): string[] {
  const costs = measured.map(({ title, runs, calls, stored, sealed, cpu_ms }) => [
    `${title} (${runs} × ${calls})`,
    kib(stored),
    kib(sealed),
    cpu_ms.toFixed(2),
  ])
  const times = measured.map(({ title, quiet, meanwhile, first_ms, other_ms, next_ms }) => [
    title,
    ...[quiet.p99, quiet.most, meanwhile.p99, meanwhile.most, first_ms, other_ms, next_ms].map(ms),
  ])
  return [
    `a denied call before and after sealing\n${table(['', 'KiB before', 'KiB after', 'edge cpu ms'], costs)}`,
    `ms of another request without and with sealing, and of reading a sealed call\n${table(
      ['', 'p99', 'most', 'p99 sealing', 'most sealing', 'first read', 'another call', 'next reads'],
      times,
    )}`,
  ]
}

const WANTED = { alone: 4 * 1024, ofMany: 2.5 * 1024, cpu: 1, held: 5, read: 5 } as const

export function sealingFigures(measured: readonly Sealing[]): Figure[] {
  return measured.flatMap(({ title, calls, sealed, cpu_ms, quiet, meanwhile, first_ms, next_ms }) => {
    const bytes = calls === 1 ? WANTED.alone : WANTED.ofMany
    const held = meanwhile.p99 - quiet.p99
    const say = (what: string) => `${title}: ${what}`
    return [
      figure(say('a sealed call'), `≤ ${kib(bytes)} KiB`, `${kib(sealed)} KiB`, sealed <= bytes),
      figure(say('sealing it'), `≤ ${WANTED.cpu} ms of CPU`, `${cpu_ms.toFixed(2)} ms`, cpu_ms <= WANTED.cpu),
      figure(say('holds up others, p99'), `≤ ${WANTED.held} ms`, `${ms(held)} ms`, held <= WANTED.held),
      figure(say('first read'), `≤ ${WANTED.read} ms`, `${ms(first_ms)} ms`, first_ms <= WANTED.read),
      figure(say('next reads, p50'), `≤ ${WANTED.read} ms`, `${ms(next_ms)} ms`, next_ms <= WANTED.read),
    ]
  })
}
