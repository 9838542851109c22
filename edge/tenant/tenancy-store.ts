// Stores what the installation has decided about this tenant (whether it is active, and its quota)
// and counts the calls that its agents have proposed today. It decides nothing about single calls.

import { count, eq } from 'drizzle-orm'
import { type Failure, failure } from '../../shared/failures.ts'
import { splitId } from '../../shared/ids.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { Quota, TenantState, TenantUse } from '../../shared/wire/tenants.ts'
import { CALLS_PER_COUNT, DEFAULT_QUOTA, withChange } from '../../shared/wire/tenants.ts'
import { DEFAULT_TENANT } from '../bindings.ts'
import type { Change, Database } from '../platform/database.ts'
import {
  agents,
  callsCounted,
  filesHeld,
  inbox,
  meta,
  operators,
  skills,
  standing,
  workers,
} from './tables.ts'

/**
 * `revision` counts the installation's changes. `first`: the operator of a tenant that has no
 * operator yet.
 */
export type InstallationOrder = {
  readonly revision: number
  readonly state: TenantState
  readonly quota: Quota
  readonly first: { readonly name: string; readonly keyHash: string }
}

export type ObjectNames = Readonly<
  Record<'runs' | 'agents' | 'skills' | 'pools' | 'workers', readonly string[]>
>

const DAY_MS = 24 * 3600_000
/** Calls are counted in advance only while they come faster than one in this time. */
const SPARSE_MS = 1_000

const CLOCKS_AHEAD_MS = 3600_000

const spent = (taken: number, most: number): Failure =>
  failure(
    'calls_quota_exceeded',
    `the tenant has proposed ${taken} calls today (UTC), and may propose at most ${most}`,
  )

export class TenancyStore {
  readonly #db: Database
  readonly #change: Change
  #quota: Quota | undefined
  /** Of today: calls accepted so far, and calls that the stored count already includes. */
  #calls = { day: -1, taken: 0, stored: 0 }
  /**
   * The last block that was counted in advance: how many calls, when, and whether a timer is set to
   * take back the rest.
   */
  #block = { size: 1, at: 0, timer: false }

  constructor(db: Database, change: Change) {
    this.#db = db
    this.#change = change
  }

  /** The initial row; the default tenant gets the operator whose key set-up made. */
  initialize(tenant: string, rootHash: string, now: number): void {
    const isFirst = tenant === DEFAULT_TENANT
    // Any other tenant becomes active by order of the installation. Versions start at the current
    // time, after all versions of an object that was erased.
    this.#db
      .insert(meta)
      .values({
        id: 1,
        version: now,
        createdAt: now,
        state: isFirst ? 'active' : 'deleted',
        runsShareSince: 0,
      })
      .run()
    if (!isFirst || rootHash === '') return
    this.#db
      .insert(operators)
      .values({ name: 'root', keyHash: rootHash, spec: { roles: ['admin'] }, createdAt: now })
      .run()
  }

  /**
   * An earlier version of the edge gave each run an object to itself, and a key that it received
   * must find its run there, even if the clock of its client is ahead.
   */
  runsShareSince(now: number): number {
    const stored = this.#db.select().from(meta).get()?.runsShareSince ?? null
    if (stored !== null) return stored
    const since = now + CLOCKS_AHEAD_MS
    this.#db.update(meta).set({ runsShareSince: since }).run()
    return since
  }

  state(): TenantState {
    return this.#db.select().from(meta).get()?.state ?? 'deleted'
  }

  quota(): Quota {
    // A quota that an earlier edge stored gets the defaults of what it lacks.
    this.#quota ??= withChange(DEFAULT_QUOTA, this.#db.select().from(meta).get()?.quota ?? {})
    return this.#quota
  }

  /** The quota, if it is in memory. */
  get knownQuota(): Quota | undefined {
    return this.#quota
  }

  /** A message that arrives after a newer one changes nothing. */
  govern({ revision, state, quota, first }: InstallationOrder): void {
    const row = this.#db.select().from(meta).get()
    if (row === undefined || revision <= row.governed) return
    if (state !== 'active') this.#takeBack() // an erased object must not write later
    this.#quota = undefined
    this.#change(() => {
      this.#db.update(meta).set({ state, quota, governed: revision }).run()
      const nobody = this.#db.select().from(operators).limit(1).get() === undefined
      if (state !== 'active' || !nobody) return
      this.#db
        .insert(operators)
        .values({
          name: first.name,
          keyHash: first.keyHash,
          spec: { roles: ['admin'] },
          createdAt: Date.now(),
        })
        .run()
    })
  }

  /**
   * Counts one proposal. While calls arrive fast, the stored count runs ahead in growing blocks, so
   * that not every call needs a write; a second without a call takes the rest of the block back. A
   * crash may lose part of the quota but never adds to it, and an idle object that is evicted loses
   * none.
   */
  takeCall(now: number): Result<true> {
    const day = Math.floor(now / DAY_MS)
    if (day !== this.#calls.day) this.#calls = this.#begun(day)
    const { taken, stored } = this.#calls
    const { calls_per_day: most } = this.quota()
    if (taken >= stored && taken < most) {
      const { size, at } = this.#block
      const largest = Math.max(1, Math.floor(Math.min(most / 100, CALLS_PER_COUNT)))
      const isFast = now - at < SPARSE_MS * size
      this.#block.size = isFast ? Math.min(2 * size, largest) : 1
      this.#block.at = now
      this.#store(Math.min(taken + this.#block.size, most))
    }
    const counted = this.takeStoredCall(now) ?? err(spent(taken, most))
    if (this.#calls.taken < this.#calls.stored) this.#watch()
    return counted
  }

  /**
   * Counts without touching storage, which requests of other objects may not do; `null` if storage
   * is needed.
   */
  takeStoredCall(now: number): Result<true> | null {
    const calls = this.#calls
    if (this.#quota === undefined || calls.day !== Math.floor(now / DAY_MS)) return null
    const { calls_per_day: most } = this.#quota
    if (calls.taken >= most) return err(spent(calls.taken, most))
    if (calls.taken >= calls.stored) return null
    calls.taken++
    return ok(true)
  }

  #store(n: number): void {
    const row = { id: 1, day: this.#calls.day, n }
    this.#db.insert(callsCounted).values(row).onConflictDoUpdate({ target: callsCounted.id, set: row }).run()
    this.#calls.stored = n
  }

  /** The timer fires before the runtime evicts an idle object. */
  #watch(): void {
    if (this.#block.timer) return
    this.#block.timer = true
    const { day, taken } = this.#calls
    setTimeout(() => {
      this.#block.timer = false
      if (this.#calls.day === day && this.#calls.taken === taken) this.#takeBack()
      else if (this.#calls.taken < this.#calls.stored) this.#watch()
    }, SPARSE_MS)
  }

  #takeBack(): void {
    if (this.#calls.taken < this.#calls.stored) this.#store(this.#calls.taken)
  }

  #begun(day: number): { day: number; taken: number; stored: number } {
    const row = this.#db.select().from(callsCounted).where(eq(callsCounted.day, day)).get()
    return { day, taken: row?.n ?? 0, stored: row?.n ?? 0 }
  }

  /** The names of this tenant’s objects, as far as its stored rows mention them. */
  objectNames(): ObjectNames {
    const names = (rows: readonly { name: string }[]): string[] => rows.map(({ name }) => name)
    const approvals = [
      ...this.#db.select({ id: inbox.id }).from(inbox).all(),
      ...this.#db
        .select({ standing: standing.standing })
        .from(standing)
        .all()
        .map((row) => ({ id: row.standing.approval })),
    ]
    const held = this.#db.select({ run: filesHeld.run }).from(filesHeld).all()
    const members = this.#db.select().from(agents).all()
    const hosts = this.#db.select().from(workers).all()
    return {
      runs: [...new Set([...approvals.map(({ id }) => splitId(id).run), ...held.map(({ run }) => run)])],
      agents: names(members),
      skills: [
        ...new Set(
          this.#db
            .select({ id: skills.id })
            .from(skills)
            .all()
            .map(({ id }) => id),
        ),
      ],
      pools: [
        ...new Set([
          'default',
          ...members.map(({ spec }) => spec.pool ?? 'default'),
          ...hosts.map(({ pool }) => pool),
        ]),
      ],
      workers: hosts.map(({ id }) => id),
    }
  }

  mayEnrol(): Result<true> {
    const [held, most] = [this.#enrolled(), this.quota().workers]
    return held < most
      ? ok(true)
      : err(
          failure(
            'workers_quota_exceeded',
            `the tenant has ${held} workers enrolled, and may have at most ${most}`,
          ),
        )
  }

  #enrolled(): number {
    return this.#db.select({ n: count() }).from(workers).where(eq(workers.status, 'active')).get()?.n ?? 0
  }

  use(now: number): Pick<TenantUse, 'calls_today' | 'workers'> {
    const day = Math.floor(now / DAY_MS)
    const calls_today = day === this.#calls.day ? this.#calls.taken : this.#begun(day).taken
    return { calls_today, workers: this.#enrolled() }
  }
}
