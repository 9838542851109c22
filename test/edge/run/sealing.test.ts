// Promise: a run is sealed only after it has rested, and only if nothing in it is still to come.

import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect, test } from 'vitest'
import { namesOf, type Page, type Row, sealIndex, sealPart } from '../../../edge/archive/entry.ts'
import { mayRest } from '../../../edge/run/sealing/rest.ts'
import { SealingTurns } from '../../../edge/run/sealing/turns.ts'
import { ROOT } from '../../../infra/state.ts'
import { LIMITS } from '../../../shared/limits.ts'
import { objectOn } from '../../support/stack/object-storage.ts'

test.each([
  ['with something to deliver, or without calls', false, null],
  ['with a live call, a client that is gone or a file', true, 1],
])('a run %s is not sealed', (_, isDelivered, nextDue) => {
  expect([mayRest(isDelivered, nextDue), mayRest(true, null)]).toEqual([false, true])
})

test('`sealings_at_once` objects seal at a time, the others ask again one after the other', async () => {
  const turns = new SealingTurns()
  const endings: Array<() => void> = []
  const begin = (now: number) => turns.take(now, () => new Promise((end) => endings.push(end)))
  const first = [begin(1_000), begin(1_000), begin(1_000), begin(1_000)]
  expect([LIMITS.sealings_at_once, endings.length]).toEqual([4, 4])
  expect(await Promise.all([begin(1_000), begin(1_000), begin(1_500)])).toEqual([1_010, 1_020, 1_510])
  expect(LIMITS.sealing_wait_ms).toBe(10)
  for (const end of endings) end()
  expect(await Promise.all(first)).toEqual([null, null, null, null])

  const failed = turns.take(2_000, () => Promise.reject(new Error('the disk is full')))
  await expect(failed).rejects.toThrow('the disk is full')
  for (let i = 0; i < 4; i++) void begin(2_000)
  expect([endings.length, await begin(2_000)]).toEqual([8, 2_010])
})

test('a turn whose end is not seen counts for `sealing_ms`', async () => {
  const turns = new SealingTurns()
  const lost = () => turns.take(0, () => new Promise(() => undefined))
  for (let i = 0; i < LIMITS.sealings_at_once; i++) void lost()
  const begun: number[] = []
  const at = (now: number) => turns.take(now, async () => void begun.push(now))
  expect([await at(60_000), await at(60_001), begun]).toEqual([60_010, null, [60_001]])
  expect(LIMITS.sealing_ms).toBe(60_000)
})

type Store = {
  readonly tables: { make(): void }
  entryAdded(at: number): void
  putBack(pages: readonly Page[]): void
}
const { ObjectStore } = (await import(/* @vite-ignore */ join(ROOT, 'edge/run/object/object-store.ts'))) as {
  ObjectStore: new (ctx: ReturnType<typeof objectOn>) => Store
}
const { sealIfRested } = (await import(/* @vite-ignore */ join(ROOT, 'edge/run/sealing/sealing.ts'))) as {
  sealIfRested: (runs: object) => Promise<void>
}
const { Archived } = (await import(/* @vite-ignore */ join(ROOT, 'edge/run/sealing/archived.ts'))) as {
  Archived: new (runs: object) => { ids(): Promise<ReadonlyMap<number, string>>; forgetIds(): void }
}

const KEY = JSON.stringify(generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' }))
const RUN = `run_${'0'.repeat(26)}`
const SLICE = 64 * 1024

type Changes = { isErased: boolean; changes: number }
type Attempt = { staged: number; unstaged: number; published: number; sealed: number; armed: number[] }

/** Seals an object of one run with random output of this many slices. `atStage`: while its parts are stored. */
async function attempt(
  slices: number,
  entryAt: number,
  atStage: (runs: Changes) => void = () => undefined,
): Promise<Attempt> {
  const store = new ObjectStore(objectOn(new DatabaseSync(':memory:')))
  const record = JSON.stringify({ id: RUN, tenant: 't' })
  const counts = { cancelled: 0, calls: 1, allowed: 1, denied: 0, seq: 1, head: '', logged: 1 }
  const output = (offset: number): Row => {
    const bytes = new Uint8Array(randomBytes(SLICE)).buffer
    return { n: 1, stream: 'stdout', offset, bytes }
  }
  store.putBack([
    { table: 'run', rows: [{ id: 1, record, ...counts }] },
    { table: 'calls', rows: [{ n: 1, state: 'succeeded', record: '{}', unmirrored: 0 }] },
    { table: 'journal', rows: [{ seq: 1, at: entryAt, kind: 'succeeded', n: 1, body: '{}', hash: '' }] },
    { table: 'output', rows: Array.from({ length: slices }, (_, i) => output(i * SLICE)) },
  ])
  const done: Attempt = { staged: 0, unstaged: 0, published: 0, sealed: 0, armed: [] }
  const archive = {
    stage: async () => {
      done.staged++
      atStage(runs)
    },
    unstage: async () => ++done.unstaged,
    publish: async () => ++done.published,
  }
  const runs = {
    env: { EDGE_SIGNING_KEY: KEY, PUBLIC_URL: 'https://e.example' },
    store,
    archived: { archive, tenant: 't', object: RUN, kept: async () => [] },
    log: { reportSealed: async () => undefined },
    unsealedAt: 0,
    changes: 0,
    isErased: false,
    isDelivered: async () => true,
    becomeSealed: async () => ++done.sealed > 0,
    arm: (at: number) => done.armed.push(at),
  }
  await sealIfRested(runs)
  return done
}

test('a run of up to `LIMITS.sealed_run_bytes` is sealed, and a larger one stays, until it changes', async () => {
  const most = LIMITS.sealed_run_bytes / SLICE
  expect(await attempt(0.9 * most, 1)).toMatchObject({ unstaged: 0, published: 1, sealed: 1, armed: [] })
  expect(await attempt(1.1 * most, 1)).toMatchObject({ unstaged: 1, published: 0, sealed: 0, armed: [] })
})

test('an object that is erased while it is sealed leaves no entry, and one that changes tries again', async () => {
  const erased = await attempt(1, 1, (runs) => Object.assign(runs, { isErased: true, changes: 1 }))
  expect(erased).toMatchObject({ staged: 1, published: 0, sealed: 0, armed: [] })
  const changed = await attempt(1, 1, (runs) => Object.assign(runs, { changes: 1 }))
  expect(changed).toMatchObject({ staged: 1, published: 0, sealed: 0 })
  expect(changed.armed.map((at) => at > Date.now())).toEqual([true])
})

test('the alarm of an object that has not rested reads neither its calls nor its journal', async () => {
  const db = new DatabaseSync(':memory:')
  const { storage, ...state } = objectOn(db)
  const statements: string[] = []
  const exec: typeof storage.sql.exec = (text, ...values) => {
    statements.push(text)
    return storage.sql.exec(text, ...values)
  }
  const store = new ObjectStore({ ...state, storage: { ...storage, sql: { exec } } })
  store.tables.make()
  const record = JSON.stringify({ id: `run_${'0'.repeat(26)}`, tenant: 't' })
  db.exec(
    `INSERT INTO run (id, record, cancelled, calls, allowed, denied, seq, head, logged)
    VALUES (1, '${record}', 0, 1, 0, 1, 1, '', 1)`,
  )
  const last = Date.now()
  store.entryAdded(last)
  statements.length = 0

  const armed: number[] = []
  await sealIfRested({
    env: { EDGE_SIGNING_KEY: KEY, PUBLIC_URL: 'https://e.example' },
    store,
    unsealedAt: 0,
    isDelivered: async () => true,
    arm: (at: number) => armed.push(at),
  })
  expect(armed).toEqual([last + LIMITS.seal_after_s * 1_000])
  expect(statements.filter((text) => /from "(?:calls|journal)"/.test(text))).toEqual([])
})

test('an export reads the ids of sealed runs once, and not the whole entry for each part', async () => {
  const [id, record] = [1, JSON.stringify({ id: RUN })]
  const part = sealPart([{ table: 'run', rows: [{ id, record }] }])
  const ref = { digest: part.digest, first: 0, weight: 1, names: namesOf([RUN]), ranges: null }
  const index = sealIndex(RUN, { migration: 4, next: 1, parts: [ref] })
  let reads = 0
  const archive = {
    index: async () => index,
    parts: async () => {
      reads++
      return [part]
    },
  }
  const store = new ObjectStore(objectOn(new DatabaseSync(':memory:')))
  const archived = new Archived({ env: { ARCHIVE: { getByName: () => archive } }, store, name: `t/${RUN}` })
  for (let i = 0; i < 3; i++) expect(await archived.ids()).toEqual(new Map([[0, RUN]]))
  expect(reads).toBe(1)
  archived.forgetIds()
  expect([await archived.ids(), reads]).toEqual([new Map([[0, RUN]]), 2])
})
