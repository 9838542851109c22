// Tables of a PoolObject: calls that wait for a worker, each to be rung until claimed or lapsed.

import { index, integer, sqliteTable, text } from 'drizzle-orm/sqlite-core'

export const waiting = sqliteTable(
  'waiting',
  {
    call: text().primaryKey(),
    run: text().notNull(),
    until: integer().notNull(),
    nextAt: integer('next_at').notNull(),
    rings: integer().notNull(),
  },
  (table) => [index('waiting_next').on(table.nextAt)],
)
