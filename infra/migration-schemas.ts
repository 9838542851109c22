// Owns `migrations/OBJECT/schemas.json`: the tables and indexes that all migrations of an object
// class together make, from which the edge makes new objects. A version that was written stays,
// because objects that were made from it have its number.

import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'

type Version = { readonly migration: number; readonly statements: Readonly<Record<string, string>> }
type Journal = { readonly entries: ReadonlyArray<{ readonly idx: number; readonly tag: string }> }

export function writeSchemas(folder: string): void {
  const { entries } = JSON.parse(readFileSync(join(folder, 'meta/_journal.json'), 'utf8')) as Journal // drizzle-kit wrote it
  const db = new DatabaseSync(':memory:')
  for (const { tag } of entries) db.exec(readFileSync(join(folder, `${tag}.sql`), 'utf8'))
  const made = db
    .prepare(
      "select name, sql from sqlite_schema where sql is not null and name not like 'sqlite_%' order by type = 'index', rowid",
    )
    .all()
  const newest: Version = {
    migration: entries.length - 1,
    statements: Object.fromEntries(made.map(({ name, sql }) => [String(name), String(sql)])),
  }
  const file = join(folder, 'schemas.json')
  const before = existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as Version[]) : [] // we wrote it
  const kept = before.filter(({ migration }) => migration < newest.migration)
  writeFileSync(file, `${JSON.stringify([...kept, newest], null, 2)}\n`)
}
