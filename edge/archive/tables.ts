// Tables of an ArchiveObject: the entries of sealed runs.

import { sql } from 'drizzle-orm'
import { blob, index, integer, sqliteTable, text, uniqueIndex } from 'drizzle-orm/sqlite-core'

/**
 * The parts of entries. A number as key lets small parts share a page; ordered by run, each would
 * take a page of its own.
 */
export const parts = sqliteTable(
  'parts',
  {
    id: integer().primaryKey(),
    /** The name of its object in the tenant. */
    run: text().notNull(),
    part: integer().notNull(),
    /** SHA-256 of the bytes. */
    digest: text().notNull(),
    bytes: blob({ mode: 'buffer' }).notNull(),
  },
  (table) => [uniqueIndex('parts_run').on(table.run, table.part)],
)

/** The objects that have an entry, for the tenant's retention rule. */
export const entries = sqliteTable(
  'entries',
  {
    run: text().primaryKey(),
    /** How many of `KEPT` were removed of its runs (shared/wire/retention.ts). */
    removed: integer().notNull(),
    /** When something last happened in its runs. */
    changed: integer().notNull(),
    /** When its object may be asked to remove something, if it could not before. */
    askAgainAt: integer('ask_again_at').notNull(),
  },
  (table) => [
    index('entries_changed').on(table.removed, table.changed),
    index('entries_asked').on(table.askAgainAt).where(sql`${table.askAgainAt} > 0`),
  ],
)
