// Tables of an ArchiveObject: the entries of sealed runs.

import { blob, integer, sqliteTable, text, uniqueIndex } from 'drizzle-orm/sqlite-core'

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
  },
  (table) => [uniqueIndex('entries_object').on(table.object)],
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
