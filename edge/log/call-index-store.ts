// The lists of a tenant's calls and runs, for operators and agents: ids, states, names and times,
// no content. A copy: the truth is in each run, which reports its changes in batches after their
// commit. Reading a page costs the same however many calls there are.

import { and, desc, eq, gte, inArray, lt, type SQL, sql } from 'drizzle-orm'
import type { SQLiteColumn } from 'drizzle-orm/sqlite-core'
import type { CallState } from '../../shared/evidence/statement.ts'
import { splitId } from '../../shared/ids.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { ListedCall } from '../../shared/wire/calls.ts'
import type { ListedRun } from '../../shared/wire/runs.ts'
import type { Database } from '../platform/database.ts'
import { listedCalls, listedRuns } from './tables.ts'

/** A call as its run reports it, after the entry `seq` of its journal. */
export type CallReport = {
  readonly call: string
  readonly seq: number
  readonly agent: string
  readonly tool: string
  readonly state: string
  readonly createdAt: number
  readonly endedAt: number | null
}
export type RunReport = {
  readonly run: string
  readonly agent: string
  readonly session: string
  readonly channel: string | null
  readonly cancelled: boolean
  readonly createdAt: number
}
/** One report of a run. `run` is null if the list has it as it is. */
export type RunReports = { readonly run: RunReport | null; readonly calls: readonly CallReport[] }

/** `before`: the place above the page. Undefined names do not filter. */
export type RunQuery = {
  readonly agent?: string | undefined
  readonly since?: number | undefined
  readonly before?: number | undefined
  readonly limit: number
}
export type CallQuery = RunQuery & {
  readonly tool?: string | undefined
  readonly state?: CallState | undefined
}
export type ListPage<T> = { items: T[]; next: string | null }

/**
 * Places of one millisecond. A place is a creation time times this, plus a number: exact in a
 * JavaScript number until the year 2248.
 */
const PLACES = 1024

/** These states have few calls, so their index is the shortest. */
const LIVE: ReadonlySet<string> = new Set(['awaiting_approval', 'granted', 'running'])

const p = sql.placeholder

/** The first free place of a time; in a full millisecond, the first one behind all others. */
const freePlace = (table: typeof listedCalls | typeof listedRuns): SQL =>
  sql`case when exists (select 1 from ${table} where ${table.place} = ${p('last')})
    then (select max(${table.place}) + 1 from ${table})
    else coalesce((select max(${table.place}) + 1 from ${table}
      where ${table.place} between ${p('base')} and ${p('last')}), ${p('base')}) end`

const placesOf = (createdAt: number) => ({ base: createdAt * PLACES, last: createdAt * PLACES + PLACES - 1 })

function statements(db: Database) {
  return {
    putCall: db
      .insert(listedCalls)
      .values({
        place: freePlace(listedCalls) as never, // drizzle's types take no expression for a primary key
        call: p('call'),
        seq: p('seq'),
        agent: p('agent'),
        tool: p('tool'),
        state: p('state'),
        createdAt: p('createdAt'),
        endedAt: p('endedAt'),
      })
      .onConflictDoUpdate({
        target: listedCalls.call,
        set: { seq: sql`excluded.seq`, state: sql`excluded.state`, endedAt: sql`excluded.ended_at` },
        setWhere: sql`excluded.seq > ${listedCalls.seq}`,
      })
      .prepare(),
    putRun: db
      .insert(listedRuns)
      .values({
        place: freePlace(listedRuns) as never, // as above
        run: p('run'),
        agent: p('agent'),
        session: p('session'),
        channel: p('channel'),
        cancelled: p('cancelled'),
        createdAt: p('createdAt'),
      })
      .onConflictDoUpdate({ target: listedRuns.run, set: { cancelled: sql`excluded.cancelled` } })
      .prepare(),
  }
}

export class CallIndex {
  readonly #db: Database
  readonly #q: ReturnType<typeof statements>

  constructor(db: Database) {
    this.#db = db
    this.#q = statements(db)
  }

  /** Reports may come twice, and late. The caller opens the transaction. */
  put({ run, calls }: RunReports): void {
    if (run !== null) this.#q.putRun.run({ ...run, ...placesOf(run.createdAt) })
    for (const call of calls) this.#q.putCall.run({ ...call, ...placesOf(call.createdAt) })
  }

  calls({ agent, tool, state, ...query }: CallQuery): ListPage<ListedCall> {
    const filters = [
      ...(state !== undefined && LIVE.has(state) ? [[listedCalls.state, state] as const] : []),
      ...(agent === undefined ? [] : [[listedCalls.agent, agent] as const]),
      ...(tool === undefined ? [] : [[listedCalls.tool, tool] as const]),
      ...(state === undefined || LIVE.has(state) ? [] : [[listedCalls.state, state] as const]),
    ]
    const { rows, next } = this.#page(listedCalls, filters, query)
    const items = rows.map(({ call, state, createdAt, endedAt, ...row }) => ({
      id: call,
      run: splitId(call).run,
      agent: row.agent,
      tool: row.tool,
      state: state as CallState, // a run reports the lifecycle’s states
      created_at_ms: createdAt,
      ...(endedAt === null ? {} : { ended_at_ms: endedAt }),
    }))
    return { items, next }
  }

  runs({ agent, ...query }: RunQuery): ListPage<ListedRun> {
    const filters = agent === undefined ? [] : [[listedRuns.agent, agent] as const]
    const { rows, next } = this.#page(listedRuns, filters, query)
    const items = rows.map(({ run, cancelled, createdAt, agent, session, channel }) => ({
      id: run,
      agent,
      session,
      channel,
      state: cancelled ? ('cancelled' as const) : ('open' as const),
      created_at_ms: createdAt,
    }))
    return { items, next }
  }

  /** Counts the calls that have not ended, and their runs. Reads only these calls. */
  open(): { calls_open: number; runs_open: number } {
    const rows = this.#db
      .select({ call: listedCalls.call })
      .from(listedCalls)
      .where(inArray(listedCalls.state, [...LIVE]))
      .all()
    return { calls_open: rows.length, runs_open: new Set(rows.map(({ call }) => splitId(call).run)).size }
  }

  /**
   * Reads a page by the index of the first filter. Other filters are compared row by row, for at
   * most `LIMITS.list_scan` rows: a page with few matches then ends early, and `next` continues
   * after it.
   */
  #page<T extends typeof listedCalls | typeof listedRuns>(
    table: T,
    [first, ...others]: readonly (readonly [SQLiteColumn, string])[],
    { since = 0, before = Number.MAX_SAFE_INTEGER, limit }: Omit<RunQuery, 'agent'>,
  ): { rows: T['$inferSelect'][]; next: string | null } {
    const { place } = table
    const indexed = [
      ...(first === undefined ? [] : [eq(...first)]),
      gte(place, since * PLACES),
      lt(place, before),
    ]
    const lowest = others.length === 0 ? undefined : this.#placeAt(table, indexed, LIMITS.list_scan - 1)
    const matches = [
      ...indexed,
      ...(lowest === undefined ? [] : [gte(place, lowest)]),
      ...others.map(([column, value]) => sql`+${column} = ${value}`), // the plus keeps SQLite from using this column's index
    ]
    const rows = this.#db
      .select()
      .from(table as typeof listedCalls) // drizzle can't resolve the columns of a generic table
      .where(and(...matches))
      .orderBy(desc(place))
      .limit(limit + 1)
      .all() as T['$inferSelect'][] // as above
    const page = rows.slice(0, limit)
    const end = rows.length > limit ? page.at(-1)?.place : lowest
    return { rows: page, next: end === undefined ? null : String(end) }
  }

  #placeAt(table: typeof listedCalls | typeof listedRuns, where: readonly SQL[], offset: number) {
    const { place } = table
    return this.#db
      .select({ place })
      .from(table as typeof listedCalls) // as above
      .where(and(...where))
      .orderBy(desc(place))
      .limit(1)
      .offset(offset)
      .get()?.place
  }

  // ── Deleting the tenant ──

  /** Removes the runs that the caller names, and returns some of those that are left. */
  runsBut(removed: readonly string[]): string[] {
    this.#db
      .delete(listedRuns)
      .where(inArray(listedRuns.run, [...removed]))
      .run()
    const rows = this.#db.select({ run: listedRuns.run }).from(listedRuns).limit(LIMITS.page).all()
    return rows.map(({ run }) => run)
  }

  ownersOf(runs: readonly string[]): Array<{ agent: string; session: string }> {
    const { agent, session, run } = listedRuns
    return this.#db
      .selectDistinct({ agent, session })
      .from(listedRuns)
      .where(sql`${run} in (select value from json_each(${JSON.stringify(runs)}))`)
      .all()
  }
}
