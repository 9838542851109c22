// Tables of a SkillObject: the skill's storage, its totals, and who cleared it.

import { blob, integer, sqliteTable, text } from 'drizzle-orm/sqlite-core'

/** The value is the last column, so that SQLite does not walk over it to read the others. */
export const entries = sqliteTable('entries', {
  key: text().primaryKey(),
  /** Size of key and value together. */
  bytes: integer().notNull(),
  changedAt: integer('changed_at').notNull(),
  value: blob({ mode: 'buffer' }).notNull(),
})

/**
 * One row: the totals of `entries`, changed in the same transaction, and the bytes that the tenant
 * counts for this skill, which are never fewer.
 */
export const usage = sqliteTable('usage', {
  id: integer().primaryKey(),
  keys: integer().notNull(),
  bytes: integer().notNull(),
  reserved: integer().notNull().default(0),
  /** `tenant/skill`: an object woken by its alarm may not know its own name. */
  name: text().notNull().default(''),
})

export const clearings = sqliteTable('clearings', {
  seq: integer().primaryKey({ autoIncrement: true }),
  /** Tenant and skill are stored because an object woken by its alarm may not know its own name. */
  tenant: text().notNull(),
  skill: text().notNull(),
  by: text().notNull(),
  at: integer().notNull(),
  keys: integer().notNull(),
  bytes: integer().notNull(),
  journalled: integer({ mode: 'boolean' }).notNull(),
})
