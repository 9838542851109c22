// Measures what stored calls cost: bytes, files, workerd's memory, the time of each path and of a restart,
// with an empty store, with a filled one, and after its runs are sealed.

import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Stack, startStack } from '../../../infra/stack.ts'
import { advanceAlarms } from '../../support/stack/object-file.ts'
import { bytesOf, Connection, type Request } from '../connection.ts'
import type { Load } from '../load.ts'
import { AT_REST_MS, diskBytes } from '../new-runs.ts'
import type { Peer } from '../peer.ts'
import { inRounds, type Subject } from '../rounds.ts'
import { type Extent, measure, type Slice, summaryOf } from '../slice.ts'
import { makeSubjects, type Subjects } from '../subjects.ts'
import { type Figure, figure, ms, table } from '../table.ts'
import { type Filled, fillStore, makeAgents } from './filling.ts'

const PATHS = ['healthz', 'denial', 'denial_new_run', 'tier_c', 'tier_c_new_run'] as const
type Path = (typeof PATHS)[number] | 'read_first' | 'read_again'
const STAGES = ['empty', 'full', 'sealed'] as const
type Stage = (typeof STAGES)[number]

/** Bytes on disk, and the number of files of runs. */
type Disk = {
  readonly runs: number
  readonly archives: number
  readonly others: number
  readonly files: number
}
type Measured = {
  readonly p50: Readonly<Record<Path, number>>
  readonly disk: Disk
  readonly memory: number
  /** From the kill until a denial is answered. */
  readonly restart_ms: number
}
export type Growth = Readonly<Record<Stage, Measured>> & {
  readonly filled: Filled
  readonly sealing_s: number
}
export type Scale = { readonly rounds: number; readonly alone: Extent }

const SEALED_WITHIN_MS = 600_000
const WARM_UP: Extent = { ms: 1_000, count: 20 }
/** Calls in the store that counts as empty, so that reads can be measured there, too. */
const FIRST_CALLS = 300
const READS = 50

/** Starts several stacks, one after the other, on the same state folder. */
export async function timeGrowth(
  state: string,
  load: Peer<Load, Slice>,
  calls: number,
  { rounds, alone }: Scale,
  say: (text: string) => void,
): Promise<Growth> {
  const running = async (sealAfterS: number): Promise<Stack> => {
    const started = await startStack({ state, sealAfterS, say })
    if (!started.ok) throw new Error(started.error)
    return started.value
  }
  let stack = await running(3_600)
  try {
    const subjects = await makeSubjects(stack.url, stack.operator)
    const agents = await makeAgents(stack)
    const stage = async (samples: readonly Request[]): Promise<Measured> =>
      measureStage(stack, load, subjects, samples, { rounds, alone })
    const few = await fillStore(portOf(stack), agents, FIRST_CALLS, () => undefined)
    say('measuring the empty store')
    const empty = await stage(few.samples)
    say(`storing ${calls} calls`)
    const filled = await fillStore(portOf(stack), agents, calls, say)
    say('measuring the filled store')
    const full = await stage(filled.samples)
    say('sealing')
    await stack.stop()
    advanceAlarms(runsOf(stack))
    const began = performance.now()
    stack = await running(1)
    const sealing_s = ((await atRest(runsOf(stack))) - began) / 1_000
    await stack.stop()
    stack = await running(3_600)
    say('measuring the sealed store')
    return { empty, filled, full, sealing_s, sealed: await stage(filled.samples) }
  } finally {
    await stack.stop()
  }
}

const portOf = ({ url }: Stack): number => Number(new URL(url).port)
const objectsOf = ({ state }: Stack): string => join(state.edge, 'objects')
const runsOf = (stack: Stack): string => join(objectsOf(stack), 'countersign-run')

/** Returns when the disk was last seen to change; resolves when it rests. */
async function atRest(folder: string): Promise<number> {
  const until = Date.now() + SEALED_WITHIN_MS
  let [bytes, changed] = [Number.NaN, performance.now()]
  while (performance.now() - changed < AT_REST_MS) {
    if (Date.now() > until) throw new Error('the runs are still being sealed; give the bench fewer calls')
    await sleep(1_000)
    const now = diskBytes(folder)
    if (now !== bytes) [bytes, changed] = [now, performance.now()]
  }
  return changed
}

async function measureStage(
  stack: Stack,
  load: Peer<Load, Slice>,
  subjects: Subjects,
  samples: readonly Request[],
  { rounds, alone }: Scale,
): Promise<Measured> {
  await atRest(objectsOf(stack))
  const disk = diskOf(stack)
  const memory = residentBytes(stack.edge.pid)
  const port = portOf(stack)
  const [read_first, read_again] = await timeReads(port, samples)
  const paths: Subject<(typeof PATHS)[number]>[] = PATHS.map((name) => ({
    name,
    measure: (concurrency, extent) => load.ask({ port, concurrency, extent, ...subjects[name] }),
  }))
  const parts = { edge: stack.edge, worker: stack.worker, redis: stack.redis }
  await inRounds(paths, { rounds: 1, concurrency: 1, extent: WARM_UP }, parts)
  const rows = await inRounds(paths, { rounds, concurrency: 1, extent: alone }, parts)
  const p50 = Object.fromEntries(rows.map((row) => [row.name, row.p50])) as Record<
    (typeof PATHS)[number],
    number
  > // each was measured
  const restart_ms = await timeRestart(stack, load, subjects)
  return { p50: { ...p50, read_first, read_again }, disk, memory, restart_ms }
}

/** The median time of reading calls whose objects are not in memory, and of reading them again. */
async function timeReads(port: number, samples: readonly Request[]): Promise<[number, number]> {
  const step = Math.max(1, Math.floor(samples.length / READS))
  const requests = samples.filter((_, i) => i % step === 0).map((request) => bytesOf(request, port))
  const connection = await Connection.open(port)
  await connection.exchange(bytesOf({ method: 'GET', path: '/healthz', headers: {}, body: '' }, port))
  const once = async (): Promise<number> => {
    let next = 0
    const slice = await measure(1, { ms: 60_000, count: requests.length }, async () => {
      const { status, body } = await connection.exchange(requests[next++] ?? Buffer.alloc(0))
      return status === 200 && body.includes('"attestation":{') ? undefined : `${status} ${body}`
    })
    if (slice.faults.length > 0) throw new Error(slice.faults.join('\n'))
    return summaryOf([slice]).p50
  }
  const both: [number, number] = [await once(), await once()]
  connection.close()
  return both
}

async function timeRestart(
  { edge, ...stack }: Stack,
  load: Peer<Load, Slice>,
  { denial }: Subjects,
): Promise<number> {
  const began = performance.now()
  const started = await edge.restart()
  if (!started.ok) throw new Error(started.error)
  const first = { port: portOf({ edge, ...stack }), concurrency: 1, extent: { ms: 60_000, count: 1 } }
  const { faults } = await load.ask({ ...first, ...denial })
  if (faults.length > 0) throw new Error(faults.join('\n'))
  return performance.now() - began
}

function diskOf(stack: Stack): Disk {
  const folder = objectsOf(stack)
  const [runs, archives] = [diskBytes(runsOf(stack)), diskBytes(join(folder, 'countersign-archive'))]
  const files = readdirSync(runsOf(stack)).filter((name) => /^[0-9a-f]{64}\.sqlite$/.test(name)).length
  return { runs, archives, others: diskBytes(folder) - runs - archives, files }
}

function residentBytes(pid: number | undefined): number {
  const kib = /^VmRSS:\s+([0-9]+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1]
  if (kib === undefined) throw new Error('workerd does not run')
  return Number(kib) * 1_024
}

// ── Report ──

const TITLES: Readonly<Record<Path, string>> = {
  healthz: 'healthz, the floor',
  denial: 'denied call in a run that exists',
  denial_new_run: 'denied call in a run of its own',
  tier_c: 'tier C call in a run that exists',
  tier_c_new_run: 'tier C call in a run of its own',
  read_first: 'first read of a call',
  read_again: 'next read of it',
}
const WANTED = { bytes: 400e6 / 100_000, slower: 1.1, restart_ms: 3_000, read_ms: 5 } as const

/** Bytes for each call of the filling. */
const perCall = ({ empty, filled, ...stages }: Growth, stage: 'full' | 'sealed'): number => {
  const total = ({ runs, archives, others }: Disk): number => runs + archives + others
  return (total(stages[stage].disk) - total(empty.disk)) / filled.calls
}
const mb = (bytes: number): string => (bytes / 1e6).toFixed(1)

export function growthTables(measured: Growth): string[] {
  const { empty, filled, full, sealed } = measured
  const times = (Object.keys(TITLES) as Path[]).map((path) => [
    TITLES[path],
    ...STAGES.map((stage) => ms(measured[stage].p50[path])),
    (full.p50[path] / empty.p50[path]).toFixed(2),
    (sealed.p50[path] / empty.p50[path]).toFixed(2),
  ])
  const sizes = STAGES.map((stage) => {
    const { disk, memory, restart_ms } = measured[stage]
    const { runs, archives, others, files } = disk
    return [
      stage,
      ...[runs, archives, others].map(mb),
      `${files}`,
      mb(memory),
      (restart_ms / 1_000).toFixed(2),
    ]
  })
  const rate = (filled.calls / filled.seconds).toFixed(0)
  return [
    `${filled.calls} calls, stored at ${rate} a second by 32 clients, sealed in ${measured.sealing_s.toFixed(0)} s`,
    `p50 in ms\n${table(['', 'empty', 'full', 'sealed', 'full ×', 'sealed ×'], times)}`,
    `at rest, MB of 10^6 bytes\n${table(['store', 'runs', 'archives', 'others', 'files of runs', 'memory', 'restart s'], sizes)}`,
  ]
}

export function growthFigures(measured: Growth): Figure[] {
  const { empty, full, sealed } = measured
  const bytes = perCall(measured, 'sealed')
  const slower = (Object.keys(TITLES) as Path[])
    .filter((path) => path !== 'healthz')
    .map((path) => ({ path, times: full.p50[path] / empty.p50[path] }))
    .reduce((one, other) => (other.times > one.times ? other : one))
  const restart = Math.max(full.restart_ms, sealed.restart_ms)
  const read = sealed.p50.read_first
  return [
    figure(
      'a stored call on disk, sealed',
      `≤ ${WANTED.bytes} bytes`,
      `${bytes.toFixed(0)} bytes (${perCall(measured, 'full').toFixed(0)} before)`,
      bytes <= WANTED.bytes,
    ),
    figure(
      'slowest path with a full store',
      `≤ ${WANTED.slower} × the empty one`,
      `${slower.times.toFixed(2)} ×: ${TITLES[slower.path]}`,
      slower.times <= WANTED.slower,
    ),
    figure(
      'restart until a denial is answered',
      `≤ ${WANTED.restart_ms / 1_000} s`,
      `${(restart / 1_000).toFixed(2)} s`,
      restart <= WANTED.restart_ms,
    ),
    figure('first read of a sealed call', `≤ ${WANTED.read_ms} ms`, `${ms(read)} ms`, read <= WANTED.read_ms),
  ]
}
