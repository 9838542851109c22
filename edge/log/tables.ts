// Tables of a LogObject: the leaves of the tenant's Merkle log, with what operators can read of
// each, the tree's inner nodes, the lists of calls and runs, and the answers of witnesses.

import { isNotNull } from 'drizzle-orm'
import { index, integer, primaryKey, sqliteTable, text, uniqueIndex } from 'drizzle-orm/sqlite-core'
import type { WitnessRefusal } from '../../shared/evidence/witnesses.ts'
import type { Decision } from '../../shared/wire/calls.ts'

export const leaves = sqliteTable(
  'leaves',
  {
    index: integer().primaryKey(),
    run: text().notNull(),
    /** Position in the run's journal, by which a leaf delivered twice is appended once. */
    seq: integer().notNull(),
    hash: text().notNull(),
    call: text().notNull(),
    agent: text().notNull(),
    tool: text().notNull(),
    state: text().notNull(),
    at: integer().notNull(),
    took: integer().notNull(),
    /**
     * If a set shadowed the call: since when it had been the shadow, what was decided, and what it
     * would have decided.
     */
    shadowSince: integer('shadow_since'),
    shadowFrom: text('shadow_from').$type<Decision['effect']>(),
    shadowTo: text('shadow_to').$type<Decision['effect']>(),
  },
  (table) => [
    uniqueIndex('leaves_source').on(table.run, table.seq),
    index('leaves_shadow')
      .on(table.shadowSince, table.shadowFrom, table.shadowTo)
      .where(isNotNull(table.shadowSince)),
  ],
)

/**
 * The calls of the tenant, each as its run last reported it, numbered in the order of creation. Each
 * index is a list in that order, and holds what other filters compare, so that a row is read only to
 * be shown.
 */
export const listedCalls = sqliteTable(
  'listed_calls',
  {
    place: integer().primaryKey(),
    call: text().notNull(),
    /** Position in the run's journal: an older report changes nothing. */
    seq: integer().notNull(),
    agent: text().notNull(),
    tool: text().notNull(),
    state: text().notNull(),
    createdAt: integer('created_at').notNull(),
    endedAt: integer('ended_at'),
  },
  (table) => [
    uniqueIndex('listed_calls_call').on(table.call),
    index('listed_calls_agent').on(table.agent, table.place, table.tool, table.state),
    index('listed_calls_tool').on(table.tool, table.place, table.agent, table.state),
    index('listed_calls_state').on(table.state, table.place, table.agent, table.tool),
  ],
)

/** The runs of the tenant, numbered in the same way. */
export const listedRuns = sqliteTable(
  'listed_runs',
  {
    place: integer().primaryKey(),
    run: text().notNull(),
    agent: text().notNull(),
    session: text().notNull(),
    channel: text(),
    cancelled: integer({ mode: 'boolean' }).notNull(),
    createdAt: integer('created_at').notNull(),
  },
  (table) => [
    uniqueIndex('listed_runs_run').on(table.run),
    index('listed_runs_agent').on(table.agent, table.place),
  ],
)

/**
 * The bytes of each object with runs or a session: its own rows, and those that are sealed in an
 * archive. The row with an empty name has the sums.
 */
export const objects = sqliteTable('objects', {
  name: text().primaryKey(),
  live: integer().notNull(),
  sealed: integer().notNull(),
})

/** Hashes of full subtrees by level and index. */
export const nodes = sqliteTable(
  'nodes',
  { level: integer().notNull(), index: integer().notNull(), hash: text().notNull() },
  (table) => [primaryKey({ columns: [table.level, table.index] })],
)

/**
 * The answers of each witness, by its verifier key. The first columns after the key are of the head that
 * it cosigned last, and null if there is none.
 */
export const witnesses = sqliteTable('witnesses', {
  key: text().primaryKey(),
  origin: text(),
  size: integer(),
  root: text(),
  /** Its signature line, without the newline. */
  line: text(),
  at: integer(),
  /** Why it does not follow the log, since when; null if it does. */
  refusal: text().$type<WitnessRefusal>(),
  refusedAt: integer('refused_at'),
  detail: text(),
  /** Why the last request failed; null if it did not. */
  failing: text(),
  /** Requests since its last cosignature, and when the next one is due. */
  tries: integer().notNull().default(0),
  due: integer().notNull().default(0),
})
