// Tables of a SessionObject: what is counted for good, by tool, and the calls that may still change.

import { index, integer, sqliteTable, text } from 'drizzle-orm/sqlite-core'

export const totals = sqliteTable('totals', {
  tool: text().primaryKey(),
  calls: integer().notNull(),
  denied: integer().notNull(),
  time_ms: integer('time_ms').notNull(),
  spent: integer().notNull(),
})

export const open = sqliteTable(
  'open',
  {
    /** One for each attempt: who gives up a place gives up their own. */
    place: text().primaryKey(),
    run: text().notNull(),
    /** The key under which the run knows the call, once it does. */
    key: text().notNull(),
    tool: text().notNull(),
    spent: integer().notNull(),
    at: integer().notNull(),
  },
  (table) => [index('open_call').on(table.run, table.key)],
)
