// Tables of a SkillObject: what the skill keeps, how much that is, and who cleared it.

import { blob, integer, sqliteTable, text } from 'drizzle-orm/sqlite-core'

/** The value stands last: what is read of a row without it does not walk over it. */
export const entries = sqliteTable('entries', {
  key: text().primaryKey(),
  /** Of key and value. */
  bytes: integer().notNull(),
  changedAt: integer('changed_at').notNull(),
  value: blob({ mode: 'buffer' }).notNull(),
})

/** One row: the sums of `entries`, changed with them. */
export const usage = sqliteTable('usage', {
  id: integer().primaryKey(),
  keys: integer().notNull(),
  bytes: integer().notNull(),
})

export const clearings = sqliteTable('clearings', {
  seq: integer().primaryKey({ autoIncrement: true }),
  /** Whose journal is to know of it, and of which skill: an object that wakes by itself may not know its name. */
  tenant: text().notNull(),
  skill: text().notNull(),
  by: text().notNull(),
  at: integer().notNull(),
  keys: integer().notNull(),
  bytes: integer().notNull(),
  journalled: integer({ mode: 'boolean' }).notNull(),
})
