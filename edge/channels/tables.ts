// Tables of a ChannelObject: channels with their secrets, the approvals and notices that they tell of, and each message's way.

import { isNotNull } from 'drizzle-orm'
import { index, integer, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import type { Approval } from '../../shared/wire/approvals.ts'
import type { ChannelSpec, Delivery, DeliveryState } from '../../shared/wire/channels.ts'
import type { Notice } from './medium.ts'

export const channels = sqliteTable('channels', {
  name: text().primaryKey(),
  spec: text({ mode: 'json' }).$type<ChannelSpec>().notNull(),
  by: text().notNull(),
  at: integer().notNull(),
})

/** Who is away, and who is asked too. */
export const delegations = sqliteTable('delegations', {
  operator: text().primaryKey(),
  to: text().notNull(),
  until_ms: integer().notNull(),
  put_at_ms: integer().notNull(),
})

/** As the run told last; the truth is there. */
export const approvals = sqliteTable(
  'approvals',
  {
    id: text().primaryKey(),
    tenant: text().notNull(),
    approval: text({ mode: 'json' }).$type<Approval>().notNull(),
    endedAt: integer('ended_at'),
  },
  (table) => [index('approvals_ended').on(table.endedAt).where(isNotNull(table.endedAt))],
)

/** What skills have posted: how often within an hour, and in one call, is counted here. */
export const notices = sqliteTable(
  'notices',
  {
    /** Made of its call and which of the call's posts it is: posted again, it is one. */
    id: text().primaryKey(),
    tenant: text().notNull(),
    skill: text().notNull(),
    call: text().notNull(),
    notice: text({ mode: 'json' }).$type<Notice>().notNull(),
    at: integer().notNull(),
  },
  (table) => [
    index('notices_skill').on(table.skill, table.at),
    index('notices_call').on(table.call),
    index('notices_at').on(table.at),
  ],
)

export const deliveries = sqliteTable(
  'deliveries',
  {
    /** Made of the four that follow: told twice, it is one message. */
    id: text().primaryKey(),
    /** An approval or a notice, as `kind` says. */
    about: text('approval').notNull(),
    channel: text().notNull(),
    recipient: text(),
    /** Who is away, where the recipient is asked for that. */
    insteadOf: text('instead_of'),
    kind: text().$type<Delivery['kind']>().notNull(),
    state: text().$type<DeliveryState>().notNull(),
    tries: integer().notNull(),
    /** When something is to be done about it, if it is due. */
    nextAt: integer('next_at'),
    changedAt: integer('changed_at').notNull(),
    why: text(),
    /** What the medium calls the message. */
    ref: text(),
  },
  (table) => [
    index('deliveries_due').on(table.channel, table.nextAt).where(isNotNull(table.nextAt)),
    index('deliveries_approval').on(table.about),
    index('deliveries_changed').on(table.channel, table.changedAt),
  ],
)
