// A tenant's inbox: the mirror of its approvals, listed for the API, and for the console filtered and in an order that serves whoever answers.
// The truth is in each run; nothing is decided here.

import { and, asc, count, desc, eq, type SQL, sql } from 'drizzle-orm'
import { LIMITS } from '../shared/limits.ts'
import type { Approval } from '../shared/wire.ts'
import { FiguresStore } from './figures-store.ts'
import { News } from './news.ts'
import type { Database } from './tables/open.ts'
import { inbox } from './tables/tenant.ts'

/** An empty text filters nothing. */
export type InboxQuery = { agent: string; tool: string; risk: string; text: string; order: 'oldest' | 'riskiest' }
/** `waiting`: how many wait in all; `matching`: how many of those the filter leaves, of which `items` are the first; `number` is that of the last news. */
export type InboxPage = { items: Approval[]; waiting: number; matching: number; number: number }

const prompt = (name: string) => sql`json_extract(${inbox.approval}, ${`$.prompt.${name}`})`
const RISK = sql`case ${prompt('risk')} when 'critical' then 0 when 'high' then 1 when 'medium' then 2 else 3 end`

const shown = sql`${prompt('title')} || ' ' || ${prompt('command')} || ' ' || ${prompt('arguments')} || ' ' || ${prompt('reason')}`

export class InboxStore {
  readonly #db: Database
  readonly news = new News()
  readonly figures: FiguresStore

  constructor(db: Database) {
    this.#db = db
    this.figures = new FiguresStore(db)
  }

  mirror(approvals: readonly Approval[]): void {
    for (const approval of approvals) {
      const row = { id: approval.id, pending: approval.status === 'pending', requestedAt: approval.requested_at, approval }
      const known = this.#db.select({ pending: inbox.pending }).from(inbox).where(eq(inbox.id, row.id)).get()
      if (known?.pending === false) continue // what has ended does not come back, in whatever order news arrive
      this.figures.count(approval, known === undefined)
      this.#db.insert(inbox).values(row).onConflictDoUpdate({ target: inbox.id, set: row }).run()
    }
    this.news.tell()
  }

  list(status: 'pending' | 'ended' | 'all'): Approval[] {
    return this.#first(status === 'all' ? undefined : eq(inbox.pending, status === 'pending'), desc(inbox.requestedAt))
  }

  pending({ agent, tool, risk, text, order }: InboxQuery): InboxPage {
    const conditions: SQL[] = []
    for (const [name, value] of Object.entries({ agent, tool, risk })) if (value !== '') conditions.push(sql`${prompt(name)} = ${value}`)
    // What the operator is shown is what is searched: case does not matter, and nothing in the text is a pattern.
    if (text !== '') conditions.push(sql`instr(lower(${shown}), ${text.toLowerCase()}) > 0`)
    const waits = eq(inbox.pending, true)
    const wanted = and(waits, ...conditions)
    const waiting = this.#number(waits)
    return {
      items: this.#first(wanted, ...(order === 'riskiest' ? [RISK] : []), asc(inbox.requestedAt)),
      waiting,
      matching: conditions.length === 0 ? waiting : this.#number(wanted),
      number: this.news.number,
    }
  }

  #first(wanted: SQL | undefined, ...order: SQL[]): Approval[] {
    const rows = this.#db
      .select()
      .from(inbox)
      .where(wanted)
      .orderBy(...order)
      .limit(LIMITS.page)
      .all()
    return rows.map(({ approval }) => approval)
  }

  #number(wanted: SQL | undefined): number {
    return this.#db.select({ n: count() }).from(inbox).where(wanted).get()?.n ?? 0
  }
}
