// Tables of a ChannelObject: channels with their secrets, delegations, approvals, notices and
// deliveries.

import { isNotNull } from 'drizzle-orm'
import { index, integer, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import type { Approval } from '../../shared/wire/approvals.ts'
import type { ChannelSpec, Delivery, DeliveryState } from '../../shared/wire/channels.ts'
import type { AgentEvent } from '../directory/agent-webhook.ts'
import type { Notice } from './medium.ts'

export const channels = sqliteTable('channels', {
  name: text().primaryKey(),
  spec: text({ mode: 'json' }).$type<ChannelSpec>().notNull(),
  by: text().notNull(),
  at: integer().notNull(),
})

/** Absent operators and their delegates. */
export const delegations = sqliteTable('delegations', {
  operator: text().primaryKey(),
  to: text().notNull(),
  until_ms: integer().notNull(),
  put_at_ms: integer().notNull(),
})

/** Copies of approvals as their runs last reported them. The run is authoritative. */
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

/** Notices that skills posted; also counted per hour and per call. */
export const notices = sqliteTable(
  'notices',
  {
    /** The call and the number of the notice in it, so that posting it again adds none. */
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

/** Events of agents' calls, for their webhooks. */
export const agentEvents = sqliteTable(
  'agent_events',
  {
    /** The call and the number of the journal entry, so that reporting it again adds none. */
    id: text().primaryKey(),
    tenant: text().notNull(),
    agent: text().notNull(),
    /** When the agent was created. */
    since: integer().notNull(),
    event: text({ mode: 'json' }).$type<AgentEvent>().notNull(),
    at: integer().notNull(),
  },
  (table) => [index('agent_events_at').on(table.at)],
)

export const deliveries = sqliteTable(
  'deliveries',
  {
    /** A digest of the next columns, so that a report that arrives twice adds no message. */
    id: text().primaryKey(),
    /** An approval, a notice or an agent's event, as `kind` says. */
    about: text('approval').notNull(),
    /** For an agent's event: `agentChannel`, which no channel can have as a name. */
    channel: text().notNull(),
    recipient: text(),
    /** The absent operator whose delegate the recipient is. */
    insteadOf: text('instead_of'),
    kind: text().$type<Delivery['kind'] | 'event'>().notNull(),
    state: text().$type<DeliveryState>().notNull(),
    tries: integer().notNull(),
    /** The time of the next attempt, if one is scheduled. */
    nextAt: integer('next_at'),
    changedAt: integer('changed_at').notNull(),
    why: text(),
    /** The medium's id of the message. */
    ref: text(),
  },
  (table) => [
    index('deliveries_due').on(table.channel, table.nextAt).where(isNotNull(table.nextAt)),
    index('deliveries_approval').on(table.about),
    index('deliveries_changed').on(table.channel, table.changedAt),
  ],
)
