// One session of one agent, across its runs: standing answers, and usage that counts towards caps
// per session. A call reserves its usage here before it is decided, one call at a time, so that two
// runs can't both take the last of a cap. The runs hold the truth about their calls, and are asked
// for it. One more object per agent, which belongs to no session, counts the agent's questions. An
// object that was only read stores nothing, and dry runs read only objects that store something.

import { DurableObject } from 'cloudflare:workers'
import { and, count, eq, gt, lte } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/durable-sqlite'
import migrations from '../../migrations/session/migrations.js'
import schemas from '../../migrations/session/schemas.json' with { type: 'json' }
import { LIMITS } from '../../shared/limits.ts'
import type { Result } from '../../shared/result.ts'
import type { StoredStanding } from '../approvals/standing.ts'
import type { Env } from '../bindings.ts'
import { logObject, runObject, tenantObject } from '../bindings.ts'
import type { RecordedAnswer } from '../call/lifecycle.ts'
import type { AgentUse, Counters, Usage } from '../call/usage.ts'
import { countersOf, sum } from '../call/usage.ts'
import { isDeleted } from '../directory/directory.ts'
import { EMPTY_FILE_BYTES, eraseObject } from '../platform/database.ts'
import { withDeadline } from '../platform/deadline.ts'
import { Tables } from '../platform/object-tables.ts'
import { StandingStore } from './standing-store.ts'
import { openCalls, questions, totals } from './tables.ts'

export type Booking = { place: string; run: string; key: string; tool: string; spent: number }

/** A reservation that its run does not know counts as a call for this long, and is then dropped. */
const UNKNOWN_MS = 30_000
/** If a run does not answer in time, the call that waits for it is refused (L6). */
const ANSWER_MS = 5_000
const HOUR_MS = 3_600_000

type OpenCallRow = typeof openCalls.$inferSelect
type Shares = Array<{ share: Usage; ended: boolean } | null>

export class SessionObject extends DurableObject<Env> {
  readonly #tables = new Tables(this.ctx, { migrations, schemas })
  readonly #db = drizzle(this.ctx.storage)
  readonly #standing = new StandingStore(this.#db)
  /** The end of the queue of operations that run one at a time. */
  #last: Promise<unknown> = Promise.resolve()
  /** The size that this instance of the object last reported. */
  #reported = 0

  /**
   * Reserves a call's usage, and returns the usage before it. From here on the call counts for
   * others.
   */
  async book(booking: Booking): Promise<Counters> {
    return this.#inTurn(async () => {
      const before = await this.#counters(booking.tool, booking)
      this.#tables.write(() => {
        const openCount = this.#db.select({ n: count() }).from(openCalls).get()?.n ?? 0
        if (openCount >= LIMITS.session_open_calls) throw new Error('the session has too many open calls')
        this.#db
          .insert(openCalls)
          .values({ ...booking, at: Date.now() })
          .run()
      })
      this.#reportSize()
      return before
    })
  }

  /** The usage, for a dry run, which reserves nothing. */
  async look(tool: string): Promise<Counters> {
    return this.#inTurn(() => this.#counters(tool))
  }

  async release(place: string): Promise<void> {
    if (!this.#tables.exist) return
    this.#db.delete(openCalls).where(eq(openCalls.place, place)).run()
  }

  // ── Questions of an agent, in the object that belongs to no session ──

  /**
   * Reserves a question, and returns how many the agent caused within the last hour. The call
   * counts from here on, unless the reservation is released.
   */
  async reserveQuestion(place: string): Promise<AgentUse> {
    const now = Date.now()
    const use = this.#tables.write(() => {
      this.#db
        .delete(questions)
        .where(lte(questions.at, now - HOUR_MS))
        .run()
      const use = this.#questionsAt(now)
      this.#db.insert(questions).values({ place, at: now }).run()
      return use
    })
    this.#reportSize()
    return use
  }

  /** The number of questions, for a call that reserves none. */
  async asked(): Promise<AgentUse> {
    this.#reportSize()
    return this.#questionsAt(Date.now())
  }

  async releaseQuestion(place: string): Promise<void> {
    if (!this.#tables.exist) return
    this.#db.delete(questions).where(eq(questions.place, place)).run()
  }

  #questionsAt(now: number): AgentUse {
    if (!this.#tables.exist) return { asks_hour: 0 }
    const within = gt(questions.at, now - HOUR_MS)
    return { asks_hour: this.#db.select({ n: count() }).from(questions).where(within).get()?.n ?? 0 }
  }

  // ── Standing answers ──

  /** Lists it in the tenant's index before storing it, so that no standing answer is unlisted. */
  async addStanding(kept: StoredStanding): Promise<Result<true>> {
    const tenant = tenantObject(this.env, this.#tenant)
    const listed = await tenant.listStanding(kept.standing)
    if (!listed.ok) return listed
    const removed = this.#tables.write(() => this.#standing.save(kept, Date.now()))
    this.#reportSize()
    // If this fails, a stale entry stays in the index, which covers nothing.
    if (removed.length > 0) await tenant.unlistStanding(removed).catch(() => undefined)
    return listed
  }

  async standingAnswers(key: string, run: string): Promise<RecordedAnswer[]> {
    this.#reportSize()
    if (!this.#tables.exist) return []
    return this.ctx.storage.transactionSync(() => this.#standing.answersFor(key, run, Date.now()))
  }

  async stillStanding(ids: readonly string[]): Promise<string[]> {
    return this.#tables.exist ? this.#standing.stillValid(ids, Date.now()) : []
  }

  /**
   * Ends standing answers. When this returns, no further call begins under them: they are deleted
   * here, and every run that read one has been notified. If a run does not answer, this fails;
   * calling it again continues.
   */
  async revoke(ids: readonly string[]): Promise<void> {
    if (this.#tables.exist) await this.#end(ids)
    await tenantObject(this.env, this.#tenant).unlistStanding(ids)
  }

  async #end(ids: readonly string[]): Promise<void> {
    this.#standing.end(ids)
    const users = Map.groupBy(this.#standing.runsUnder(ids), ({ run }) => run)
    await Promise.all(
      [...users.keys()].map((run) => runObject(this.env, this.#tenant, run).standingWithdrawn(ids)),
    )
    this.#standing.forgetUses(ids)
  }

  async reset(decision?: RecordedAnswer['decision']): Promise<number> {
    const ids = this.#tables.exist ? this.#standing.idsWith(decision) : []
    if (ids.length > 0) await this.revoke(ids)
    return ids.length
  }

  // ── Usage ──

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const mine = this.#last.then(work)
    this.#last = mine.catch(() => undefined)
    return mine
  }

  async #counters(tool: string, own?: Booking): Promise<Counters> {
    if (!this.#tables.exist) return countersOf([], tool)
    // Several attempts at the same call count once.
    const rows = new Map(
      this.#db
        .select()
        .from(openCalls)
        .all()
        .map((row) => [`${row.run} ${row.key}`, row]),
    ).values()
    const answers = await Promise.all(
      [...Map.groupBy(rows, ({ run }) => run)].map(([run, calls]) => this.#askRun(run, calls)),
    )
    const live: Usage[] = []
    this.ctx.storage.transactionSync(() => {
      for (const { row, found } of answers.flat()) {
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

  /** Adds an ended call to the totals, once, and removes its reservations. */
  #close({ run, key }: OpenCallRow, share: Usage | undefined): void {
    const deleted = this.#db
      .delete(openCalls)
      .where(and(eq(openCalls.run, run), eq(openCalls.key, key)))
      .returning({ place: openCalls.place })
      .all()
    if (share === undefined || deleted.length === 0) return
    const before = this.#db.select().from(totals).where(eq(totals.tool, share.tool)).get()
    const after = before === undefined ? share : sum(before, share)
    this.#db.insert(totals).values(after).onConflictDoUpdate({ target: totals.tool, set: after }).run()
  }

  async #askRun(run: string, rows: readonly OpenCallRow[]) {
    const keys = rows.map(({ key }) => key)
    const shares = await withDeadline<Shares>(
      runObject(this.env, this.#tenant, run).shares(keys),
      Date.now() + ANSWER_MS,
    )
    if (shares === undefined) throw new Error('a run did not answer in time')
    return rows.map((row, i) => ({ row, found: shares[i] ?? null }))
  }

  // ── The tenant's quota of storage ──

  /**
   * Reports how much the object stores. The answer does not wait for it. If a report gets lost, a later
   * request repeats it. Every object with a file reports, because dry runs ask only those that have.
   */
  #reportSize(): void {
    const bytes = Math.max(this.ctx.storage.sql.databaseSize, EMPTY_FILE_BYTES)
    if (bytes === this.#reported) return
    this.#reported = bytes
    const sent = this.#sendSize(bytes).catch(() => {
      this.#reported = 0
    })
    this.ctx.waitUntil(sent)
  }

  async #sendSize(live: number): Promise<void> {
    // A report that comes after the tenant was erased would make its log again.
    if (await isDeleted(this.env, this.#tenant)) return
    const object = (this.ctx.id.name ?? '').slice(this.#tenant.length + 1)
    await logObject(this.env, this.#tenant).reportSize({ object, live })
  }

  get #tenant(): string {
    return (this.ctx.id.name ?? '').split('/')[0] ?? ''
  }

  /** Part of deleting the tenant. */
  async erase(): Promise<void> {
    await eraseObject(this.ctx)
  }
}
