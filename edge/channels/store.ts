// The database of a ChannelObject: queries and writes.

import {
  and,
  asc,
  count,
  desc,
  eq,
  gt,
  inArray,
  isNotNull,
  isNull,
  like,
  lt,
  lte,
  min,
  ne,
  or,
} from 'drizzle-orm'
import migrations from '../../migrations/channel/migrations.js'
import schemas from '../../migrations/channel/schemas.json' with { type: 'json' }
import { LIMITS } from '../../shared/limits.ts'
import type { Approval } from '../../shared/wire/approvals.ts'
import type { ChannelSpec, Delegation, DeliveryState } from '../../shared/wire/channels.ts'
import { openDatabase } from '../platform/database.ts'
import { AGENT_CHANNEL } from './agent-events.ts'
import type { DeliveryProgress } from './delivery-state.ts'
import type { Notice } from './medium.ts'
import { agentEvents, approvals, channels, delegations, deliveries, notices } from './tables.ts'

export type ChannelRow = typeof channels.$inferSelect
export type DeliveryRow = typeof deliveries.$inferSelect
export type ApprovalRow = typeof approvals.$inferSelect
export type NoticeRow = typeof notices.$inferSelect
export type AgentEventRow = typeof agentEvents.$inferSelect

export class ChannelStore {
  readonly #db
  readonly #ctx: DurableObjectState

  constructor(ctx: DurableObjectState) {
    this.#ctx = ctx
    this.#db = openDatabase(ctx, { migrations, schemas })
  }

  /** Runs `work` in one transaction. */
  inTransaction<T>(work: () => T): T {
    return this.#ctx.storage.transactionSync(work)
  }

  // ── Channels ──

  channels(): ChannelRow[] {
    return this.#db.select().from(channels).orderBy(asc(channels.name)).all()
  }

  channel(name: string): ChannelRow | undefined {
    return this.#db.select().from(channels).where(eq(channels.name, name)).get()
  }

  putChannel(name: string, spec: ChannelSpec, by: string, at: number): void {
    const row = { name, spec, by, at }
    this.#db.insert(channels).values(row).onConflictDoUpdate({ target: channels.name, set: row }).run()
  }

  removeChannel(name: string): void {
    this.#db.delete(channels).where(eq(channels.name, name)).run()
  }

  // ── Delegations of absent operators ──

  delegations(now: number): Delegation[] {
    return this.#db
      .select()
      .from(delegations)
      .where(gt(delegations.until_ms, now))
      .orderBy(asc(delegations.operator))
      .all()
  }

  putDelegation(row: Delegation): void {
    this.#db
      .insert(delegations)
      .values(row)
      .onConflictDoUpdate({ target: delegations.operator, set: row })
      .run()
  }

  /** Returns whether there was one to delete. */
  removeDelegation(operator: string): boolean {
    return (
      this.#db
        .delete(delegations)
        .where(eq(delegations.operator, operator))
        .returning({ to: delegations.to })
        .all().length > 0
    )
  }

  // ── Approvals ──

  approval(id: string): ApprovalRow | undefined {
    return this.#db.select().from(approvals).where(eq(approvals.id, id)).get()
  }

  saveApproval(tenant: string, approval: Approval, endedAt: number | null): void {
    const row = { id: approval.id, tenant, approval, endedAt }
    this.#db.insert(approvals).values(row).onConflictDoUpdate({ target: approvals.id, set: row }).run()
  }

  // ── Notices ──

  notice(id: string): NoticeRow | undefined {
    return this.#db.select().from(notices).where(eq(notices.id, id)).get()
  }

  addNotice(id: string, tenant: string, notice: Notice, at: number): void {
    const { skill, call } = notice
    this.#db.insert(notices).values({ id, tenant, skill, call, notice, at }).run()
  }

  /** How many notices the skill has posted since then. */
  noticesSince(skill: string, time: number): number {
    const recent = and(eq(notices.skill, skill), gt(notices.at, time))
    return this.#db.select({ n: count() }).from(notices).where(recent).get()?.n ?? 0
  }

  noticesOf(call: string): number {
    return this.#db.select({ n: count() }).from(notices).where(eq(notices.call, call)).get()?.n ?? 0
  }

  // ── Events for agents' webhooks ──

  agentEvent(id: string): AgentEventRow | undefined {
    return this.#db.select().from(agentEvents).where(eq(agentEvents.id, id)).get()
  }

  addAgentEvent(row: AgentEventRow): void {
    this.#db.insert(agentEvents).values(row).onConflictDoNothing().run()
  }

  /** How many more events the outbox of an agent can hold. Forgets settled ones to make room. */
  roomForEvents(channel: string, wanted: number): number {
    const held =
      this.#db.select({ n: count() }).from(deliveries).where(eq(deliveries.channel, channel)).get()?.n ?? 0
    const excess = held + wanted - LIMITS.agent_events
    if (excess <= 0) return wanted
    const settled = and(eq(deliveries.channel, channel), isNull(deliveries.nextAt))
    const oldest = this.#db
      .select({ id: deliveries.id, about: deliveries.about })
      .from(deliveries)
      .where(settled)
      .orderBy(asc(deliveries.changedAt))
      .limit(excess)
      .all()
    for (const { id, about } of oldest) {
      this.#db.delete(deliveries).where(eq(deliveries.id, id)).run()
      this.#db.delete(agentEvents).where(eq(agentEvents.id, about)).run()
    }
    return wanted - (excess - oldest.length)
  }

  /** The agents' outboxes that have something due now or later. */
  agentChannels(): string[] {
    return this.#db
      .selectDistinct({ channel: deliveries.channel })
      .from(deliveries)
      .where(and(like(deliveries.channel, `${AGENT_CHANNEL}%`), isNotNull(deliveries.nextAt)))
      .all()
      .map(({ channel }) => channel)
  }

  // ── Expiry ──

  /** When the oldest approval ended, the oldest notice was posted, or the oldest event happened. */
  firstEnd(): number | null {
    const ended = this.#db.select({ at: min(approvals.endedAt) }).from(approvals)
    const posted = this.#db
      .select({ at: min(notices.at) })
      .from(notices)
      .get()?.at
    const happened = this.#db
      .select({ at: min(agentEvents.at) })
      .from(agentEvents)
      .get()?.at
    const times = [ended.where(isNotNull(approvals.endedAt)).get()?.at, posted, happened].filter(
      (at) => typeof at === 'number',
    )
    return times.length === 0 ? null : Math.min(...times)
  }

  /** Deletes old ended approvals, notices and events, with their deliveries. */
  forgetEndedBefore(time: number): void {
    const ended = this.#db
      .delete(approvals)
      .where(lt(approvals.endedAt, time))
      .returning({ id: approvals.id })
      .all()
    const posted = this.#db.delete(notices).where(lt(notices.at, time)).returning({ id: notices.id }).all()
    const happened = this.#db
      .delete(agentEvents)
      .where(lt(agentEvents.at, time))
      .returning({ id: agentEvents.id })
      .all()
    for (const { id } of [...ended, ...posted, ...happened])
      this.#db.delete(deliveries).where(eq(deliveries.about, id)).run()
  }

  // ── Deliveries ──

  addDelivery(row: DeliveryRow): void {
    this.#db.insert(deliveries).values(row).onConflictDoNothing().run()
  }

  delivery(id: string): DeliveryRow | undefined {
    return this.#db.select().from(deliveries).where(eq(deliveries.id, id)).get()
  }

  ofApproval(approval: string): DeliveryRow[] {
    return this.#db.select().from(deliveries).where(eq(deliveries.about, approval)).all()
  }

  /** The approval or notice of a delivery; `undefined` if it was deleted. */
  subject({ kind, about }: Pick<DeliveryRow, 'kind' | 'about'>): ApprovalRow | NoticeRow | undefined {
    return kind === 'notice' ? this.notice(about) : this.approval(about)
  }

  /** A page, the latest first. `after`: the last delivery of the previous page. */
  inState(channel: string, states: readonly DeliveryState[], after?: DeliveryRow): DeliveryRow[] {
    const { id, changedAt } = deliveries
    const further =
      after === undefined
        ? undefined
        : or(lt(changedAt, after.changedAt), and(eq(changedAt, after.changedAt), gt(id, after.id)))
    const wanted = and(eq(deliveries.channel, channel), inArray(deliveries.state, [...states]), further)
    return this.#db
      .select()
      .from(deliveries)
      .where(wanted)
      .orderBy(desc(changedAt), asc(id))
      .limit(LIMITS.page)
      .all()
  }

  /** The deliveries that wait to be collected, the oldest first. */
  waiting(channel: string): DeliveryRow[] {
    const uncollected = and(
      eq(deliveries.channel, channel),
      eq(deliveries.state, 'due'),
      isNull(deliveries.nextAt),
    )
    return this.#db
      .select()
      .from(deliveries)
      .where(uncollected)
      .orderBy(asc(deliveries.changedAt))
      .limit(LIMITS.page)
      .all()
  }

  /** Makes failed deliveries due again if they are still of use, and returns how many. */
  reviveFailed(channel: string, now: number): number {
    const open = this.#db.select({ id: approvals.id }).from(approvals).where(isNull(approvals.endedAt))
    const useful = or(ne(deliveries.kind, 'asked'), inArray(deliveries.about, open))
    const failed = and(eq(deliveries.channel, channel), eq(deliveries.state, 'failed'), useful)
    const due = { state: 'due' as const, tries: 1, nextAt: now, changedAt: now } // it may have arrived once
    return this.#db.update(deliveries).set(due).where(failed).returning({ id: deliveries.id }).all().length
  }

  /** The due deliveries, the longest due first; notices after everything about approvals. */
  due(channel: string, now: number, limit: number): DeliveryRow[] {
    const due = and(eq(deliveries.channel, channel), lte(deliveries.nextAt, now))
    return [ne(deliveries.kind, 'notice'), eq(deliveries.kind, 'notice')].flatMap((kind) =>
      this.#db
        .select()
        .from(deliveries)
        .where(and(due, kind))
        .orderBy(asc(deliveries.nextAt))
        .limit(limit)
        .all(),
    )
  }

  nextDue(channel: string): number | null {
    const scheduled = and(eq(deliveries.channel, channel), isNotNull(deliveries.nextAt))
    return (
      this.#db
        .select({ at: min(deliveries.nextAt) })
        .from(deliveries)
        .where(scheduled)
        .get()?.at ?? null
    )
  }

  /** Schedules the deliveries that wait to be collected. */
  wake(channel: string, now: number): void {
    const uncollected = and(
      eq(deliveries.channel, channel),
      eq(deliveries.state, 'due'),
      isNull(deliveries.nextAt),
    )
    this.#db.update(deliveries).set({ nextAt: now, why: null }).where(uncollected).run()
  }

  saveProgress({ id, ref }: DeliveryRow, course: DeliveryProgress, now: number): void {
    const { state, tries, nextAt, why } = course
    this.#db
      .update(deliveries)
      .set({ state, tries, nextAt, why, ref, changedAt: now })
      .where(eq(deliveries.id, id))
      .run()
  }
}
