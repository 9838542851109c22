// What one skill keeps from call to call: keys and values of all its versions, and of no other skill or tenant. It bounds them, and checks
// no grant: which of them a call may use is judged by whoever calls for it. It outlives the skill, until an operator clears it. And it is where
// a skill is tried: what an object does goes on when whoever asked has gone, so nobody takes a place or a turn with them.

import { DurableObject } from 'cloudflare:workers'
import { and, asc, desc, eq, gt, gte, lt } from 'drizzle-orm'
import migrations from '../migrations/skill/migrations.js'
import { LIMITS } from '../shared/limits.ts'
import type { Result } from '../shared/result.ts'
import { ok } from '../shared/result.ts'
import type { Clearing, SkillStorage } from '../shared/skill-storage.ts'
import type { Tried } from '../shared/skill-trials.ts'
import type { Env } from './env.ts'
import { tenantSkills } from './env.ts'
import { placesOfSkills, turnsOfSkills } from './skills/execution/scheduler.ts'
import { afterSetting, listed, type Sums, sizeOf } from './skills/kept-bounds.ts'
import type { Caller } from './skills/places.ts'
import { type Asked, tried } from './skills/trial.ts'
import { eraseObject, openDatabase } from './tables/open.ts'
import { clearings, entries, usage } from './tables/skill.ts'

type Cleared = { readonly tenant: string; readonly skill: string; readonly by: string }

const RETRY_MS = 2_000
/** Behind all that begins alike: no key has a character beyond `z`. */
const END = '~'

export class SkillObject extends DurableObject<Env> {
  readonly #db = openDatabase(this.ctx, migrations)

  // ── Calls of the skill ──

  /** `null`: there is none. */
  async get(key: string): Promise<Result<Uint8Array | null>> {
    const row = this.#db.select({ value: entries.value }).from(entries).where(eq(entries.key, key)).get()
    return ok(row === undefined ? null : Uint8Array.from(row.value))
  }

  async set(key: string, value: Uint8Array): Promise<Result<true>> {
    return this.ctx.storage.transactionSync(() => {
      const after = afterSetting(this.#sums(), this.#sizeOf(key), key, value)
      if (!after.ok) return after
      const row = { key, bytes: sizeOf(key, value), changedAt: Date.now(), value: Buffer.from(value) }
      this.#db.insert(entries).values(row).onConflictDoUpdate({ target: entries.key, set: row }).run()
      this.#sum(after.value)
      return ok(true as const)
    })
  }

  /** Done too where there was none. */
  async delete(key: string): Promise<Result<true>> {
    return this.ctx.storage.transactionSync(() => {
      const gone = this.#db.delete(entries).where(eq(entries.key, key)).returning({ bytes: entries.bytes }).get()
      const all = this.#sums()
      if (gone !== undefined) this.#sum({ keys: all.keys - 1, bytes: all.bytes - gone.bytes })
      return ok(true as const)
    })
  }

  async keys(beginning: string): Promise<Result<string[]>> {
    const those = and(gte(entries.key, beginning), lt(entries.key, `${beginning}${END}`))
    const rows = this.#db
      .select({ key: entries.key })
      .from(entries)
      .where(those)
      .orderBy(asc(entries.key))
      .limit(LIMITS.skill_keys_listed + 1)
      .all()
    return listed(rows.map(({ key }) => key))
  }

  // ── Authors ──

  async try(author: Caller, trial: Asked): Promise<Result<Tried[]>> {
    return placesOfSkills.take(author, 2 * LIMITS.trials_ms, () => tried(this.env, trial, turnsOfSkills))
  }

  // ── Operators ──

  async kept(after = ''): Promise<SkillStorage> {
    const { key, bytes, changedAt } = entries
    const rows = this.#db.select({ key, bytes, changed_at_ms: changedAt }).from(entries).where(gt(key, after))
    const { by, at, keys, bytes: cleared } = clearings
    const past = this.#db.select({ by, at_ms: at, keys, bytes: cleared }).from(clearings).orderBy(desc(clearings.seq))
    return { ...this.#sums(), items: rows.orderBy(asc(key)).limit(LIMITS.page).all(), clearings: past.limit(LIMITS.page).all() }
  }

  /** What a call sets from then on is kept again. Where there was nothing, nothing was done. */
  async clear({ tenant, skill, by }: Cleared): Promise<Clearing> {
    const [sums, at] = [this.#sums(), Date.now()]
    if (sums.keys === 0) return { by, at_ms: at, ...sums }
    this.ctx.storage.transactionSync(() => {
      this.#db.delete(entries).run()
      this.#sum({ keys: 0, bytes: 0 })
      this.#db
        .insert(clearings)
        .values({ tenant, skill, by, at, ...sums, journalled: false })
        .run()
    })
    void this.ctx.storage.setAlarm(at + RETRY_MS) // in the same commit
    await this.#tell().catch(() => undefined) // or else when it rings
    return { by, at_ms: at, ...sums }
  }

  override async alarm(): Promise<void> {
    await this.#tell().catch(() => this.ctx.storage.setAlarm(Date.now() + RETRY_MS))
  }

  /** The tenant's journal of skills: at least once, in order; it takes each clearing once. */
  async #tell(): Promise<void> {
    const untold = this.#db.select().from(clearings).where(eq(clearings.journalled, false)).orderBy(asc(clearings.seq))
    for (const { tenant, skill, seq, by, keys, bytes } of untold.all()) {
      await tenantSkills(this.env, tenant).cleared(skill, seq, { by, keys, bytes })
      this.#db.update(clearings).set({ journalled: true }).where(eq(clearings.seq, seq)).run()
    }
  }

  // ── How much it is ──

  #sizeOf(key: string): number | undefined {
    return this.#db.select({ bytes: entries.bytes }).from(entries).where(eq(entries.key, key)).get()?.bytes
  }

  #sums(): Sums {
    const { keys, bytes } = usage
    return this.#db.select({ keys, bytes }).from(usage).get() ?? { keys: 0, bytes: 0 }
  }

  #sum(sums: Sums): void {
    const row = { id: 0, ...sums }
    this.#db.insert(usage).values(row).onConflictDoUpdate({ target: usage.id, set: row }).run()
  }

  /** Part of deleting the tenant. */
  async erase(): Promise<void> {
    await eraseObject(this.ctx)
  }
}
