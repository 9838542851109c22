// Promise: a run's store finds the same in the rows of a sealed run as in stored ones, writes nothing
// to read, and stores the rows again, exactly, with the first write of a transaction.

import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect, test } from 'vitest'
import type { Page } from '../../../edge/archive/entry.ts'
import type { CallRecord } from '../../../edge/call/lifecycle.ts'
import type { RunRecord, RunRow, StoredOutput } from '../../../edge/call/run.ts'
import { SealedRows } from '../../../edge/run/sealing/sealed-rows.ts'
import { ROOT } from '../../../infra/state.ts'
import { objectOn } from '../../support/stack/object-storage.ts'

type Stream = 'stdout' | 'stderr'
type Keys = { key: string | null; joinKey: string | null }
/** The methods of a run's store; its module is typed for workerd. */
type RunStore = {
  readonly isSealed: boolean
  readonly isEmpty: boolean
  readonly migration: number
  readonly files: {
    put(digest: string, bytes: Uint8Array, now: number): unknown
    held(): unknown
    list(): unknown
    whole(digest: string): unknown
    part(digest: string, part: number): unknown
  }
  holdSealed(rows: SealedRows): void
  committed(): boolean
  rolledBack(): void
  pages(): Iterable<Page>
  createRun(record: RunRecord): RunRow
  saveRun(row: RunRow): void
  run(): RunRow | undefined
  insertCall(record: CallRecord, keys: Keys, dueAt: number | null, unmirrored: boolean): void
  updateCall(record: CallRecord, dueAt: number | null, unmirrored: boolean): void
  append(row: RunRow, at: number, kind: string, n: number, body: Record<string, unknown>): RunRow
  saveAttestation(n: number, envelope: unknown, grant: unknown): void
  keepSnapshot(snapshot: unknown): void
  replaceOutput(n: number, output: StoredOutput): void
  saveOutput(n: number, stream: Stream, offset: number, bytes: Buffer): void
  markDelivered(n: number): void
  cancelAt(n: number, at: number | null): void
  everyCall(): CallRecord[]
  outputFrom(n: number, stream: Stream, from: number, most: number): Buffer
  outputEnd(n: number, stream: Stream): number
} & Record<'nextDue' | 'unmirrored' | 'live' | 'pendingApprovals' | 'lastEntryAt', () => unknown> &
  Record<
    'due' | 'abandoned' | 'call' | 'isDelivered' | 'isAbandoned' | 'attestation' | 'output',
    (n: number) => unknown
  > &
  Record<'callToJoin' | 'callByKey' | 'snapshot', (text: string) => unknown> & {
    journal(run: string, after: number, whole: boolean): unknown
  }
const { RunStore } = (await import(/* @vite-ignore */ join(ROOT, 'edge/run/store.ts'))) as {
  RunStore: new (object: ReturnType<typeof objectOn>) => RunStore
}

const RECORD = { id: 'run_00000000000000000000000001', tenant: 't', agent: 'a' } as RunRecord // the store looks no deeper
const call = (n: number): CallRecord =>
  ({ proposal: { n, args: { text: `é ${n}` } }, status: { state: 'succeeded' } }) as unknown as CallRecord

/** A store on a database of its own. */
function storeOn(db = new DatabaseSync(':memory:')): { store: RunStore; db: DatabaseSync } {
  return { store: new RunStore(objectOn(db)), db }
}

/** A run of `calls` ended calls with everything that a run stores. */
function runOf(calls: number): { store: RunStore; db: DatabaseSync } {
  const made = storeOn()
  const { store } = made
  let row = store.createRun(RECORD)
  for (let n = 1; n <= calls; n++) {
    const keys = { key: n % 2 === 0 ? `key ${n}` : null, joinKey: n % 3 === 0 ? 'join' : null }
    store.insertCall(call(n), keys, null, false)
    row = { ...store.append(row, 1_000 + n, 'succeeded', n, { attestation: `a${n}` }), calls: n }
    store.saveAttestation(n, { payload: `p${n}` }, n === 1 ? null : { payload: 'g' })
    store.keepSnapshot({ digest: `d${n % 2}`, text: `{"n":${n % 2}}` })
    store.replaceOutput(n, { stdout: Buffer.from(`out ${n}\0é`), stderr: Buffer.from(n === 2 ? 'err' : '') })
  }
  store.saveOutput(1, 'stdout', 100, Buffer.from('after a gap'))
  store.saveRun(row)
  return made
}

const sealed = (from: RunStore): ReturnType<typeof storeOn> => {
  const rows = new SealedRows()
  rows.add(from.migration, from.pages())
  const made = storeOn()
  made.store.holdSealed(rows)
  return made
}

/** The results of all reads, for calls that exist and for others. */
const readsOf = (store: RunStore): unknown => [
  store.run(),
  store.everyCall(),
  store.due(Number.MAX_SAFE_INTEGER),
  [store.nextDue(), store.unmirrored(), store.live(), store.pendingApprovals(), store.abandoned(1e15)],
  store.callToJoin('join'),
  store.callToJoin('none'),
  [0, 2, 3, 500].map((after) => store.journal(RECORD.id, after, true)),
  store.lastEntryAt(),
  ['d0', 'd1', 'd2'].map((digest) => store.snapshot(digest)),
  ...[1, 2, 3, 4, 99].map((n) => [
    store.call(n),
    store.callByKey(`key ${n}`),
    store.isDelivered(n),
    store.isAbandoned(n),
    store.attestation(n),
    store.output(n),
    (['stdout', 'stderr'] as const).map((stream) => [
      store.outputEnd(n, stream),
      ...[0, 3, 8, 104, 500].map((from) => store.outputFrom(n, stream, from, 5)),
    ]),
  ]),
  [store.files.held(), store.files.list(), store.files.whole('x'), store.files.part('x', 0)],
]

test.each([1, 2, 7])(
  'every read of a sealed run of %i calls finds what it found before, and stores nothing',
  (calls) => {
    const { store } = runOf(calls)
    const { store: other, db } = sealed(store)
    expect(readsOf(other)).toEqual(readsOf(store))
    expect(db.prepare('select name from sqlite_schema').all()).toEqual([])
    expect([other.isSealed, other.isEmpty, store.isSealed, storeOn().store.isEmpty]).toEqual([
      true,
      false,
      false,
      true,
    ])
  },
)

const schemaOf = (db: DatabaseSync): unknown =>
  db.prepare('select name, sql from sqlite_schema order by name').all()

const WRITES: ReadonlyArray<readonly [string, (store: RunStore) => void]> = [
  ['a new call', (store) => store.insertCall(call(8), { key: null, joinKey: null }, 5, true)],
  ['a changed call', (store) => store.updateCall(call(1), 5, true)],
  ['output', (store) => store.saveOutput(2, 'stderr', 3, Buffer.from('more'))],
  ['a file', (store) => store.files.put('00', Buffer.from('file'), 1)],
  ['a delivered answer', (store) => store.markDelivered(3)],
  ['a time to cancel', (store) => store.cancelAt(3, 7)],
]

test.each(WRITES)('%s in a sealed run stores its rows again, and is the same in them', (_, write) => {
  const { store, db } = runOf(7)
  const { store: other, db: otherDb } = sealed(store)
  write(store)
  write(other)
  expect([other.isSealed, other.committed(), other.committed()]).toEqual([false, true, false])
  expect(readsOf(other)).toEqual(readsOf(store))
  expect(schemaOf(otherDb)).toEqual(schemaOf(db))
  expect(readsOf(storeOn(otherDb).store)).toEqual(readsOf(store))
})

test('if the transaction of a write is rolled back, the run is as sealed as before', () => {
  const { store } = runOf(2)
  const { store: other, db } = sealed(store)
  for (const fails of [true, false]) {
    db.exec('begin')
    other.insertCall(call(3), { key: 'key 3', joinKey: null }, null, false)
    expect(other.everyCall().length).toBe(3)
    db.exec(fails ? 'rollback' : 'commit')
    if (fails) other.rolledBack()
    expect([other.isSealed, other.everyCall().length]).toEqual(fails ? [true, 2] : [false, 3])
  }
})
