// Tables of the InstallationObject: every tenant, also deleted ones, and the journal of their
// changes.

import { index, integer, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import type { Quota, TenantState } from '../../shared/wire/tenants.ts'

/**
 * Every tenant ever made. A row is never removed, so that the name of a deleted tenant is never
 * used again.
 */
export const tenants = sqliteTable(
  'tenants',
  {
    name: text().primaryKey(),
    state: text().$type<TenantState>().notNull(),
    quota: text({ mode: 'json' }).$type<Quota>().notNull(),
    createdAt: integer('created_at').notNull(),
    changedAt: integer('changed_at').notNull(),
    /** Counts the changes of this row, so that a late message never undoes a newer one. */
    revision: integer().notNull(),
    /** Whether the tenant's own object has accepted the current revision. */
    accepted: integer({ mode: 'boolean' }).notNull(),
    /** Of a deleted tenant: its data has been removed. */
    erased: integer({ mode: 'boolean' }).notNull().default(false),
    /** Its first operator and the hash of that operator's key. */
    operator: text().notNull(),
    keyHash: text('key_hash').notNull(),
  },
  (table) => [index('tenants_accepted').on(table.accepted)],
)

/** Hash-chained; each entry is a leaf of the installation's log. */
export const journal = sqliteTable(
  'journal',
  {
    seq: integer().primaryKey(),
    at: integer().notNull(),
    kind: text().notNull(),
    tenant: text().notNull(),
    body: text({ mode: 'json' }).$type<Record<string, unknown>>().notNull(),
    hash: text().notNull(),
    logged: integer({ mode: 'boolean' }).notNull().default(false),
  },
  (table) => [index('journal_logged').on(table.logged)],
)
