// A new version of the edge opens the registry of tenants that an older version stored.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect, test } from 'vitest'

const MIGRATIONS = join(import.meta.dirname, '../../../migrations/installation')
const migrate = (db: DatabaseSync, name: string): void =>
  db.exec(readFileSync(join(MIGRATIONS, `${name}.sql`), 'utf8').replaceAll('--> statement-breakpoint', ''))

test('after an upgrade tenants keep their rows, including whether their object has accepted the last change', () => {
  const db = new DatabaseSync(':memory:')
  migrate(db, '0000_tenants_and_journal')
  const insert = db.prepare(
    `insert into tenants (name, state, quota, created_at, changed_at, revision, told, erased, operator, key_hash)
     values (?, 'active', '{}', 1, 2, 3, ?, 0, 'root', 'hash')`,
  )
  insert.run('reached', 1)
  insert.run('unreached', 0)
  migrate(db, '0001_tenants_accepted')
  expect(db.prepare('select name, revision, accepted from tenants order by name').all()).toEqual([
    { name: 'reached', revision: 3, accepted: 1 },
    { name: 'unreached', revision: 3, accepted: 0 },
  ])
})
