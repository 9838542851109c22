// Measures a log of many leaves, on the store of the LogObject over SQLite in this process: appending
// at its start and at its end, proofs, and rebuilding the tree from its tiles, each beside the hashing
// that it can't do without.

import { createHash, randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { RebuiltLog } from '../../../cli/log/rebuild.ts'
import { ROOT } from '../../../infra/state.ts'
import type { Tile } from '../../../shared/evidence/tiles.ts'
import { callId, ulid } from '../../../shared/ids.ts'
import { err, ok } from '../../../shared/result.ts'
import { newDatabase } from '../../support/stack/object-storage.ts'
import { median } from '../slice.ts'
import { type Figure, figure, table } from '../table.ts'

type Tree = {
  size: number
  append: (size: number, run: string, ends: readonly object[]) => number
  root: () => string
  leafOf: (call: string) => { readonly index: number } | undefined
  inclusion: (index: number, size: number) => readonly string[]
  consistency: (m: number, n: number) => readonly string[] | undefined
  tile: (tile: Tile) => Buffer | undefined
}
/** By a variable path, because the type check of tests lacks the types of workerd that stores need. */
const { LogTree } = (await import(/* @vite-ignore */ join(ROOT, 'edge/log/tree-store.ts'))) as {
  LogTree: new (db: unknown) => Tree
}

/** Leaves of one delivery, each of a run of its own. */
const BATCH = 100
/** Batches that are measured at the start, after as many that warm the compiler, and at the end. */
const BATCHES = 200
const PROOFS = 1_000

/** Microseconds for each leaf, milliseconds for each proof, seconds for the whole tree. */
export type LogTimes = {
  readonly leaves: number
  readonly hashing_us: number
  readonly early_us: number
  readonly late_us: number
  readonly path_ms: number
  readonly inclusion_ms: readonly [number, number]
  readonly consistency_ms: readonly [number, number]
  readonly hashes_s: number
  readonly rebuilt_s: number
}

export async function timeLog(leaves: number): Promise<LogTimes> {
  const folder = mkdtempSync(join(tmpdir(), 'countersign-bench-log-'))
  try {
    const db = new DatabaseSync(join(folder, 'log.sqlite'))
    db.exec('pragma journal_mode = wal; pragma synchronous = normal')
    const tree = new LogTree(newDatabase('log', db))
    const batches = fill(db, tree, leaves)
    const calls = Array.from(
      { length: PROOFS },
      () => batches.calls[Math.floor(Math.random() * leaves)] ?? '',
    )
    const inclusion_ms = timesOf(calls, (call) => tree.inclusion(tree.leafOf(call)?.index ?? 0, tree.size))
    const sizes = calls.map(() => Math.floor(Math.random() * leaves))
    const consistency_ms = timesOf(sizes, (size) => tree.consistency(size, leaves))
    const rebuilt_s = await timeRebuilding(tree, leaves)
    db.close()
    const { early_us, late_us } = batches
    const [node] = timesOf(Array(PROOFS).fill(0), () => hashes(20))
    const hashes_s = seconds(() => hashes(2 * leaves))
    const hashing_us = (hashes_s / leaves) * 1e6
    return {
      leaves,
      hashing_us,
      early_us,
      late_us,
      path_ms: node,
      inclusion_ms,
      consistency_ms,
      hashes_s,
      rebuilt_s,
    }
  } finally {
    rmSync(folder, { recursive: true })
  }
}

function fill(db: DatabaseSync, tree: Tree, leaves: number) {
  const calls: string[] = []
  const times: number[] = []
  while (calls.length < leaves) {
    const batch = Array.from({ length: Math.min(BATCH, leaves - calls.length) }, () => {
      const run = `run_${ulid(Date.now())}`
      const end = { seq: 3, hash: randomBytes(32).toString('hex'), call: callId(run, 1) }
      return {
        run,
        ends: [{ ...end, agent: 'bench', tool: 'true', state: 'succeeded', at: 1, took: 1, shadow: null }],
      }
    })
    times.push(
      seconds(() => {
        db.exec('begin')
        for (const { run, ends } of batch) tree.size = tree.append(tree.size, run, ends)
        db.exec('commit')
      }),
    )
    for (const { ends } of batch) calls.push(...ends.map(({ call }) => call))
  }
  const perLeaf = (some: readonly number[]): number => (median(some) / BATCH) * 1e6
  return {
    calls,
    early_us: perLeaf(times.slice(BATCHES, 2 * BATCHES)),
    late_us: perLeaf(times.slice(-BATCHES)),
  }
}

/** As `countersign log verify` does it, without the way to the edge. */
async function timeRebuilding(tree: Tree, leaves: number): Promise<number> {
  const read = async (tile: Tile) => {
    const bytes = tree.tile(tile)
    return bytes === undefined
      ? err({ exit: 1, code: 'bench', detail: 'a tile is missing' } as const)
      : ok(bytes)
  }
  const began = performance.now()
  const log = new RebuiltLog(read, [], () => undefined)
  const grown = await log.growTo(leaves)
  if (!grown.ok || log.rootOf(leaves) !== tree.root()) throw new Error('the rebuilt log has another root')
  return (performance.now() - began) / 1_000
}

function hashes(count: number): void {
  const node = Buffer.alloc(65)
  for (let i = 0; i < count; i++) createHash('sha256').update(node).digest()
}

function seconds(work: () => void): number {
  const began = performance.now()
  work()
  return (performance.now() - began) / 1_000
}

/** The median and the 99th percentile, in milliseconds. */
function timesOf<T>(items: readonly T[], work: (item: T) => unknown): [number, number] {
  const times = items.map((item) => 1_000 * seconds(() => void work(item))).sort((a, b) => a - b)
  return [median(times), times[Math.floor(times.length * 0.99)] ?? 0]
}

const two = (value: number): string => value.toFixed(2)

export const logTables = (log: LogTimes): string[] => [
  table(
    [`a log of ${log.leaves} leaves`, 'takes'],
    [
      ['floor of an append: two hashes', `${two(log.hashing_us)} µs`],
      ['append a leaf, at the start', `${two(log.early_us)} µs`],
      ['append a leaf, at the end', `${two(log.late_us)} µs`],
      ['floor of a proof: twenty hashes', `${two(log.path_ms)} ms`],
      ['prove inclusion, p50, p99', log.inclusion_ms.map((time) => `${two(time)} ms`).join(', ')],
      ['prove consistency, p50, p99', log.consistency_ms.map((time) => `${two(time)} ms`).join(', ')],
      ['floor of rebuilding: two hashes for each leaf', `${two(log.hashes_s)} s`],
      ['rebuild the tree from its tiles', `${two(log.rebuilt_s)} s`],
    ],
  ),
]

export function logFigures(
  { leaves, early_us, late_us, inclusion_ms: [p50], rebuilt_s }: LogTimes,
  call_ms: number,
): Figure[] {
  const change = (late_us / early_us - 1) * 100
  const whole = rebuilt_s + (leaves * call_ms) / 1_000
  return [
    figure('inclusion proof, p50', '≤ 2 ms', `${two(p50)} ms`, p50 <= 2),
    figure('append at the end, compared with the start', '≤ +10 %', `${change.toFixed(1)} %`, change <= 10),
    figure('the tree rebuilt', '≤ 300 s', `${two(rebuilt_s)} s`, rebuilt_s <= 300),
    // Computed: an exported call is verified for each leaf, on all cores, as many of each kind.
    figure('the whole log with a call for each leaf', '≤ 300 s', `${whole.toFixed(0)} s`, whole <= 300),
  ]
}
