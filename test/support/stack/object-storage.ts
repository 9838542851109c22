// The storage of a Durable Object without workerd: a real SQLite database behind the interface of the
// platform, for tests of one store of an object.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync, type SQLInputValue } from 'node:sqlite'
import type { ObjectState, Schema } from '../../../edge/platform/object-tables.ts'
import { ROOT } from '../../../infra/state.ts'

export function objectOn(db: DatabaseSync): ObjectState {
  const exec = (text: string, ...values: unknown[]) => {
    if (values.length === 0 && text.includes(';')) db.exec(text) // several statements
    const statement = db.prepare(text.includes(';') ? 'select 1 where false' : text)
    statement.setReturnArrays(true)
    const rows = (statement.all(...(values as SQLInputValue[])) as unknown as unknown[][]).map(
      (row) => row.map((value) => (value instanceof Uint8Array ? new Uint8Array(value).buffer : value)), // as workerd does
    )
    const columns = statement.columns().map(({ name }) => name)
    return {
      toArray: () => rows.map((row) => Object.fromEntries(row.map((value, i) => [columns[i], value]))),
      raw: () => ({ toArray: () => rows }),
    }
  }
  const transactionSync = <T>(work: () => T): T => {
    db.exec('savepoint s')
    try {
      const value = work()
      db.exec('release s')
      return value
    } catch (thrown) {
      db.exec('rollback to s; release s')
      throw thrown
    }
  }
  const blockConcurrencyWhile = (work: () => Promise<unknown>) => work()
  return { storage: { sql: { exec }, transactionSync }, blockConcurrencyWhile }
}

type Database = { readonly all: <Row>(statement: string) => Row[] }
/** By a variable path, because the type check of tests lacks the types of workerd that it needs. */
const { openDatabase } = (await import(/* @vite-ignore */ join(ROOT, 'edge/platform/database.ts'))) as {
  openDatabase: (state: ObjectState, schema: Schema) => Database
}

/** The empty database of a new object of this class, which is a folder of `migrations/`. */
export function newDatabase(object: string, db = new DatabaseSync(':memory:')): Database {
  const schemas = JSON.parse(
    readFileSync(join(ROOT, 'migrations', object, 'schemas.json'), 'utf8'),
  ) as Schema['schemas']
  const migrations: Schema['migrations'] = { journal: { entries: [] }, migrations: {} }
  return openDatabase(objectOn(db), { migrations, schemas })
}
