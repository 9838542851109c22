// What the console asks of a tenant's inbox: the approvals that wait, filtered, in an order that serves whoever answers them. It reads; the
// mirror itself is the TenantObject's.

import { and, asc, count, eq, type SQL, sql } from 'drizzle-orm'
import { LIMITS } from '../shared/limits.ts'
import type { Approval } from '../shared/wire.ts'
import type { Database } from './tables/open.ts'
import { inbox } from './tables/tenant.ts'

/** An empty text filters nothing. */
export type InboxQuery = { agent: string; tool: string; risk: string; text: string; order: 'oldest' | 'riskiest' }
/** `waiting`: how many wait in all; `matching`: how many of those the filter leaves, of which `items` are the first. */
export type InboxPage = { items: Approval[]; waiting: number; matching: number }

const prompt = (name: string) => sql`json_extract(${inbox.approval}, ${`$.prompt.${name}`})`
const RISK = sql`case ${prompt('risk')} when 'critical' then 0 when 'high' then 1 when 'medium' then 2 else 3 end`

export function pendingPage(db: Database, { agent, tool, risk, text, order }: InboxQuery): InboxPage {
  const conditions: SQL[] = []
  for (const [name, value] of Object.entries({ agent, tool, risk })) if (value !== '') conditions.push(sql`${prompt(name)} = ${value}`)
  // What the operator is shown is what is searched: case does not matter, and nothing in the text is a pattern.
  if (text !== '') conditions.push(sql`instr(lower(${shown}), ${text.toLowerCase()}) > 0`)
  const waits = eq(inbox.pending, true)
  const wanted = and(waits, ...conditions)
  const number = (where: SQL | undefined) => db.select({ n: count() }).from(inbox).where(where).get()?.n ?? 0
  const waiting = number(waits)
  return {
    items: db
      .select()
      .from(inbox)
      .where(wanted)
      .orderBy(...(order === 'riskiest' ? [RISK] : []), asc(inbox.requestedAt))
      .limit(LIMITS.page)
      .all()
      .map(({ approval }) => approval),
    waiting,
    matching: conditions.length === 0 ? waiting : number(wanted),
  }
}

const shown = sql`${prompt('title')} || ' ' || ${prompt('command')} || ' ' || ${prompt('arguments')} || ' ' || ${prompt('reason')}`
