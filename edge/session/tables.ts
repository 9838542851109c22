// Tables of a SessionObject: final totals by tool, calls that may still change, an agent's
// questions, and standing answers.

import { index, integer, primaryKey, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import type { RecordedAnswer } from '../call/lifecycle.ts'

export const totals = sqliteTable('totals', {
  tool: text().primaryKey(),
  calls: integer().notNull(),
  denied: integer().notNull(),
  time_ms: integer('time_ms').notNull(),
  spent: integer().notNull(),
  asks: integer().notNull().default(0),
})

export const openCalls = sqliteTable(
  'open',
  {
    /** Id of the reservation. Each attempt has its own, so that it releases no other attempt's. */
    place: text().primaryKey(),
    run: text().notNull(),
    /** The key by which the run will know the call. */
    key: text().notNull(),
    tool: text().notNull(),
    spent: integer().notNull(),
    at: integer().notNull(),
  },
  (table) => [index('open_call').on(table.run, table.key)],
)

/** An agent's questions of the last hour, and reservations of calls that may become one. */
export const questions = sqliteTable(
  'questions',
  { place: text().primaryKey(), at: integer().notNull() },
  (table) => [index('questions_at').on(table.at)],
)

/** Standing approvals and denials, by the key of the calls that they cover. */
export const standing = sqliteTable(
  'standing',
  {
    id: text().primaryKey(),
    key: text().notNull(),
    by: text().notNull(),
    until: integer().notNull(),
    answer: text({ mode: 'json' }).$type<RecordedAnswer>().notNull(),
  },
  (table) => [index('standing_key').on(table.key)],
)

/** Runs that have read a standing answer and must be notified when it ends. */
export const standingUses = sqliteTable(
  'standing_uses',
  { standing: text().notNull(), run: text().notNull() },
  (table) => [primaryKey({ columns: [table.standing, table.run] })],
)
