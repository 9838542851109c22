// The tenant's index of standing answers, so that operators can find them. The truth is in each
// session: an answer that is listed here but gone there covers nothing.

import { and, count, desc, eq, gt, inArray, lte, not } from 'drizzle-orm'
import { failure } from '../../shared/failures.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { Standing } from '../../shared/wire/approvals.ts'
import type { Database } from '../platform/database.ts'
import { standing } from './tables.ts'

export class StandingIndex {
  readonly #db: Database

  constructor(db: Database) {
    this.#db = db
  }

  /** Called before the session stores the answer, so that no standing answer is unlisted. */
  list(entry: Standing, now: number): Result<true> {
    this.#db.delete(standing).where(lte(standing.until, now)).run()
    const held =
      this.#db
        .select({ n: count() })
        .from(standing)
        .where(not(eq(standing.id, entry.id)))
        .get()?.n ?? 0
    if (held >= LIMITS.standing)
      return err(
        failure(
          'limit_reached',
          `the tenant has ${LIMITS.standing} standing answers, the maximum; revoke some first`,
        ),
      )
    const row = { id: entry.id, until: entry.until_ms, standing: entry }
    this.#db.insert(standing).values(row).onConflictDoNothing().run()
    return ok(true)
  }

  all(now: number): Standing[] {
    const rows = this.#db
      .select()
      .from(standing)
      .where(gt(standing.until, now))
      .orderBy(desc(standing.id))
      .all()
    return rows.map(({ standing: entry }) => entry)
  }

  read(id: string, now: number): Standing | undefined {
    return this.#db
      .select()
      .from(standing)
      .where(and(eq(standing.id, id), gt(standing.until, now)))
      .get()?.standing
  }

  unlist(ids: readonly string[]): void {
    this.#db
      .delete(standing)
      .where(inArray(standing.id, [...ids]))
      .run()
  }
}
