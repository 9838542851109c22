// One session of one agent, across its runs: what is counted towards caps by session. A call takes its place here before it is decided, one
// after the other, so that two runs can't both be the last. The truth about each call stays with its run, which is asked.

import { DurableObject } from 'cloudflare:workers'
import { and, eq } from 'drizzle-orm'
import migrations from '../migrations/session/migrations.js'
import type { Env } from './env.ts'
import { runObject } from './env.ts'
import { openDatabase } from './tables/open.ts'
import { open, totals } from './tables/session.ts'
import type { Counters, Share } from './usage.ts'
import { countersOf, sum } from './usage.ts'

export type Booking = { place: string; run: string; key: string; tool: string; spent: number }

/** A place that its run knows nothing of is given away after this long; until then it counts as a call. */
const UNKNOWN_MS = 30_000
/** A run that does not answer refuses the call that waits for it (L6). */
const ANSWER_MS = 5_000

type Row = typeof open.$inferSelect

export class SessionObject extends DurableObject<Env> {
  readonly #db = openDatabase(this.ctx, migrations)
  #turn: Promise<unknown> = Promise.resolve()

  /** What was used before this call; from here on it counts for others. */
  async book(booking: Booking): Promise<Counters> {
    return this.#inTurn(async () => {
      const before = await this.#counters(booking.tool, booking)
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
    const asked = await Promise.all([...Map.groupBy(rows, ({ run }) => run)].map(([run, those]) => this.#ask(run, those)))
    const live: Share[] = []
    this.ctx.storage.transactionSync(() => {
      for (const { row, found } of asked.flat()) {
        if (row.run === own?.run && row.key === own.key) continue
        if (found === null ? Date.now() - row.at > UNKNOWN_MS : found.ended) this.#close(row, found?.share)
        else live.push(found?.share ?? { tool: row.tool, calls: 1, denied: 0, time_ms: 0, spent: row.spent })
      }
    })
    return countersOf([...this.#db.select().from(totals).all(), ...live], tool)
  }

  /** What has ended is summed once, with the end of its places. */
  #close({ run, key }: Row, share: Share | undefined): void {
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
    const late = AbortSignal.timeout(ANSWER_MS)
    const shares = await new Promise<Array<{ share: Share; ended: boolean } | null>>((resolve, reject) => {
      late.addEventListener('abort', () => reject(new Error('a run does not answer')))
      runObject(this.env, this.#tenant, run)
        .shares(rows.map(({ key }) => key))
        .then(resolve, reject)
    })
    return rows.map((row, i) => ({ row, found: shares[i] ?? null }))
  }

  get #tenant(): string {
    return (this.ctx.id.name ?? '').split('/')[0] ?? ''
  }
}
