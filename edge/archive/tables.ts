// Tables of an ArchiveObject: the entries of sealed runs.

import { blob, integer, sqliteTable, text, uniqueIndex } from 'drizzle-orm/sqlite-core'

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
