// A tenant's inbox: a mirror of its approvals, for the API and, filtered and ordered, for the
// console. Identical pending approvals are listed once, by their head. The truth is in each run.

import { and, asc, count, desc, eq, gt, isNull, max, type SQL, sql } from 'drizzle-orm'
import { LIMITS } from '../../shared/limits.ts'
import type { Approval, ListedApproval } from '../../shared/wire/approvals.ts'
import { ChangeCounter } from '../platform/change-counter.ts'
import type { Database } from '../platform/database.ts'
import { ApprovalMetricsStore } from './approval-metrics-store.ts'
import { inbox } from './tables.ts'

/** An empty text does not filter. `past`: the last approval of the previous page. */
export type InboxQuery = {
  agent: string
  tool: string
  risk: string
  text: string
  order: 'oldest' | 'riskiest'
  past: string
}
export type ListQuery = {
  status: 'pending' | 'ended' | 'all'
  alike: 'each' | 'once'
  group?: string | undefined
  after?: string | undefined
}

/** One of the identical pending approvals, their number, and the id of the newest. */
export type Waiting = { approval: Approval; alike: number; newest: string }
/** Each approval once, with the number of its last change and in this order. */
export type Changes = { items: { seq: number; approval: Approval }[]; latest: number }
/**
 * `waiting`: the number of pending approvals; `matching`: how many of them match the filter;
 * `items` is one page of these; `number`: the last change.
 */
export type InboxPage = { items: Waiting[]; waiting: number; matching: number; more: boolean; number: number }

/** The kinds of rows in the index: an ended approval is never a head. */
const KINDS = [
  { pending: true, head: true },
  { pending: true, head: false },
  { pending: false, head: false },
] as const
const RISKS: readonly string[] = ['critical', 'high', 'medium', 'low']
const prompt = (name: string) => sql`json_extract(${inbox.approval}, ${`$.prompt.${name}`})`
/** Until the year 2286 all times have 13 digits, so texts sort like numbers. */
const PLACE = sql<string>`${inbox.requestedAt} || ' ' || ${inbox.id}`
const shown = sql`${prompt('title')} || ' ' || ${prompt('command')} || ' ' || ${prompt('arguments')} || ' ' || ${prompt('reason')}`

const p = sql.placeholder

/**
 * Statements for every update of the mirror, prepared once: building one takes longer than running
 * it.
 */
function mirrorStatements(db: Database) {
  const row = {
    id: p('id'),
    pending: p('pending'),
    requestedAt: p('requestedAt'),
    approval: p('approval'),
    group: p('group'),
    head: p('head'),
    agent: p('agent'),
    tool: p('tool'),
    risk: p('risk'),
    changed: p('changed'),
  }
  const set = row as never // drizzle's types lack placeholders in `set`
  return {
    known: db
      .select({ pending: inbox.pending, head: inbox.head, group: inbox.group, approval: inbox.approval })
      .from(inbox)
      .where(eq(inbox.id, p('id')))
      .prepare(),
    headOf: db
      .select({ id: inbox.id })
      .from(inbox)
      .where(and(eq(inbox.group, p('group')), eq(inbox.head, true)))
      .prepare(),
    put: db.insert(inbox).values(row).onConflictDoUpdate({ target: inbox.id, set }).prepare(),
  }
}

export class InboxStore {
  readonly #db: Database
  readonly #mirror: ReturnType<typeof mirrorStatements>
  readonly news = new ChangeCounter()
  /** The number of the last change; read once and updated by every write. */
  #latest: number
  readonly figures: ApprovalMetricsStore

  constructor(db: Database) {
    this.#db = db
    this.#mirror = mirrorStatements(db)
    this.figures = new ApprovalMetricsStore(db)
    this.#migrateRows()
    this.#latest =
      this.#db
        .select({ n: max(inbox.changed) })
        .from(inbox)
        .get()?.n ?? 0
  }

  mirror(approvals: readonly Approval[]): void {
    const written: string[] = []
    for (const approval of approvals) {
      const { id, group, status, requested_at: requestedAt } = approval
      const { agent, tool, risk } = approval.prompt
      const pending = status === 'pending'
      const known = this.#mirror.known.get({ id })
      if (known?.pending === false) continue // an ended approval never becomes pending again, in whatever order updates arrive
      if (known !== undefined && JSON.stringify(known.approval) === JSON.stringify(approval)) continue // a repeated update
      this.figures.count(approval, known === undefined)
      const led = known?.head === true && (!pending || known.group !== group) ? known.group : null // it has ended, or was edited and now differs from its group
      const head =
        pending &&
        ((known?.head === true && led === null) || this.#mirror.headOf.get({ group }) === undefined)
      const changed = ++this.#latest
      const row = {
        id,
        pending,
        requestedAt,
        approval,
        group,
        head,
        agent,
        tool,
        risk: RISKS.indexOf(risk),
        changed,
      }
      this.#mirror.put.run(row)
      written.push(id)
      if (led !== null) this.#promoteNext(led)
    }
    if (written.length > 0) this.news.notify(written)
  }

  /** Replaces ended approvals by what is left of them, and removes those of which nothing is left. */
  redact(approvals: readonly Approval[], forgotten: readonly string[]): void {
    const ended = (id: string) => and(eq(inbox.id, id), eq(inbox.pending, false))
    for (const approval of approvals) this.#db.update(inbox).set({ approval }).where(ended(approval.id)).run()
    for (const id of forgotten) this.#db.delete(inbox).where(ended(id)).run()
  }

  /** Newest first: takes the newest of each kind from the index, then merges them. */
  list({ status, alike, group, after }: ListQuery): ListedApproval[] {
    const last = after === undefined ? undefined : this.#at(after)
    const rest = and(
      group === undefined ? undefined : eq(inbox.group, group),
      last === undefined
        ? undefined
        : sql`(${inbox.requestedAt}, ${inbox.id}) < (${last.requestedAt}, ${last.id})`,
    )
    const kinds = KINDS.filter(
      ({ pending, head }) =>
        (status === 'all' || pending === (status === 'pending')) && (alike === 'each' || head || !pending),
    )
    const newest = kinds.flatMap(({ pending, head }) =>
      this.#first(
        and(eq(inbox.pending, pending), eq(inbox.head, head), rest),
        LIMITS.page,
        desc(inbox.requestedAt),
        desc(inbox.id),
      ),
    )
    const rows = newest
      .sort((a, b) => b.requested_at - a.requested_at || (a.id < b.id ? 1 : -1))
      .slice(0, LIMITS.page)
    return alike === 'each'
      ? rows
      : this.#counted(rows).map(({ approval, alike }) => ({ ...approval, alike }))
  }

  pending(query: InboxQuery): InboxPage {
    const filters = filtersOf(query)
    const place = query.past === '' ? undefined : this.#at(query.past)
    const rest =
      place === undefined
        ? undefined
        : query.order === 'riskiest'
          ? sql`(${inbox.risk}, ${inbox.requestedAt}, ${inbox.id}) > (${place.risk}, ${place.requestedAt}, ${place.id})`
          : sql`(${inbox.requestedAt}, ${inbox.id}) > (${place.requestedAt}, ${place.id})`
    const order = [
      ...(query.order === 'riskiest' ? [asc(inbox.risk)] : []),
      asc(inbox.requestedAt),
      asc(inbox.id),
    ]
    const waits = eq(inbox.pending, true)
    const rows = this.#first(and(waits, eq(inbox.head, true), ...filters, rest), LIMITS.page + 1, ...order)
    const waiting = this.#number(waits)
    return {
      items: this.#counted(rows.slice(0, LIMITS.page)),
      waiting,
      matching: filters.length === 0 ? waiting : this.#number(and(waits, ...filters)),
      more: rows.length > LIMITS.page,
      number: this.news.number,
    }
  }

  /**
   * The identical pending approvals up to the newest one that the operator saw. Later ones must not
   * be answered with them.
   */
  alike(group: string, newest: string): string[] {
    const last = this.#at(newest)
    if (last === undefined) return []
    const wanted = and(
      eq(inbox.group, group),
      eq(inbox.pending, true),
      sql`(${inbox.requestedAt}, ${inbox.id}) <= (${last.requestedAt}, ${last.id})`,
    )
    const rows = this.#db
      .select({ id: inbox.id })
      .from(inbox)
      .where(wanted)
      .orderBy(asc(inbox.requestedAt), asc(inbox.id))
    return rows
      .limit(LIMITS.answers_at_once)
      .all()
      .map(({ id }) => id)
  }

  changes(after: number | null): Changes {
    const latest = this.#latest
    if (after === null) return { items: [], latest }
    const rows = this.#db
      .select({ seq: inbox.changed, approval: inbox.approval })
      .from(inbox)
      .where(gt(inbox.changed, after))
    const page = rows.orderBy(asc(inbox.changed)).limit(LIMITS.page).all()
    return { items: page.map(({ seq, approval }) => ({ seq: seq ?? 0, approval })), latest }
  }

  /**
   * Waits until the change number of an approval differs from `known`, at most `ms`, and returns
   * it.
   */
  async follow(id: string, known: number, ms: number): Promise<number> {
    const number = () =>
      this.#db.select({ n: inbox.changed }).from(inbox).where(eq(inbox.id, id)).get()?.n ?? 0
    if (number() === known) await this.news.about(id, ms)
    return number()
  }

  #first(wanted: SQL | undefined, most: number, ...order: SQL[]): Approval[] {
    const rows = this.#db.select({ approval: inbox.approval }).from(inbox).where(wanted)
    return rows
      .orderBy(...order)
      .limit(most)
      .all()
      .map(({ approval }) => approval)
  }

  /** The heads with the size of each group. */
  #counted(heads: readonly Approval[]): Waiting[] {
    const groups = JSON.stringify(heads.map(({ group }) => group))
    const behind = this.#db
      .select({ group: inbox.group, n: count(), last: max(PLACE) })
      .from(inbox)
      .where(
        and(
          sql`${inbox.group} in (select value from json_each(${groups}))`,
          eq(inbox.head, false),
          eq(inbox.pending, true),
        ),
      )
      .groupBy(inbox.group)
      .all()
    const byGroup = new Map(behind.map((row) => [row.group, row]))
    return heads.map((approval) => {
      const { n = 0, last = null } = byGroup.get(approval.group) ?? {}
      const own = `${approval.requested_at} ${approval.id}`
      return {
        approval,
        alike: 1 + n,
        newest: (last !== null && last > own ? last : own).split(' ')[1] ?? '',
      }
    })
  }

  /** After the head of a group has ended: makes the next approval the head. */
  #promoteNext(group: string): void {
    const behind = and(eq(inbox.group, group), eq(inbox.head, false), eq(inbox.pending, true))
    const next = this.#db
      .select({ id: inbox.id })
      .from(inbox)
      .where(behind)
      .orderBy(asc(inbox.requestedAt))
      .limit(1)
      .get()
    if (next !== undefined) this.#db.update(inbox).set({ head: true }).where(eq(inbox.id, next.id)).run()
  }

  #at(id: string) {
    const { requestedAt, risk } = inbox
    return this.#db.select({ id: inbox.id, requestedAt, risk }).from(inbox).where(eq(inbox.id, id)).get()
  }

  #number(wanted: SQL | undefined): number {
    return this.#db.select({ n: count() }).from(inbox).where(wanted).get()?.n ?? 0
  }

  /**
   * Migrates rows of older versions: an approval without a group becomes its own group, and changes
   * without a number are numbered in the order of their rows.
   */
  #migrateRows(): void {
    const risk = sql`case ${prompt('risk')} when 'critical' then 0 when 'high' then 1 when 'medium' then 2 else 3 end`
    const alone = {
      group: sql`${inbox.id}`,
      head: sql`${inbox.pending}`,
      agent: prompt('agent'),
      tool: prompt('tool'),
      risk,
    }
    this.#db.update(inbox).set(alone).where(isNull(inbox.group)).run()
    this.#db.update(inbox).set({ changed: sql`rowid` }).where(isNull(inbox.changed)).run()
  }
}

function filtersOf({ agent, tool, risk, text }: InboxQuery): SQL[] {
  const equal = {
    agent: eq(inbox.agent, agent),
    tool: eq(inbox.tool, tool),
    risk: eq(inbox.risk, RISKS.indexOf(risk)),
  }
  // The search covers the text that operators see, ignores case, and has no wildcards.
  const found = sql`instr(lower(${shown}), ${text.toLowerCase()}) > 0`
  return [
    ...(agent === '' ? [] : [equal.agent]),
    ...(tool === '' ? [] : [equal.tool]),
    ...(risk === '' ? [] : [equal.risk]),
    ...(text === '' ? [] : [found]),
  ]
}
