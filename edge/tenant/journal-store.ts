// A journal of the tenant: hash-chained, and each entry is a leaf of the tenant's log. There is one of
// upstreams (without it, nobody could say later what agents and approvers were shown), and one of
// retention and legal holds.

import { asc, desc, eq, gt, lte, type SQL } from 'drizzle-orm'
import type { JournalEntry } from '../../shared/evidence/journal.ts'
import { LIMITS } from '../../shared/limits.ts'
import { entriesAfter, nextEntry, type StoredEntry } from '../platform/chained-journal.ts'
import type { Database } from '../platform/database.ts'
import type { LoggedJournal } from './log-delivery.ts'
import type { tenantJournal, upstreamJournal } from './tables.ts'

export class Journal<Kind extends string> implements LoggedJournal {
  readonly source: string
  readonly #db: Database
  readonly #table: typeof upstreamJournal

  constructor(db: Database, source: string, table: typeof upstreamJournal | typeof tenantJournal) {
    this.#db = db
    this.source = source
    this.#table = table as typeof upstreamJournal // both have the same columns
  }

  /** Must run in the transaction of the change that it records. */
  append(kind: Kind, body: Record<string, unknown>): void {
    this.#db
      .insert(this.#table)
      .values(nextEntry(this.#last(), kind, body))
      .run()
  }

  /** The number of the last entry. */
  get seq(): number {
    return this.#last()?.seq ?? 0
  }

  page(after: number): JournalEntry[] {
    const [last] = this.#page(eq(this.#table.seq, after))
    return entriesAfter(last, this.#page(gt(this.#table.seq, after)))
  }

  unlogged(): StoredEntry[] {
    return this.#page(eq(this.#table.logged, false))
  }

  logged(last: number): void {
    this.#db.update(this.#table).set({ logged: true }).where(lte(this.#table.seq, last)).run()
  }

  #last(): StoredEntry | undefined {
    return this.#db.select().from(this.#table).orderBy(desc(this.#table.seq)).limit(1).get()
  }

  #page(which: SQL): StoredEntry[] {
    const rows = this.#db.select().from(this.#table).where(which).orderBy(asc(this.#table.seq))
    return rows.limit(LIMITS.page).all()
  }
}
