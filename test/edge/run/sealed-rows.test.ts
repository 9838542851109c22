// Promise: the stores find the same in the rows of a sealed object as in stored ones, write nothing to
// read, and store the rows again, exactly, with the first write of a transaction.

import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect, test } from 'vitest'
import { entryOf, type Page } from '../../../edge/archive/entry.ts'
import type { CallRecord } from '../../../edge/call/lifecycle.ts'
import type { RunRecord, RunRow, StoredOutput } from '../../../edge/call/run.ts'
import { SealedRows } from '../../../edge/run/sealing/sealed-rows.ts'
import { ROOT } from '../../../infra/state.ts'
import { objectOn } from '../../support/stack/object-storage.ts'

type Stream = 'stdout' | 'stderr'
type Keys = { key: string | null; joinKey: string | null }
/** The stores of an object and of a run; their modules are typed for workerd. */
type ObjectStore = {
  readonly sealed: unknown
  readonly isEmpty: boolean
  readonly tables: { readonly migration: number }
  holdSealed(rows: SealedRows): void
  committed(): boolean
  rolledBack(): void
  pages(): Iterable<Page>
  nextDue(): unknown
  some(): unknown
  owners(): unknown
  readonly runs: string[]
}
type RunStore = {
  readonly files: {
    put(digest: string, bytes: Uint8Array, now: number): unknown
    held(): unknown
    list(): unknown
    whole(digest: string): unknown
    part(digest: string, part: number): unknown
  }
  rolledBack(isCreated: boolean): void
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
} & Record<'unmirrored' | 'live' | 'pendingApprovals', () => unknown> &
  Record<
    'due' | 'abandoned' | 'call' | 'isDelivered' | 'isAbandoned' | 'attestation' | 'output',
    (n: number) => unknown
  > &
  Record<'callToJoin' | 'callByKey' | 'snapshot', (text: string) => unknown> & {
    journal(run: string, after: number, whole: boolean): unknown
  }
const { RunStore } = (await import(/* @vite-ignore */ join(ROOT, 'edge/run/store.ts'))) as {
  RunStore: new (object: ObjectStore, id: string) => RunStore
}
const { ObjectStore } = (await import(/* @vite-ignore */ join(ROOT, 'edge/run/object/object-store.ts'))) as {
  ObjectStore: new (ctx: ReturnType<typeof objectOn>) => ObjectStore
}

const ALONE = ['run_00000000000000000000000001']
/** Three runs that share their object. */
const SHARED = [
  'run_40000000000000000000000001',
  'run_40000000000000000000000002',
  'run_40000000000000000000000003',
]
const recordOf = (id: string): RunRecord => ({ id, tenant: 't', agent: 'a', session: id }) as RunRecord // the store looks no deeper
const call = (n: number): CallRecord =>
  ({ proposal: { n, args: { text: `é ${n}` } }, status: { state: 'succeeded' } }) as unknown as CallRecord

type Made = { object: ObjectStore; stores: RunStore[]; db: DatabaseSync }

/** The stores of these runs in a database of their own. */
function storesOn(ids: readonly string[], db = new DatabaseSync(':memory:'), rows?: SealedRows): Made {
  const object = new ObjectStore(objectOn(db))
  if (rows !== undefined) object.holdSealed(rows)
  return { object, stores: ids.map((id) => new RunStore(object, id)), db }
}

/** An object of these runs, with the same number of ended calls in each, and everything that is stored. */
function runsOf(ids: readonly string[], calls: number): Made {
  const made = storesOn(ids)
  for (const [i, store] of made.stores.entries()) {
    let row = store.createRun(recordOf(ids[i] ?? ''))
    for (let n = 1; n <= calls; n++) {
      const keys = { key: n % 2 === 0 ? `key ${n}` : null, joinKey: n % 3 === 0 ? 'join' : null }
      store.insertCall(call(n), keys, null, false)
      row = { ...store.append(row, 1_000 + n + i, 'succeeded', n, { attestation: `a${n}` }), calls: n }
      store.saveAttestation(n, { payload: `p${n} of ${i}` }, n === 1 ? null : { payload: 'g' })
      store.keepSnapshot({ digest: `d${n % 2}`, text: `{"n":${n % 2}}` })
      store.replaceOutput(n, {
        stdout: Buffer.from(`out ${n} of ${i}\0é`),
        stderr: Buffer.from(n === 2 ? 'err' : ''),
      })
    }
    store.saveOutput(1, 'stdout', 100, Buffer.from('after a gap'))
    store.saveRun({ ...row, logged: row.seq })
  }
  return made
}

function sealed(ids: readonly string[], { object }: Made): Made {
  const rows = new SealedRows()
  rows.add(object.tables.migration, object.pages())
  return storesOn(ids, undefined, rows)
}

/** The results of all reads, for calls that exist and for others. */
const readsOf = ({ object, stores }: Made): unknown => [
  [object.nextDue(), object.some(), object.owners(), object.runs],
  stores.map((store) => [
    store.run(),
    store.everyCall(),
    store.due(Number.MAX_SAFE_INTEGER),
    [store.unmirrored(), store.live(), store.pendingApprovals(), store.abandoned(1e15)],
    store.callToJoin('join'),
    store.callToJoin('none'),
    [0, 2, 3, 500].map((after) => store.journal('run_00000000000000000000000001', after, true)),
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
  ]),
]

const OBJECTS = [
  ['one run', ALONE],
  ['three runs', SHARED],
] as const
const SIZES = OBJECTS.flatMap(([title, ids]) => [1, 2, 7].map((calls) => ({ title, ids, calls })))

test.each(SIZES)(
  'every read of a sealed object of $title with $calls calls finds what it found before, and stores nothing',
  ({ ids, calls }) => {
    const made = runsOf(ids, calls)
    const other = sealed(ids, made)
    expect(readsOf(other)).toEqual(readsOf(made))
    expect(other.db.prepare('select name from sqlite_schema').all()).toEqual([])
    const isSealed = [other, made].map(({ object }) => object.sealed !== undefined)
    expect([isSealed, other.object.isEmpty, storesOn(ids).object.isEmpty]).toEqual([
      [true, false],
      false,
      true,
    ])
  },
)

test('each part of an entry fits into a row of SQLite, even if every call has 1 MiB of random output', () => {
  const { object, stores } = runsOf(ALONE, 3)
  for (const n of [1, 2, 3])
    stores[0]?.replaceOutput(n, { stdout: randomBytes(2 ** 20), stderr: Buffer.alloc(0) })
  const parts = [...entryOf('x', object.tables.migration, object.pages())]
  expect(Math.max(...parts.map(({ bytes }) => bytes.byteLength))).toBeLessThan(2_000_000)
  expect(parts.length).toBeGreaterThanOrEqual(3)
})

test('a read of a run that the object lacks makes no tables, which would hide an entry of the archive', () => {
  const { object, stores, db } = storesOn(ALONE)
  expect([
    stores[0]?.run(),
    stores[0]?.call(1),
    stores[0]?.callByKey('k'),
    stores[0]?.callToJoin('j'),
  ]).toEqual(Array.from({ length: 4 }))
  expect([object.isEmpty, db.prepare('select name from sqlite_schema').all()]).toEqual([true, []])
})

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
const CHANGES = OBJECTS.flatMap(([title, ids]) =>
  WRITES.map(([what, write]) => ({ title, ids, what, write })),
)

test.each(CHANGES)(
  '$what in a sealed object of $title stores its rows again, and is the same in them',
  ({ ids, write }) => {
    const made = runsOf(ids, 7)
    const other = sealed(ids, made)
    for (const { stores } of [made, other]) for (const store of stores.slice(-1)) write(store)
    const { object } = other
    expect([object.sealed, object.committed(), object.committed()]).toEqual([undefined, true, false])
    expect(readsOf(other)).toEqual(readsOf(made))
    expect(schemaOf(other.db)).toEqual(schemaOf(made.db))
    expect(readsOf(storesOn(ids, other.db))).toEqual(readsOf(made))
  },
)

test('a new run in a sealed object has the next number, and the others stay as they were', () => {
  const ids = SHARED.slice(0, 2)
  const made = runsOf(ids, 2)
  const other = sealed(ids, made)
  for (const { object } of [made, other]) {
    const store = new RunStore(object, SHARED[2] ?? '')
    store.saveRun(store.createRun(recordOf(SHARED[2] ?? '')))
  }
  expect(other.object.runs).toEqual(SHARED)
  expect(readsOf(storesOn(SHARED, other.db))).toEqual(readsOf(storesOn(SHARED, made.db)))
})

test.each(OBJECTS)(
  'if the transaction of a write is rolled back, an object of %s is as sealed as before',
  (_, ids) => {
    const other = sealed(ids, runsOf(ids, 2))
    const [store] = other.stores
    for (const fails of [true, false]) {
      other.db.exec('begin')
      store?.insertCall(call(3), { key: 'key 3', joinKey: null }, null, false)
      expect(store?.everyCall().length).toBe(3)
      other.db.exec(fails ? 'rollback' : 'commit')
      if (fails) store?.rolledBack(true)
      expect([other.object.sealed !== undefined, store?.everyCall().length]).toEqual(
        fails ? [true, 2] : [false, 3],
      )
    }
  },
)
