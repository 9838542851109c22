// Promise: the stores find the same in the rows of a sealed object as in stored ones, write nothing to
// read, and store the rows again, exactly, with the first write of a transaction.

import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect, test } from 'vitest'
import { mayHave, nameOf, type Page } from '../../../edge/archive/entry.ts'
import type { CallRecord } from '../../../edge/call/lifecycle.ts'
import type { RunRecord, RunRow, StoredOutput } from '../../../edge/call/run.ts'
import { newRunId, runIdFor } from '../../../edge/run/run-id.ts'
import { KEYS, type Part, partsOf, type RowSource } from '../../../edge/run/sealing/entry-parts.ts'
import { LeastRecent } from '../../../edge/run/sealing/least-recent.ts'
import { isNewRun } from '../../../edge/run/sealing/new-run.ts'
import { SealedRun, SealedWrite } from '../../../edge/run/sealing/sealed-rows.ts'
import { ROOT } from '../../../infra/state.ts'
import { LIMITS } from '../../../shared/limits.ts'
import { objectOn } from '../../support/stack/object-storage.ts'

type Stream = 'stdout' | 'stderr'
type Keys = { key: string | null; joinKey: string | null }
/** The stores of an object and of a run; their modules are typed for workerd. */
type ObjectStore = RowSource & {
  readonly isWhole: boolean
  readonly next: number
  readonly runs: string[]
  readonly numbers: ReadonlySet<number>
  noteArchived(next: number): void
  putBack(pages: readonly Page[]): void
  gotBack(id: string, number: number): void
  rolledBack(): void
  nextDue(): unknown
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
  newRun(record: RunRecord): RunRow
  createRun(row: RunRow): void
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
  entriesOf(n: number): number[]
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
  RunStore: new (object: ObjectStore, id: string, sealed?: SealedRun) => RunStore
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
const key = randomBytes(32)
const RANDOM = newRunId('t', key, Date.now())
const KEYED = runIdFor('t', { name: 'a', since: 1 }, 'k', key)
const recordOf = (id: string): RunRecord => ({ id, tenant: 't', agent: 'a', session: id }) as RunRecord // the store looks no deeper
const call = (n: number): CallRecord =>
  ({
    proposal: { n, args: { text: `é ${n}` } },
    status: { state: 'succeeded', decision: { snapshot: `d${n % 2}` } },
  }) as unknown as CallRecord

type Made = { object: ObjectStore; stores: RunStore[]; db: DatabaseSync }

/** The stores of these runs in a database of their own. */
function storesOn(ids: readonly string[], db = new DatabaseSync(':memory:')): Made {
  const object = new ObjectStore(objectOn(db))
  return { object, stores: ids.map((id) => new RunStore(object, id)), db }
}

/** An object of these runs, with the same number of ended calls in each, and everything that is stored. */
function runsOf(ids: readonly string[], calls: number): Made {
  const made = storesOn(ids)
  for (const [i, store] of made.stores.entries()) {
    let row = store.newRun(recordOf(ids[i] ?? ''))
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
    store.createRun({ ...row, logged: row.seq })
  }
  return made
}

type Sealed = Made & { parts: Part[]; runs: SealedRun[] }

/** The same runs in an object that stores nothing, and the parts of its entry. */
function sealed(ids: readonly string[], { object: { next }, ...made }: Made): Sealed {
  const parts = [...partsOf(made.stores.length > 0 ? new ObjectStore(objectOn(made.db)) : raise())]
  const db = new DatabaseSync(':memory:')
  const object = new ObjectStore(objectOn(db))
  object.noteArchived(next)
  const runs = ids.map((id) => {
    const run = new SealedRun(
      'the object',
      id,
      parts.map(({ ref }) => ref).filter(({ names }) => mayHave(names, nameOf(id))),
    )
    run.hold(parts.map(({ part }) => part))
    return run.found()
  })
  return { object, stores: ids.map((id, i) => new RunStore(object, id, runs[i])), db, parts, runs }
}

/** Puts a run back as `Archived` does. */
function putBack({ object }: Sealed, run: SealedRun): void {
  for (const ref of run.refs) object.putBack(run.pages(ref))
  for (const ref of run.refs.slice(0, 1))
    for (const { id, number } of run.runsIn(ref)) object.gotBack(id, number)
}
const raise = (): never => {
  throw new Error('there is none')
}

/** The results of all reads, for calls that exist and for others. */
const readsOf = ({ object, stores }: Made): unknown => [
  [object.nextDue(), object.next],
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
      store.entriesOf(n),
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
const SIZES = OBJECTS.flatMap(([title, ids]) => [1, 2, 7, 80].map((calls) => ({ title, ids, calls })))

test.each(SIZES)(
  'every read of a sealed object of $title with $calls calls finds what it found before, and stores nothing',
  ({ ids, calls }) => {
    const made = runsOf(ids, calls)
    const other = sealed(ids, made)
    expect(readsOf(other)).toEqual(readsOf(made))
    expect(other.db.prepare('select name from sqlite_schema').all()).toEqual([])
    expect([other.object.isWhole, made.object.isWhole, storesOn(ids).object.isWhole]).toEqual([
      false,
      true,
      false,
    ])
    for (const run of other.runs) putBack(other, run)
    expect(readsOf(other)).toEqual(readsOf(made))
    expect([other.object.isWhole, other.object.runs]).toEqual([false, made.object.runs])
  },
)

test('L2 a sealed run has no call for an equal proposal to join, though runs before and after it have', () => {
  const made = runsOf(SHARED, 3)
  made.stores[1]?.markDelivered(3)
  const { stores } = sealed(SHARED, made)
  expect(stores.map((store) => store.callToJoin('join'))).toEqual([call(3), undefined, call(3)])
})

/** With random output of this size, 80 calls take many parts. */
function spread(ids: readonly string[], bytes: number): Made {
  const made = runsOf(ids, 80)
  const [store] = made.stores
  for (let n = 1; n <= 80; n++)
    store?.replaceOutput(n, { stdout: randomBytes(bytes), stderr: Buffer.alloc(0) })
  return made
}

test.each(OBJECTS)('a long run in an object of %s has parts of bounded size for itself', (_, ids) => {
  const made = spread(ids, 4_096)
  const other = sealed(ids, made)
  expect(readsOf(other)).toEqual(readsOf(made))
  const [long, ...short] = other.runs
  expect(long?.refs.length).toBeGreaterThan(5)
  expect(long?.refs.every(({ ranges }) => ranges !== null)).toBe(true)
  expect(short.map(({ refs }) => refs.length)).toEqual(short.map(() => 1))
  expect(new Set(short.flatMap(({ refs }) => refs)).size).toBe(Math.min(short.length, 1))
  const sizes = other.parts.map(({ part }) => part.bytes.byteLength)
  expect(Math.max(...sizes)).toBeLessThan(1.5 * LIMITS.archive_part_chars)
  expect(other.parts.map(({ ref: { weight } }) => weight).reduce((a, b) => a + b)).toBe(80 * ids.length)
  putBack(other, long ?? raise())
  expect(readsOf(other)).toEqual(readsOf(made))
  expect(other.object.runs).toEqual(ids.slice(0, 1))
})

test('each part of an entry fits into a row of SQLite, even if every call has 1 MiB of random output', () => {
  const made = runsOf(ALONE, 3)
  for (const n of [1, 2, 3])
    made.stores[0]?.replaceOutput(n, { stdout: randomBytes(2 ** 20), stderr: Buffer.alloc(0) })
  const other = sealed(ALONE, made)
  expect(Math.max(...other.parts.map(({ part }) => part.bytes.byteLength))).toBeLessThan(200_000)
  expect([1, 2, 3].map((n) => other.stores[0]?.output(n))).toEqual(
    [1, 2, 3].map((n) => made.stores[0]?.output(n)),
  )
})

const HELD = [
  ['sealed_held_bytes', LIMITS.sealed_held_bytes],
  ['sealed_opened_bytes', LIMITS.sealed_opened_bytes],
] as const
test.each(HELD)('parts in memory take `%s` together, and the least recently used go first', (_, most) => {
  const held = new LeastRecent<string>(most)
  for (const key of ['a', 'b', 'c']) held.set(key, key, most / 4)
  expect(held.get('a')).toBe('a')
  held.set('d', 'd', most / 2)
  expect([held.get('a'), held.get('b'), held.get('c'), held.get('d')]).toEqual(['a', undefined, 'c', 'd'])
  held.set('d', 'e', most / 4)
  held.set('f', 'f', most / 4)
  expect(['a', 'c', 'd', 'f'].map((key) => held.get(key))).toEqual(['a', 'c', 'e', 'f'])
  held.set('g', 'g', most + 1)
  expect([held.get('g'), held.get('f')]).toEqual([undefined, 'f'])
})

test('a sealed run whose parts were dropped from memory is not read, and lists them as missing', () => {
  const [run = raise()] = sealed(ALONE, spread(ALONE, 4_096)).runs
  expect(run.missing).toEqual([])
  const fills = new Uint8Array(LIMITS.sealed_held_bytes)
  run.hold([{ digest: 'fills', bytes: fills }])
  expect(run.missing).toEqual(run.refs.map(({ digest }) => digest))
  const other = new ObjectStore(objectOn(new DatabaseSync(':memory:')))
  const cut = new SealedRun('the object', 'run', [{ ...(run.refs[0] ?? raise()), digest: 'unknown' }])
  expect(() => new RunStore(other, 'run', cut)).toThrow('no longer in memory')
})

test('snapshots that no call refers to any more are sealed as well', () => {
  const made = runsOf(ALONE, 2)
  const digests = sealed(ALONE, made).parts.flatMap(({ ref }) =>
    ['d0', 'd1', 'd2'].filter((digest) => ref.ranges === null || mayHave(ref.names, nameOf(digest))),
  )
  expect(digests.length).toBeGreaterThan(0)
  const other = sealed(ALONE, made)
  expect(['d0', 'd1', 'd2'].map((digest) => other.stores[0]?.snapshot(digest))).toEqual(
    ['d0', 'd1', 'd2'].map((digest) => made.stores[0]?.snapshot(digest)),
  )
})

test('every table of a run is sealed, or keeps its object from being sealed', () => {
  const { db } = runsOf(ALONE, 1)
  const [schema] = JSON.parse(readFileSync(join(ROOT, 'migrations/run/schemas.json'), 'utf8')).slice(-1)
  const tables = Object.entries<string>(schema.statements).filter(([, text]) =>
    text.startsWith('CREATE TABLE'),
  )
  expect(tables.map(([name]) => name).sort()).toEqual(
    [...Object.keys(KEYS), 'snapshots', 'files', 'file_parts'].sort(),
  )
  db.close()
})

test('a read of a run that the object lacks makes no tables, which would hide an entry of the archive', () => {
  const { object, stores, db } = storesOn(ALONE)
  expect([
    stores[0]?.run(),
    stores[0]?.call(1),
    stores[0]?.callByKey('k'),
    stores[0]?.callToJoin('j'),
  ]).toEqual(Array.from({ length: 4 }))
  expect([object.isWhole, db.prepare('select name from sqlite_schema').all()]).toEqual([false, []])
})

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
  '$what in a sealed object of $title needs the rows of its run, and is the same in them',
  ({ ids, write }) => {
    const made = runsOf(ids, 7)
    const other = sealed(ids, made)
    const [last = raise()] = other.stores.slice(-1)
    expect(() => write(last)).toThrow(SealedWrite)
    expect(other.db.prepare('select name from sqlite_schema').all()).toEqual([])
    putBack(other, other.runs.at(-1) ?? raise())
    for (const { stores } of [made, other]) for (const store of stores.slice(-1)) write(store)
    expect(readsOf(other)).toEqual(readsOf(made))
    expect(other.object.isWhole).toBe(false)
    expect(readsOf(storesOn(ids, other.db))).toEqual(readsOf(made)) // one part has all three runs
  },
)

test('a new run in a sealed object has the next number, and the object knows that others are archived', () => {
  const ids = SHARED.slice(0, 2)
  const made = runsOf(ids, 2)
  const other = sealed(ids, made)
  for (const { object } of [made, other]) {
    const store = new RunStore(object, SHARED[2] ?? '')
    store.createRun(store.newRun(recordOf(SHARED[2] ?? '')))
  }
  expect([[...other.object.numbers], other.object.runs]).toEqual([[2], SHARED.slice(2)])
  expect(new ObjectStore(objectOn(other.db)).isWhole).toBe(false)
  expect(readsOf(other)).toEqual(readsOf(made))
  const part = [...partsOf(other.object)]
  expect(part.map(({ ref: { first, weight } }) => [first, weight])).toEqual([[2, 0]])
})

test('if a crash leaves some rows of a run that was being put back, all are put back again', () => {
  const made = spread(SHARED, 4_096)
  const other = sealed(SHARED, made)
  const [long = raise()] = other.runs
  for (const ref of long.refs.slice(1)) other.object.putBack(long.pages(ref))
  const again = { ...other, object: new ObjectStore(objectOn(other.db)) }
  expect([again.object.isWhole, again.object.runs]).toEqual([false, []])
  again.object.noteArchived(made.object.next)
  expect([...partsOf(again.object)]).toEqual([]) // rows without a run's row are no run
  again.stores = SHARED.map((id, i) => new RunStore(again.object, id, other.runs[i]))
  expect(readsOf(again)).toEqual(readsOf(made))
  for (const run of other.runs) putBack(again, run)
  expect(readsOf(again)).toEqual(readsOf(made))
})

test('if the transaction that puts a run back is rolled back, the run stays sealed', () => {
  const made = runsOf(SHARED, 2)
  const other = sealed(SHARED, made)
  const [run = raise()] = other.runs
  other.db.exec('begin')
  for (const ref of run.refs) other.object.putBack(run.pages(ref))
  other.db.exec('rollback')
  other.object.rolledBack()
  expect(readsOf(other)).toEqual(readsOf(made))
  expect(() => other.stores[0]?.markDelivered(1)).toThrow(SealedWrite)
  putBack(other, run)
  expect(readsOf(other)).toEqual(readsOf(made))
})

test.each([
  ['create', RANDOM, [{ id: RANDOM }], true],
  ['propose', RANDOM, [{ create: { id: RANDOM } }], true],
  ['propose', RANDOM, [{ create: null }], false],
  ['propose', RANDOM, [{ create: { id: KEYED } }], false],
  ['create', KEYED, [{ id: KEYED }], false],
  ['proposeIfRoom', SHARED[0] ?? '', [{ create: { id: SHARED[0] } }], false],
  ['propose', SHARED[0] ?? '', [{ create: { id: SHARED[0] } }], false],
  ['read', RANDOM, [null, 1, 0], false],
  ['readRun', RANDOM, [{ id: RANDOM }], false],
] as const)('L2 whether %s of %s with %j skips the archive: %s', (method, run, given, isNew) => {
  expect(isNewRun(run, method, given)).toBe(isNew)
})
