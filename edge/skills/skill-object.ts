// The storage of one skill in one tenant, shared by all its versions. It enforces the skill's quota
// and has its bytes counted towards the tenant's, in steps, before it stores them; whether a call may
// use a key is checked by the caller (execution/host-storage.ts). The data outlives the skill until
// an operator clears it. Trials run here too, because an object's work
// goes on after a client disconnects, so no slot or turn stays taken.

import { DurableObject } from 'cloudflare:workers'
import { and, asc, desc, eq, gt, gte, lt } from 'drizzle-orm'
import migrations from '../../migrations/skill/migrations.js'
import schemas from '../../migrations/skill/schemas.json' with { type: 'json' }
import { failure } from '../../shared/failures.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { Clearing, SkillStorage } from '../../shared/wire/skill-storage.ts'
import type { TrialResult } from '../../shared/wire/skill-trials.ts'
import type { Env } from '../bindings.ts'
import { tenantObject, tenantSkills } from '../bindings.ts'
import { eraseObject, openDatabase } from '../platform/database.ts'
import type { SlotCaller } from './execution/concurrency-slots.ts'
import { skillSlots, skillTurns } from './execution/scheduler.ts'
import { checkListing, reservationFor, type StorageTotals, sizeOf, totalsAfterSet } from './storage/quota.ts'
import { clearings, entries, usage } from './tables.ts'
import { runTrials, type TrialRequest } from './trial.ts'

type ClearRequest = { readonly tenant: string; readonly skill: string; readonly by: string }

const RETRY_MS = 2_000
const UNREACHABLE = failure('unavailable', 'the tenant’s storage quota could not be checked; try again')
/** Sorts after every key with the same prefix, because no key has a character beyond `z`. */
const AFTER_ALL = '~'

export class SkillObject extends DurableObject<Env> {
  readonly #db = openDatabase(this.ctx, { migrations, schemas })
  /** Changes of the reservation, one at a time, so that the tenant gets the last one last. */
  #reserving: Promise<unknown> = Promise.resolve()
  #releases = false

  // ── For calls of the skill ──

  /** `null`: the key is not set. */
  async get(key: string): Promise<Result<Uint8Array | null>> {
    const row = this.#db.select({ value: entries.value }).from(entries).where(eq(entries.key, key)).get()
    return ok(row === undefined ? null : Uint8Array.from(row.value))
  }

  async set(key: string, value: Uint8Array): Promise<Result<true>> {
    for (;;) {
      const done = this.#setIfReserved(key, value)
      if (!done.ok) return done
      if (done.value === null) break
      const room = await this.#reserve(done.value)
      if (!room.ok) return room
    }
    this.#releaseSoon() // the new value may be smaller
    return ok(true as const)
  }

  /** `null`: done. Otherwise the bytes that have to be reserved first. */
  #setIfReserved(key: string, value: Uint8Array): Result<number | null> {
    return this.ctx.storage.transactionSync(() => {
      const now = this.#usage()
      const after = totalsAfterSet(now, this.#sizeOf(key), key, value)
      if (!after.ok) return after
      const { bytes } = after.value
      if (bytes > now.reserved && bytes > now.bytes) return ok(bytes)
      const row = { key, bytes: sizeOf(key, value), changedAt: Date.now(), value: Buffer.from(value) }
      this.#db.insert(entries).values(row).onConflictDoUpdate({ target: entries.key, set: row }).run()
      this.#saveTotals(after.value)
      return ok(null)
    })
  }

  /** Succeeds even if the key is not set. */
  async delete(key: string): Promise<Result<true>> {
    this.ctx.storage.transactionSync(() => {
      const deleted = this.#db
        .delete(entries)
        .where(eq(entries.key, key))
        .returning({ bytes: entries.bytes })
        .get()
      const all = this.#totals()
      if (deleted !== undefined) this.#saveTotals({ keys: all.keys - 1, bytes: all.bytes - deleted.bytes })
    })
    this.#releaseSoon()
    return ok(true as const)
  }

  async keys(prefix: string): Promise<Result<string[]>> {
    const hasPrefix = and(gte(entries.key, prefix), lt(entries.key, `${prefix}${AFTER_ALL}`))
    const rows = this.#db
      .select({ key: entries.key })
      .from(entries)
      .where(hasPrefix)
      .orderBy(asc(entries.key))
      .limit(LIMITS.skill_keys_listed + 1)
      .all()
    return checkListing(rows.map(({ key }) => key))
  }

  // ── For authors ──

  async try(author: SlotCaller, trial: TrialRequest): Promise<Result<TrialResult[]>> {
    return skillSlots.take(author, 2 * LIMITS.trials_ms, () => runTrials(this.env, trial, skillTurns))
  }

  // ── For operators ──

  async kept(after = ''): Promise<SkillStorage> {
    const { key, bytes, changedAt } = entries
    const rows = this.#db.select({ key, bytes, changed_at_ms: changedAt }).from(entries).where(gt(key, after))
    const { by, at, keys, bytes: cleared } = clearings
    const past = this.#db
      .select({ by, at_ms: at, keys, bytes: cleared })
      .from(clearings)
      .orderBy(desc(clearings.seq))
    return {
      ...this.#totals(),
      items: rows.orderBy(asc(key)).limit(LIMITS.page).all(),
      clearings: past.limit(LIMITS.page).all(),
    }
  }

  /** Deletes all entries and records who did it. Does nothing if the storage is empty. */
  async clear({ tenant, skill, by }: ClearRequest): Promise<Clearing> {
    const [totals, at] = [this.#totals(), Date.now()]
    if (totals.keys === 0) return { by, at_ms: at, ...totals }
    this.ctx.storage.transactionSync(() => {
      this.#db.delete(entries).run()
      this.#saveTotals({ keys: 0, bytes: 0 })
      this.#db
        .insert(clearings)
        .values({ tenant, skill, by, at, ...totals, journalled: false })
        .run()
    })
    void this.ctx.storage.setAlarm(at + RETRY_MS) // in the same commit; it also releases the room
    await this.#reportClearings().catch(() => undefined) // the alarm retries
    return { by, at_ms: at, ...totals }
  }

  override async alarm(): Promise<void> {
    this.#releases = false
    await this.#reportClearings()
      .then(() => this.#release())
      .catch(() => this.ctx.storage.setAlarm(Date.now() + RETRY_MS))
  }

  /**
   * Reports clearings to the tenant's skill journal: in order, at least once; the journal drops
   * repeats.
   */
  async #reportClearings(): Promise<void> {
    const unreported = this.#db
      .select()
      .from(clearings)
      .where(eq(clearings.journalled, false))
      .orderBy(asc(clearings.seq))
    for (const { tenant, skill, seq, by, keys, bytes } of unreported.all()) {
      await tenantSkills(this.env, tenant).cleared(skill, seq, { by, keys, bytes })
      this.#db.update(clearings).set({ journalled: true }).where(eq(clearings.seq, seq)).run()
    }
  }

  // ── The tenant's quota ──

  #reserve(bytes: number): Promise<Result<true>> {
    return this.#inOrder(async () => {
      if (bytes <= this.#usage().reserved) return ok(true)
      const [reserved, name] = [reservationFor(bytes), this.ctx.id.name ?? '']
      const held = await this.#hold(name, reserved).catch(() => err(UNREACHABLE))
      if (held.ok) this.#saveReservation(reserved, name)
      return held
    })
  }

  /** Some time after a deletion, because the skill may store something else instead. */
  #releaseSoon(): void {
    const { bytes, reserved } = this.#usage()
    if (this.#releases || reservationFor(bytes) >= reserved) return
    this.#releases = true
    void this.ctx.storage.setAlarm(Date.now() + RETRY_MS) // in the same commit
  }

  /** Uses less before the tenant counts less. If the report gets lost, the alarm repeats it. */
  #release(): Promise<void> {
    return this.#inOrder(async () => {
      const { bytes, reserved, name } = this.#usage()
      if (name === '') return
      const needed = Math.min(reserved, reservationFor(bytes))
      this.#saveReservation(needed, name)
      await this.#hold(name, needed)
    })
  }

  #hold(name: string, bytes: number): Promise<Result<true>> {
    const [tenant = '', skill = ''] = name.split('/')
    return tenantObject(this.env, tenant).holdSkill(skill, bytes)
  }

  #inOrder<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#reserving.then(work)
    this.#reserving = done.catch(() => undefined)
    return done
  }

  #saveReservation(reserved: number, name: string): void {
    this.#db
      .insert(usage)
      .values({ id: 0, keys: 0, bytes: 0, reserved, name })
      .onConflictDoUpdate({ target: usage.id, set: { reserved, name } })
      .run()
  }

  // ── Sizes and totals ──

  #sizeOf(key: string): number | undefined {
    return this.#db.select({ bytes: entries.bytes }).from(entries).where(eq(entries.key, key)).get()?.bytes
  }

  #usage(): typeof usage.$inferSelect {
    return this.#db.select().from(usage).get() ?? { id: 0, keys: 0, bytes: 0, reserved: 0, name: '' }
  }

  #totals(): StorageTotals {
    const { keys, bytes } = this.#usage()
    return { keys, bytes }
  }

  #saveTotals(totals: StorageTotals): void {
    const row = { id: 0, ...totals }
    this.#db.insert(usage).values(row).onConflictDoUpdate({ target: usage.id, set: row }).run()
  }

  /** Part of deleting the tenant. */
  async erase(): Promise<void> {
    await eraseObject(this.ctx)
  }
}
