// What the installation has decided about this tenant, and what that bounds: whether it is active, its quota, and how many calls its agents
// have proposed today. It decides nothing about calls.

import { count, eq, sql } from 'drizzle-orm'
import { failure } from '../shared/failures.ts'
import type { Result } from '../shared/result.ts'
import { err, ok } from '../shared/result.ts'
import type { Quota, TenantState, TenantUse } from '../shared/tenants.ts'
import { CALLS_PER_COUNT, DEFAULT_QUOTA } from '../shared/tenants.ts'
import type { Change, Database } from './tables/open.ts'
import { callsCounted, filesSums, meta, operators, workers } from './tables/tenant.ts'

/** `revision` counts the installation's changes. `first`: who administers a tenant that nobody has administered yet. */
export type Order = {
  readonly revision: number
  readonly state: TenantState
  readonly quota: Quota
  readonly first: { readonly name: string; readonly keyHash: string }
}

const DAY_MS = 24 * 3600_000

export class TenancyStore {
  readonly #db: Database
  readonly #change: Change
  #quota: Quota | undefined
  /** Of today: calls that were taken, and those that the stored count already includes. */
  #calls = { day: -1, taken: 0, stored: 0 }

  constructor(db: Database, change: Change) {
    this.#db = db
    this.#change = change
  }

  state(): TenantState {
    return this.#db.select().from(meta).get()?.state ?? 'deleted'
  }

  quota(): Quota {
    this.#quota ??= this.#db.select().from(meta).get()?.quota ?? DEFAULT_QUOTA
    return this.#quota
  }

  /** A message that comes late, behind a newer one, changes nothing. */
  govern({ revision, state, quota, first }: Order): void {
    const row = this.#db.select().from(meta).get()
    if (row === undefined || revision <= row.governed) return
    this.#quota = undefined
    this.#change(() => {
      this.#db.update(meta).set({ state, quota, governed: revision }).run()
      const nobody = this.#db.select().from(operators).limit(1).get() === undefined
      if (state !== 'active' || !nobody) return
      this.#db
        .insert(operators)
        .values({ name: first.name, keyHash: first.keyHash, spec: { roles: ['admin'] }, createdAt: Date.now() })
        .run()
    })
  }

  /**
   * Counts one proposal. The count is stored in advance, for many calls at once, so that a crash may lose some of the quota and never adds
   * to it.
   */
  takeCall(now: number): Result<true> {
    const day = Math.floor(now / DAY_MS)
    if (day !== this.#calls.day) this.#calls = this.#begun(day)
    const calls = this.#calls
    const most = this.quota().calls_per_day
    if (calls.taken >= most)
      return err(failure('calls_quota_exceeded', `the tenant has proposed ${calls.taken} calls today (UTC), and may propose ${most}`))
    calls.taken++
    if (calls.taken > calls.stored) {
      calls.stored = calls.taken + CALLS_PER_COUNT - 1
      const row = { id: 1, day, n: calls.stored }
      this.#db.insert(callsCounted).values(row).onConflictDoUpdate({ target: callsCounted.id, set: row }).run()
    }
    return ok(true)
  }

  #begun(day: number): { day: number; taken: number; stored: number } {
    const row = this.#db.select().from(callsCounted).where(eq(callsCounted.day, day)).get()
    return { day, taken: row?.n ?? 0, stored: row?.n ?? 0 }
  }

  mayEnrol(): Result<true> {
    const [held, most] = [this.#enrolled(), this.quota().workers]
    return held < most ? ok(true) : err(failure('workers_quota_exceeded', `the tenant has ${held} workers enrolled, and may have ${most}`))
  }

  #enrolled(): number {
    return this.#db.select({ n: count() }).from(workers).where(eq(workers.status, 'active')).get()?.n ?? 0
  }

  use(now: number, streams: number): TenantUse {
    const day = Math.floor(now / DAY_MS)
    const calls_today = day === this.#calls.day ? this.#calls.taken : this.#begun(day).taken
    const held = this.#db
      .select({ bytes: sql<number>`coalesce(sum(${filesSums.bytes}), 0)` })
      .from(filesSums)
      .get()
    return { calls_today, files_bytes: held?.bytes ?? 0, workers: this.#enrolled(), streams }
  }
}
