// Measures a call in a run that exists beside the same call in a run of its own, without and with an
// idempotency key: time, throughput, and what stays on disk when the objects are at rest.

import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Stack } from '../../infra/stack.ts'
import type { Load } from './load.ts'
import type { Peer } from './peer.ts'
import { inRounds, type Row, rowOf, type Subject } from './rounds.ts'
import type { Extent, Slice } from './slice.ts'
import { CLIENTS, type Subjects } from './subjects.ts'
import { type Figure, figure, ms, table } from './table.ts'

export type RunName =
  | 'denial'
  | 'denial_new_run'
  | 'denial_keyed_run'
  | 'tier_c'
  | 'tier_c_new_run'
  | 'tier_c_keyed_run'

export type NewRuns = {
  readonly rows: readonly Row<RunName>[]
  /** Bytes on disk for each call, at rest. */
  readonly bytes: Readonly<Record<RunName, number>>
}
export type Scale = {
  readonly rounds: number
  readonly alone: Extent
  readonly crowded: Extent
  readonly stored: number
}

const DENIALS: readonly RunName[] = ['denial', 'denial_new_run', 'denial_keyed_run']
const EXECUTED: readonly RunName[] = ['tier_c', 'tier_c_new_run', 'tier_c_keyed_run']
/** workerd closes an object that has rested for 10 s. */
export const AT_REST_MS = 15_000

export async function timeNewRuns(
  stack: Stack,
  load: Peer<Load, Slice>,
  subjects: Subjects,
  { rounds, alone, crowded, stored }: Scale,
): Promise<NewRuns> {
  const port = Number(new URL(stack.url).port)
  const send = (name: RunName, concurrency: number, extent: Extent): Promise<Slice> =>
    load.ask({ port, concurrency, extent, ...subjects[name] })
  const subject = (name: RunName): Subject<RunName> => ({
    name,
    measure: (concurrency, extent) => send(name, concurrency, extent),
  })
  const parts = { edge: stack.edge, worker: stack.worker, redis: stack.redis }
  const each = [...DENIALS, ...EXECUTED].map(subject)
  await inRounds(each, { rounds: 1, concurrency: 1, extent: { ms: 1_000, count: 20 } }, parts)
  const rows = [
    ...(await inRounds(each, { rounds, concurrency: 1, extent: alone }, parts)),
    ...(await inRounds(
      DENIALS.map(subject),
      { rounds: Math.ceil(rounds / 2), concurrency: CLIENTS, extent: crowded },
      parts,
    )),
  ]
  const bytes: Partial<Record<RunName, number>> = {}
  const atRest = async (): Promise<number> => {
    await sleep(AT_REST_MS)
    return diskBytes(join(stack.state.edge, 'objects'))
  }
  let before = await atRest()
  for (const name of [...DENIALS, ...EXECUTED]) {
    const { faults, count } = await send(name, 8, { ms: 60_000, count: stored })
    if (faults.length > 0) throw new Error(faults.join('\n'))
    const after = await atRest()
    bytes[name] = (after - before) / count
    before = after
  }
  return { rows, bytes: bytes as Record<RunName, number> } // the loop set each
}

/** Bytes that files take on the disk, which allocates whole blocks. */
export function diskBytes(folder: string): number {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .reduce((sum, { parentPath, name }) => {
      const file = statSync(join(parentPath, name), { throwIfNoEntry: false }) // closed logs go
      return sum + (file?.blocks ?? 0) * 512
    }, 0)
}

const TITLES: Readonly<Record<RunName, string>> = {
  denial: 'denied call in a run that exists',
  denial_new_run: 'in a run of its own',
  denial_keyed_run: 'in a run of its own, with a key',
  tier_c: 'tier C call in a run that exists',
  tier_c_new_run: 'in a run of its own',
  tier_c_keyed_run: 'in a run of its own, with a key',
}
const WANTED = { denial: 1.5, tier_c: 1.1, per_s: 1_500, bytes: 24 * 1024 } as const

/** The call that a subject is compared with. */
const baseOf = (name: RunName): RunName => (name.startsWith('denial') ? 'denial' : 'tier_c')

export function newRunsTables(measured: NewRuns): string[] {
  const timed = measured.rows.map(({ name, concurrency, p50, p95, per_s, spent }) => [
    `${TITLES[name]}, ${concurrency} at a time`,
    ms(p50),
    ms(p95),
    per_s.toFixed(0),
    (p50 / rowOf(measured.rows, baseOf(name), concurrency).p50).toFixed(2),
    spent.edge.toFixed(2),
  ])
  const stored = [...DENIALS, ...EXECUTED].map((name) => [TITLES[name], kib(measured.bytes[name])])
  return [
    `calls in runs of their own\n${table(['', 'p50 ms', 'p95 ms', 'per s', '×', 'edge cpu ms'], timed)}`,
    `on disk for each call, at rest\n${table(['', 'KiB'], stored)}`,
  ]
}

const kib = (bytes: number): string => (bytes / 1024).toFixed(1)

/** The targets hold for calls with a key, as our clients send them, and without. */
export function newRunsFigures(measured: NewRuns): Figure[] {
  const worst = (base: 'denial' | 'tier_c', of: (name: RunName) => number): number =>
    Math.max(...([`${base}_new_run`, `${base}_keyed_run`] as const).map(of))
  const ratio = (base: 'denial' | 'tier_c'): number =>
    worst(base, (name) => rowOf(measured.rows, name, 1).p50) / rowOf(measured.rows, base, 1).p50
  const [denial, executed] = [ratio('denial'), ratio('tier_c')]
  const rate = -worst('denial', (name) => -rowOf(measured.rows, name, CLIENTS).per_s)
  const bytes = Math.max(...Object.values(measured.bytes))
  return [
    figure(
      'denied call in a new run, p50',
      `≤ ${WANTED.denial} × in one that exists`,
      `${denial.toFixed(2)} ×`,
      denial <= WANTED.denial,
    ),
    figure(
      'tier C call in a new run, p50',
      `≤ ${WANTED.tier_c} × in one that exists`,
      `${executed.toFixed(2)} ×`,
      executed <= WANTED.tier_c,
    ),
    figure(
      `denied calls in new runs at ${CLIENTS}`,
      `≥ ${WANTED.per_s}/s`,
      `${rate.toFixed(0)}/s`,
      rate >= WANTED.per_s,
    ),
    figure(
      'a call on disk, at rest',
      `≤ ${kib(WANTED.bytes)} KiB`,
      `${kib(bytes)} KiB`,
      bytes <= WANTED.bytes,
    ),
  ]
}
