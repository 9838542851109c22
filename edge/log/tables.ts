// Tables of a LogObject: the leaves of the tenant's Merkle log, with what operators can read of
// each, and the tree's inner nodes.

import { isNotNull } from 'drizzle-orm'
import { index, integer, primaryKey, sqliteTable, text, uniqueIndex } from 'drizzle-orm/sqlite-core'
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
     * If a set shadowed the call: since when it does, what was decided, and what it would have
     * decided.
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

/** Hashes of full subtrees by level and index. */
export const nodes = sqliteTable(
  'nodes',
  { level: integer().notNull(), index: integer().notNull(), hash: text().notNull() },
  (table) => [primaryKey({ columns: [table.level, table.index] })],
)
