// Promise: a run is sealed only after it has rested, and only if nothing in it is still to come.

import { generateKeyPairSync } from 'node:crypto'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect, test } from 'vitest'
import { mayRest } from '../../../edge/run/sealing/rest.ts'
import { ROOT } from '../../../infra/state.ts'
import { objectOn } from '../../support/stack/object-storage.ts'

test.each([
  ['with something to deliver, or without calls', false, null],
  ['with a live call, a client that is gone or a file', true, 1],
])('a run %s is not sealed', (_, isDelivered, nextDue) => {
  expect([mayRest(isDelivered, nextDue), mayRest(true, null)]).toEqual([false, true])
})

type Store = { readonly tables: { make(): void }; entryAdded(at: number): void }
const { ObjectStore } = (await import(/* @vite-ignore */ join(ROOT, 'edge/run/object/object-store.ts'))) as {
  ObjectStore: new (ctx: ReturnType<typeof objectOn>) => Store
}
const { sealIfRested } = (await import(/* @vite-ignore */ join(ROOT, 'edge/run/sealing/sealing.ts'))) as {
  sealIfRested: (runs: object) => Promise<void>
}

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
  const key = generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' })
  await sealIfRested({
    env: { EDGE_SIGNING_KEY: JSON.stringify(key), PUBLIC_URL: 'https://e.example', SEAL_AFTER_S: '60' },
    store,
    unsealedAt: 0,
    isDelivered: async () => true,
    arm: (at: number) => armed.push(at),
  })
  expect(armed).toEqual([last + 60_000])
  expect(statements.filter((text) => /from "(?:calls|journal)"/.test(text))).toEqual([])
})
