// What stands in one session, and which runs have acted on it: who takes an answer back has to reach them. A part of the SessionObject; it
// asks nobody and decides nothing.

import { and, eq, gt, inArray, lte } from 'drizzle-orm'
import type { Kept } from '../approvals/standing.ts'
import type { Answered } from '../call/lifecycle.ts'
import type { Database } from '../platform/database.ts'
import { standing, standingUses } from './tables.ts'

export class StandingStore {
  readonly #db: Database

  constructor(db: Database) {
    this.#db = db
  }

  /** In the place of what the same operator had said of the same. Answers with the ids of what gave way, or was over. */
  keep({ key, standing: { id, by, until_ms }, answer }: Kept, now: number): string[] {
    const before = and(eq(standing.key, key), eq(standing.by, by))
    const gone = [before, lte(standing.until, now)].flatMap((which) =>
      this.#db.delete(standing).where(which).returning({ id: standing.id }).all(),
    )
    this.#db.insert(standing).values({ id, key, by, until: until_ms, answer }).run()
    return gone.map((row) => row.id)
  }

  /** What stands for this key; the run is noted before it can act on it. */
  said(key: string, run: string, now: number): Answered[] {
    const rows = this.#db
      .select()
      .from(standing)
      .where(and(eq(standing.key, key), gt(standing.until, now)))
      .all()
    for (const { id } of rows)
      this.#db.insert(standingUses).values({ standing: id, run }).onConflictDoNothing().run()
    return rows.map(({ answer }) => answer)
  }

  /** Of these, the ones that still stand. */
  stand(ids: readonly string[], now: number): string[] {
    return this.#db
      .select({ id: standing.id })
      .from(standing)
      .where(and(inArray(standing.id, [...ids]), gt(standing.until, now)))
      .all()
      .map(({ id }) => id)
  }

  /** Those that say this; all of them where nothing is asked for. */
  all(said?: Answered['decision']): string[] {
    return this.#db
      .select()
      .from(standing)
      .all()
      .filter(({ answer }) => said === undefined || answer.decision === said)
      .map(({ id }) => id)
  }

  /** Stands no more. Whoever acted on it stays noted until they were told. */
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

  told(ids: readonly string[]): void {
    this.#db
      .delete(standingUses)
      .where(inArray(standingUses.standing, [...ids]))
      .run()
  }
}
