// The journal of a tenant's upstreams: who accepted which definition of a tool and when, and when a
// tool was quarantined. Without it, nobody could say later what agents and approvers were shown.

import { asc, desc, eq, gt, lte, type SQL } from 'drizzle-orm'
import type { JournalEntry } from '../../shared/evidence/journal.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { UpstreamEntry } from '../../shared/wire/upstreams.ts'
import { UPSTREAM_JOURNAL } from '../log/log-object.ts'
import { entriesAfter, nextEntry, type StoredEntry } from '../platform/chained-journal.ts'
import type { Database } from '../platform/database.ts'
import type { LoggedJournal } from './log-delivery.ts'
import { upstreamJournal as table } from './tables.ts'

export class UpstreamJournal implements LoggedJournal {
  readonly source = UPSTREAM_JOURNAL
  readonly #db: Database

  constructor(db: Database) {
    this.#db = db
  }

  /** Must run in the transaction of the change that it records. */
  append(kind: UpstreamEntry, upstream: string, details: Record<string, unknown>): void {
    const last = this.#db.select().from(table).orderBy(desc(table.seq)).limit(1).get()
    this.#db
      .insert(table)
      .values(nextEntry(last, kind, { upstream, ...details }))
      .run()
  }

  page(after: number): JournalEntry[] {
    const [last] = this.#page(eq(table.seq, after))
    return entriesAfter(last, this.#page(gt(table.seq, after)))
  }

  unlogged(): StoredEntry[] {
    return this.#page(eq(table.logged, false))
  }

  logged(last: number): void {
    this.#db.update(table).set({ logged: true }).where(lte(table.seq, last)).run()
  }

  #page(which: SQL): StoredEntry[] {
    return this.#db.select().from(table).where(which).orderBy(asc(table.seq)).limit(LIMITS.page).all()
  }
}
