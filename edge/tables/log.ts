// Tables of a LogObject: the tenant's Merkle log over the ends of its runs' journals, and a readable index of the same.

import { integer, primaryKey, sqliteTable, text, uniqueIndex } from 'drizzle-orm/sqlite-core'

export const leaves = sqliteTable(
  'leaves',
  {
    index: integer().primaryKey(),
    run: text().notNull(),
    /** Where in the run's journal the leaf comes from: delivered twice, appended once. */
    seq: integer().notNull(),
    hash: text().notNull(),
    call: text().notNull(),
    agent: text().notNull(),
    tool: text().notNull(),
    state: text().notNull(),
    at: integer().notNull(),
    took: integer().notNull(),
  },
  (table) => [uniqueIndex('leaves_source').on(table.run, table.seq)],
)

/** Hashes of full subtrees by level and index. */
export const nodes = sqliteTable('nodes', { level: integer().notNull(), index: integer().notNull(), hash: text().notNull() }, (table) => [
  primaryKey({ columns: [table.level, table.index] }),
])
