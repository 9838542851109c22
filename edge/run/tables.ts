// Tables of a RunObject: one run, its calls, its journal and what is kept of output.

import { isNotNull, sql } from 'drizzle-orm'
import { blob, index, integer, primaryKey, sqliteTable, text, uniqueIndex } from 'drizzle-orm/sqlite-core'
import type { CallRecord } from '../call/lifecycle.ts'
import type { RunRecord } from '../call/run.ts'
import type { RunFolder } from '../call/shared-folder.ts'

/** One row. Counters stand apart from the document because each call changes them. */
export const run = sqliteTable('run', {
  id: integer().primaryKey(),
  record: text({ mode: 'json' }).$type<RunRecord>().notNull(),
  cancelled: integer({ mode: 'boolean' }).notNull(),
  calls: integer().notNull(),
  allowed: integer().notNull(),
  denied: integer().notNull(),
  seq: integer().notNull(),
  head: text().notNull(),
  /** Where the folder of the run is, once a call that shares it was claimed. */
  folder: text({ mode: 'json' }).$type<RunFolder>(),
  /** Journal entries up to here have reached the tenant's log. */
  logged: integer().notNull(),
})

export const calls = sqliteTable(
  'calls',
  {
    n: integer().primaryKey(),
    state: text().notNull(),
    /**
     * When time changes this call's state, if it does: an approval's expiry, a claim's window, a
     * lease.
     */
    dueAt: integer('due_at'),
    /** The idempotency key that made it, if any. */
    key: text(),
    record: text({ mode: 'json' }).$type<CallRecord>().notNull(),
    /** Whether the tenant's inbox has yet to learn of the approval's present status. */
    unmirrored: integer({ mode: 'boolean' }).notNull(),
  },
  // Partial: a call that waits for nothing is in none of them, and its row is all that is written.
  (table) => [
    index('calls_due').on(table.dueAt).where(isNotNull(table.dueAt)),
    uniqueIndex('calls_key').on(table.key).where(isNotNull(table.key)),
    index('calls_unmirrored').on(table.unmirrored).where(sql`${table.unmirrored} = 1`),
  ],
)

/** Hash-chained, append-only. An entry's `prev` is the hash of the row before it. */
export const journal = sqliteTable('journal', {
  seq: integer().primaryKey(),
  at: integer().notNull(),
  kind: text().notNull(),
  n: integer(),
  body: text().notNull(),
  hash: text().notNull(),
})

/** Signed endings: the attestation's envelope, and the grant's where something ran. */
export const attestations = sqliteTable('attestations', {
  n: integer().primaryKey(),
  envelope: text().notNull(),
  grant: text(),
})

/**
 * Files that calls of the run bring and leave. `at`: when it was last put or, once a call has
 * `named` it, named.
 */
export const files = sqliteTable('files', {
  sha256: text().primaryKey(),
  bytes: integer().notNull(),
  at: integer().notNull(),
  named: integer({ mode: 'boolean' }).notNull(),
})

export const fileParts = sqliteTable(
  'file_parts',
  { sha256: text().notNull(), part: integer().notNull(), bytes: blob({ mode: 'buffer' }).notNull() },
  (table) => [primaryKey({ columns: [table.sha256, table.part] })],
)

/** Policy snapshots by digest, each beside the first call that was decided under it. */
export const snapshots = sqliteTable('snapshots', { digest: text().primaryKey(), snapshot: text().notNull() })

export const output = sqliteTable(
  'output',
  {
    n: integer().notNull(),
    stream: text({ enum: ['stdout', 'stderr'] }).notNull(),
    offset: integer().notNull(),
    bytes: blob({ mode: 'buffer' }).notNull(),
  },
  (table) => [primaryKey({ columns: [table.n, table.stream, table.offset] })],
)
