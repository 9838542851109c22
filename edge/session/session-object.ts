// One session of one agent, across its runs: the answers that stand in it, and what is counted towards caps by session. A call takes its
// place here before it is decided, one after the other, so that two runs can't both be the last. The truth about each call stays with its
// run, which is asked. The object of an agent that is of no session counts its questions.

import { DurableObject } from 'cloudflare:workers'
import { and, count, eq, gt, lte } from 'drizzle-orm'
import migrations from '../../migrations/session/migrations.js'
import { LIMITS } from '../../shared/limits.ts'
import type { Result } from '../../shared/result.ts'
import type { Kept } from '../approvals/standing.ts'
import type { Env } from '../bindings.ts'
import { runObject, tenantObject } from '../bindings.ts'
import type { Answered } from '../call/lifecycle.ts'
import type { AgentUse, Counters, Usage } from '../call/usage.ts'
import { countersOf, sum } from '../call/usage.ts'
import { eraseObject, openDatabase } from '../platform/database.ts'
import { inGoodTime } from '../platform/deadline.ts'
import { StandingStore } from './standing-store.ts'
import { open, questions, totals } from './tables.ts'

export type Booking = { place: string; run: string; key: string; tool: string; spent: number }

/** A place that its run knows nothing of is given away after this long; until then it counts as a call. */
const UNKNOWN_MS = 30_000
/** A run that does not answer refuses the call that waits for it (L6). */
const ANSWER_MS = 5_000
const HOUR_MS = 3_600_000

type Row = typeof open.$inferSelect
type Shares = Array<{ share: Usage; ended: boolean } | null>

export class SessionObject extends DurableObject<Env> {
  readonly #db = openDatabase(this.ctx, migrations)
  readonly #standing = new StandingStore(this.#db)
  #turn: Promise<unknown> = Promise.resolve()

  /** What was used before this call; from here on it counts for others. */
  async book(booking: Booking): Promise<Counters> {
    return this.#inTurn(async () => {
      const before = await this.#counters(booking.tool, booking)
      const held = this.#db.select({ n: count() }).from(open).get()?.n ?? 0
      if (held >= LIMITS.session_open_calls) throw new Error('too many calls of this session are open')
      this.#db
        .insert(open)
        .values({ ...booking, at: Date.now() })
        .run()
      return before
    })
  }

  /** The same for a dry run, which takes no place. */
  async look(tool: string): Promise<Counters> {
    return this.#inTurn(() => this.#counters(tool))
  }

  async release(place: string): Promise<void> {
    this.#db.delete(open).where(eq(open.place, place)).run()
  }

  // ── Questions of an agent: in the object that is of none of its sessions ──

  /** How often it had people asked within the hour. This call counts from here on, unless it turns out to ask nobody. */
  async mayAsk(place: string): Promise<AgentUse> {
    const now = Date.now()
    return this.ctx.storage.transactionSync(() => {
      this.#db
        .delete(questions)
        .where(lte(questions.at, now - HOUR_MS))
        .run()
      const use = this.#asked(now)
      this.#db.insert(questions).values({ place, at: now }).run()
      return use
    })
  }

  /** The same for a call that takes no place. */
  async asked(): Promise<AgentUse> {
    return this.#asked(Date.now())
  }

  async asksNobody(place: string): Promise<void> {
    this.#db.delete(questions).where(eq(questions.place, place)).run()
  }

  #asked(now: number): AgentUse {
    const within = gt(questions.at, now - HOUR_MS)
    return { asks_hour: this.#db.select({ n: count() }).from(questions).where(within).get()?.n ?? 0 }
  }

  // ── Answers that stand ──

  /** Listed first: nothing stands that nobody can find. */
  async stand(kept: Kept): Promise<Result<true>> {
    const tenant = tenantObject(this.env, this.#tenant)
    const listed = await tenant.listStanding(kept.standing)
    if (!listed.ok) return listed
    const gone = this.ctx.storage.transactionSync(() => this.#standing.keep(kept, Date.now()))
    if (gone.length > 0) await tenant.unlistStanding(gone).catch(() => undefined) // listed still, it covers nothing
    return listed
  }

  async said(key: string, run: string): Promise<Answered[]> {
    return this.ctx.storage.transactionSync(() => this.#standing.said(key, run, Date.now()))
  }

  async stands(ids: readonly string[]): Promise<string[]> {
    return this.#standing.stand(ids, Date.now())
  }

  /**
   * Once this is answered nothing begins under them: they are gone here, and each run that asked for one has been told, so that what it
   * asked before can't be acted on after. If a run does not answer, this is not done; asked again it goes on.
   */
  async revoke(ids: readonly string[]): Promise<void> {
    this.#standing.end(ids)
    const told = Map.groupBy(this.#standing.runsUnder(ids), ({ run }) => run)
    await Promise.all(
      [...told.keys()].map((run) => runObject(this.env, this.#tenant, run).standingWithdrawn(ids)),
    )
    this.#standing.told(ids)
    await tenantObject(this.env, this.#tenant).unlistStanding(ids)
  }

  async reset(said?: Answered['decision']): Promise<number> {
    const ids = this.#standing.all(said)
    if (ids.length > 0) await this.revoke(ids)
    return ids.length
  }

  // ── What is counted ──

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const mine = this.#turn.then(work)
    this.#turn = mine.catch(() => undefined)
    return mine
  }

  async #counters(tool: string, own?: Booking): Promise<Counters> {
    // Two attempts at one call are one call.
    const rows = new Map(
      this.#db
        .select()
        .from(open)
        .all()
        .map((row) => [`${row.run} ${row.key}`, row]),
    ).values()
    const asked = await Promise.all(
      [...Map.groupBy(rows, ({ run }) => run)].map(([run, those]) => this.#ask(run, those)),
    )
    const live: Usage[] = []
    this.ctx.storage.transactionSync(() => {
      for (const { row, found } of asked.flat()) {
        if (row.run === own?.run && row.key === own.key) continue
        if (found === null ? Date.now() - row.at > UNKNOWN_MS : found.ended) this.#close(row, found?.share)
        else
          live.push(
            found?.share ?? { tool: row.tool, calls: 1, denied: 0, time_ms: 0, spent: row.spent, asks: 1 },
          )
      }
    })
    return countersOf([...this.#db.select().from(totals).all(), ...live], tool)
  }

  /** What has ended is summed once, with the end of its places. */
  #close({ run, key }: Row, share: Usage | undefined): void {
    const gone = this.#db
      .delete(open)
      .where(and(eq(open.run, run), eq(open.key, key)))
      .returning({ place: open.place })
      .all()
    if (share === undefined || gone.length === 0) return
    const before = this.#db.select().from(totals).where(eq(totals.tool, share.tool)).get()
    const after = before === undefined ? share : sum(before, share)
    this.#db.insert(totals).values(after).onConflictDoUpdate({ target: totals.tool, set: after }).run()
  }

  async #ask(run: string, rows: readonly Row[]) {
    const keys = rows.map(({ key }) => key)
    const shares = await inGoodTime<Shares>(
      runObject(this.env, this.#tenant, run).shares(keys),
      Date.now() + ANSWER_MS,
    )
    if (shares === undefined) throw new Error('a run does not answer')
    return rows.map((row, i) => ({ row, found: shares[i] ?? null }))
  }

  get #tenant(): string {
    return (this.ctx.id.name ?? '').split('/')[0] ?? ''
  }

  /** Part of deleting the tenant. */
  async erase(): Promise<void> {
    await eraseObject(this.ctx)
  }
}
