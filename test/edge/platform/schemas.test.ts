// New objects are made from one generated schema instead of all migrations. These tests replay the
// migrations with SQLite itself, and compare.

import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect, test } from 'vitest'
import { type Schema, Tables } from '../../../edge/platform/object-tables.ts'
import { objectOn } from '../../support/stack/object-storage.ts'

const MIGRATIONS = join(import.meta.dirname, '../../../migrations')
const CLASSES = readdirSync(MIGRATIONS)

type Versions = Schema['schemas']
type Journal = Schema['migrations']['journal']
const json = <T>(...path: string[]): T => JSON.parse(readFileSync(join(MIGRATIONS, ...path), 'utf8')) as T

/** The tables and indexes of a database, as SQLite describes them. */
const described = (db: DatabaseSync): unknown[] =>
  db
    .prepare('select type, name, tbl_name, sql from sqlite_schema where sql is not null order by name')
    .all()
    .filter(({ name }) => name !== '__drizzle_migrations')

const replayed = (object: string, last: number): DatabaseSync => {
  const db = new DatabaseSync(':memory:')
  for (const { idx, tag } of json<Journal>(object, 'meta/_journal.json').entries)
    if (idx <= last) db.exec(readFileSync(join(MIGRATIONS, object, `${tag}.sql`), 'utf8'))
  return db
}

test.each(CLASSES)('each schema of %s makes the tables that the migrations up to it make', (object) => {
  const versions = json<Versions>(object, 'schemas.json')
  expect(versions.length).toBeGreaterThan(0)
  for (const { migration, statements } of versions) {
    const made = new DatabaseSync(':memory:')
    for (const statement of Object.values(statements)) made.exec(statement)
    expect(described(made)).toEqual(described(replayed(object, migration)))
  }
})

test.each(CLASSES)('the newest schema of %s is that of its newest migration', (object) => {
  const { entries } = json<Journal>(object, 'meta/_journal.json')
  expect(json<Versions>(object, 'schemas.json').at(-1)?.migration).toBe(entries.length - 1)
})

const statement = (name: string, columns: string) => `CREATE TABLE ${name} (${columns})`
const entry = (idx: number) => ({ idx, when: 1_000 + idx, tag: `m${idx}`, breakpoints: true })
const [A, B, BY] = [statement('a', 'n integer'), statement('b', 'n integer'), 'CREATE INDEX by_n ON b (n)']
const FIRST: Schema = {
  migrations: { journal: { entries: [entry(0)] }, migrations: { m0000: [A, B, BY].join(';') } },
  schemas: [{ migration: 0, statements: { a: A, b: B, by_n: BY } }],
}
const CHANGE = 'ALTER TABLE b ADD more text'
const SECOND: Schema = {
  migrations: {
    journal: { entries: [entry(0), entry(1)] },
    migrations: { ...FIRST.migrations.migrations, m0001: CHANGE },
  },
  schemas: [
    ...FIRST.schemas,
    { migration: 1, statements: { a: A, b: statement('b', 'n integer, more text'), by_n: BY } },
  ],
}
const LATER = ['b', 'by_n']
const names = (db: DatabaseSync) => described(db).map((row) => (row as { name: string }).name)

test('a new object has no table before its first write, and the later ones when they are needed', () => {
  const db = new DatabaseSync(':memory:')
  const tables = new Tables(objectOn(db), FIRST, LATER)
  expect([tables.exist, names(db)]).toEqual([false, []])
  tables.make()
  expect([tables.exist, names(db), tables.has('b')]).toEqual([true, ['a', 'schema_at_0'], false])
  tables.add('b', 'by_n')
  tables.add('b', 'by_n')
  expect([names(db), tables.has('b')]).toEqual([['a', 'b', 'by_n', 'schema_at_0'], true])
})

test('tables that a transaction made and lost are made again', () => {
  const db = new DatabaseSync(':memory:')
  const object = objectOn(db)
  const tables = new Tables(object, FIRST, LATER)
  const failing = () =>
    object.storage.transactionSync(() => {
      tables.make()
      tables.forget()
      throw new Error('the disk is full')
    })
  expect(failing).toThrow('the disk is full')
  expect([tables.exist, names(db)]).toEqual([false, []])
  tables.make()
  expect(names(db)).toEqual(['a', 'schema_at_0'])
})

test('a later version of the edge migrates objects of each kind: by migrations, from a schema, with and without later tables', () => {
  const replayedOne = new DatabaseSync(':memory:')
  for (const text of [A, B, BY]) replayedOne.exec(text)
  replayedOne.exec(
    'CREATE TABLE __drizzle_migrations (id SERIAL PRIMARY KEY, hash text NOT NULL, created_at numeric)',
  )
  replayedOne.exec("INSERT INTO __drizzle_migrations (hash, created_at) VALUES ('', 1000)")
  const [bare, full] = [new DatabaseSync(':memory:'), new DatabaseSync(':memory:')]
  for (const db of [bare, full]) new Tables(objectOn(db), FIRST, LATER).make()
  new Tables(objectOn(full), FIRST, LATER).add(...LATER)
  full.exec('insert into b values (7)')
  for (const db of [replayedOne, bare, full]) {
    for (let opened = 0; opened < 2; opened++) new Tables(objectOn(db), SECOND, LATER)
    expect(names(db)).toEqual(['a', 'b', 'by_n'])
    db.exec("insert into b (n, more) values (8, 'x')")
  }
  expect(full.prepare('select n, more from b').all()).toEqual([
    { n: 7, more: null },
    { n: 8, more: 'x' },
  ])
})

test('an object of a version that this edge does not know is not opened', () => {
  const db = new DatabaseSync(':memory:')
  new Tables(objectOn(db), SECOND, LATER).make()
  expect(() => new Tables(objectOn(db), FIRST, LATER)).toThrow('unknown version')
})
