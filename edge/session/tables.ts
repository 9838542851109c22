// Tables of a SessionObject: what is counted for good, by tool, the calls that may still change, and the answers that stand.

import { index, integer, primaryKey, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import type { Answered } from '../call/lifecycle.ts'

export const totals = sqliteTable('totals', {
  tool: text().primaryKey(),
  calls: integer().notNull(),
  denied: integer().notNull(),
  time_ms: integer('time_ms').notNull(),
  spent: integer().notNull(),
  asks: integer().notNull().default(0),
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

/** Of an agent: questions of the last hour, and calls that may yet become one. */
export const questions = sqliteTable(
  'questions',
  { place: text().primaryKey(), at: integer().notNull() },
  (table) => [index('questions_at').on(table.at)],
)

/** Answers that stand for further calls, by what they cover. */
export const standing = sqliteTable(
  'standing',
  {
    id: text().primaryKey(),
    key: text().notNull(),
    by: text().notNull(),
    until: integer().notNull(),
    answer: text({ mode: 'json' }).$type<Answered>().notNull(),
  },
  (table) => [index('standing_key').on(table.key)],
)

/** Runs that were told of one: they are told when it ends. */
export const standingUses = sqliteTable(
  'standing_uses',
  { standing: text().notNull(), run: text().notNull() },
  (table) => [primaryKey({ columns: [table.standing, table.run] })],
)
