// Tables of an ArchiveObject: the entries of sealed runs.

import { sql } from 'drizzle-orm'
import { blob, index, integer, sqliteTable, text, uniqueIndex } from 'drizzle-orm/sqlite-core'

/** Entries. One without an index is still being written. */
export const entries = sqliteTable(
  'entries',
  {
    id: integer().primaryKey(),
    /** The name of the object of runs in its tenant. */
    object: text().notNull(),
    /** Grows with each change in the object (`PartRef`). An older entry never replaces a newer one. */
    weight: integer(),
    digest: text(),
    index: blob({ mode: 'buffer' }),
    /** How many of `KEPT` the retention rule has removed of all its runs (shared/wire/retention.ts). */
    removed: integer().notNull().default(0),
    /** When something last happened in its runs. */
    changed: integer(),
    /** When its object may be asked to remove something, if it could not before. */
    askAgainAt: integer('ask_again_at').notNull().default(0),
  },
  (table) => [
    uniqueIndex('entries_object').on(table.object),
    index('entries_changed').on(table.removed, table.changed),
    index('entries_asked').on(table.askAgainAt).where(sql`${table.askAgainAt} > 0`),
  ],
)

/**
 * The parts of entries. A number as key lets small parts share a page; ordered by digest, each would
 * take a page of its own.
 */
export const parts = sqliteTable(
  'entry_parts',
  {
    id: integer().primaryKey(),
    entry: integer().notNull(),
    digest: text().notNull(),
    bytes: blob({ mode: 'buffer' }).notNull(),
  },
  (table) => [uniqueIndex('entry_parts_digest').on(table.entry, table.digest)],
)
