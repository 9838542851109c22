// Tables of a RunObject: one run, its calls, journal, attestations, output, files and snapshots.

import { isNotNull, sql } from 'drizzle-orm'
import { blob, index, integer, primaryKey, sqliteTable, text, uniqueIndex } from 'drizzle-orm/sqlite-core'
import type { CallRecord } from '../call/lifecycle.ts'
import type { RunRecord } from '../call/run.ts'
import type { RunFolder } from '../call/shared-folder.ts'

/** One row. Counters have their own columns, because each call changes them. */
export const run = sqliteTable('run', {
  id: integer().primaryKey(),
  record: text({ mode: 'json' }).$type<RunRecord>().notNull(),
  cancelled: integer({ mode: 'boolean' }).notNull(),
  calls: integer().notNull(),
  allowed: integer().notNull(),
  denied: integer().notNull(),
  seq: integer().notNull(),
  head: text().notNull(),
  /** The worker that has the run's folder, once a call that shares it was claimed. */
  folder: text({ mode: 'json' }).$type<RunFolder>(),
  /** The tenant's log has the journal entries up to this number. */
  logged: integer().notNull(),
})

export const calls = sqliteTable(
  'calls',
  {
    n: integer().primaryKey(),
    state: text().notNull(),
    /**
     * When the call must be checked next: an approval's expiry, the end of a claim window, a lease.
     */
    dueAt: integer('due_at'),
    /** The idempotency key of its proposal, if any. */
    key: text(),
    record: text({ mode: 'json' }).$type<CallRecord>().notNull(),
    /** Whether the approval's current status must still be sent to the tenant's inbox. */
    unmirrored: integer({ mode: 'boolean' }).notNull(),
    /**
     * Digest of tool and arguments, until the client has received the answer: an equal request
     * joins this call.
     */
    joinKey: text('join_key'),
    /** When the call is cancelled, because its client closed the connection. */
    cancelAt: integer('cancel_at'),
  },
  // Partial indices: an ended call is in none of them, so a write touches only its row.
  (table) => [
    index('calls_due').on(table.dueAt).where(isNotNull(table.dueAt)),
    uniqueIndex('calls_key').on(table.key).where(isNotNull(table.key)),
    index('calls_unmirrored').on(table.unmirrored).where(sql`${table.unmirrored} = 1`),
    index('calls_join').on(table.joinKey).where(isNotNull(table.joinKey)),
    index('calls_cancel').on(table.cancelAt).where(isNotNull(table.cancelAt)),
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

/** Signed attestations of ended calls, with the grant if something ran. */
export const attestations = sqliteTable('attestations', {
  n: integer().primaryKey(),
  envelope: text().notNull(),
  grant: text(),
})

/**
 * Input and output files of the run's calls. `at`: when the file was last put or, once a call has
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

/** Policy snapshots by digest, stored with the first call that was decided under them. */
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
