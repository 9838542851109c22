// The standing answers of one session, and which runs have used them, because a revocation must
// reach those runs. Part of the SessionObject.

import { and, eq, gt, inArray, lte } from 'drizzle-orm'
import type { StoredStanding } from '../approvals/standing.ts'
import type { RecordedAnswer } from '../call/lifecycle.ts'
import type { Database } from '../platform/database.ts'
import { standing, standingUses } from './tables.ts'

export class StandingStore {
  readonly #db: Database

  constructor(db: Database) {
    this.#db = db
  }

  /**
   * Saves an answer. It replaces the same operator's answer for the same key. Returns the ids of
   * the answers removed: replaced or expired.
   */
  save({ key, standing: { id, by, until_ms }, answer }: StoredStanding, now: number): string[] {
    const before = and(eq(standing.key, key), eq(standing.by, by))
    const removed = [before, lte(standing.until, now)].flatMap((which) =>
      this.#db.delete(standing).where(which).returning({ id: standing.id }).all(),
    )
    this.#db.insert(standing).values({ id, key, by, until: until_ms, answer }).run()
    return removed.map((row) => row.id)
  }

  /**
   * The answers that apply to this key. The run is recorded as a user before it can act on them.
   */
  answersFor(key: string, run: string, now: number): RecordedAnswer[] {
    const rows = this.#db
      .select()
      .from(standing)
      .where(and(eq(standing.key, key), gt(standing.until, now)))
      .all()
    for (const { id } of rows)
      this.#db.insert(standingUses).values({ standing: id, run }).onConflictDoNothing().run()
    return rows.map(({ answer }) => answer)
  }

  /** The ids that are still in force. */
  stillValid(ids: readonly string[], now: number): string[] {
    return this.#db
      .select({ id: standing.id })
      .from(standing)
      .where(and(inArray(standing.id, [...ids]), gt(standing.until, now)))
      .all()
      .map(({ id }) => id)
  }

  /** The ids of answers with this decision; without one, all ids. */
  idsWith(decision?: RecordedAnswer['decision']): string[] {
    return this.#db
      .select()
      .from(standing)
      .all()
      .filter(({ answer }) => decision === undefined || answer.decision === decision)
      .map(({ id }) => id)
  }

  /** Ends these answers. Their users stay recorded until they have been notified. */
  end(ids: readonly string[]): void {
    this.#db
      .delete(standing)
      .where(inArray(standing.id, [...ids]))
      .run()
  }

  runsUnder(ids: readonly string[]): { standing: string; run: string }[] {
    return this.#db
      .select()
      .from(standingUses)
      .where(inArray(standingUses.standing, [...ids]))
      .all()
  }

  forgetUses(ids: readonly string[]): void {
    this.#db
      .delete(standingUses)
      .where(inArray(standingUses.standing, [...ids]))
      .run()
  }
}
