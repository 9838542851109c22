// The archive of sealed runs: one object for each tenant and day. It stores the entry of an object of
// runs as it gets it, and knows nothing of what is in it. When the tenant's retention rule no longer
// keeps something of an entry, it asks the object to remove that and to seal itself again.

import { DurableObject } from 'cloudflare:workers'
import { and, asc, eq, lte, sql } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/durable-sqlite'
import migrations from '../../migrations/archive/migrations.js'
import schemas from '../../migrations/archive/schemas.json' with { type: 'json' }
import { LIMITS } from '../../shared/limits.ts'
import { KEPT, type RetentionRule } from '../../shared/wire/retention.ts'
import { type Env, runsObjectNamed, tenantRetention } from '../bindings.ts'
import { type Database, preparedOnce } from '../platform/database.ts'
import { logError } from '../platform/error-log.ts'
import { Tables } from '../platform/object-tables.ts'
import type { EntryPart } from './entry.ts'
import { entries, parts } from './tables.ts'

/** How many of `KEPT` were removed of an entry, and the time of its last event. */
export type EntryAge = { readonly removed: number; readonly changed: number }

const p = sql.placeholder
const prepared = preparedOnce((db: Database) => ({
  ofRun: db
    .select({ digest: parts.digest, bytes: parts.bytes })
    .from(parts)
    .where(eq(parts.run, p('run')))
    .orderBy(asc(parts.part))
    .prepare(),
  put: db
    .insert(parts)
    .values({ run: p('run'), part: p('part'), digest: p('digest'), bytes: p('bytes') })
    .prepare(),
  drop: db
    .delete(parts)
    .where(and(eq(parts.run, p('run'))))
    .prepare(),
  putAge: db
    .insert(entries)
    .values({ run: p('run'), removed: p('removed'), changed: p('changed'), askAgainAt: 0 })
    .onConflictDoUpdate({
      target: entries.run,
      set: { removed: sql`excluded.removed`, changed: sql`excluded.changed`, askAgainAt: 0 },
    })
    .prepare(),
  dropAge: db
    .delete(entries)
    .where(eq(entries.run, p('run')))
    .prepare(),
  any: db.select({ id: parts.id }).from(parts).limit(1).prepare(),
}))

export class ArchiveObject extends DurableObject<Env> {
  /** An archive without entries has no tables: a new run may ask it, and finds nothing. */
  readonly #tables = new Tables(this.ctx, { migrations, schemas })
  readonly #q = prepared(this.ctx.storage)

  get #name(): { tenant: string; archive: string } {
    const [tenant, archive] = this.ctx.id.name?.split('/') ?? []
    if (tenant === undefined || archive === undefined) throw new Error('the archive does not know its name')
    return { tenant, archive }
  }

  /** Stores the entry of an object, in place of an earlier one. Resolves when it is on disk. */
  async put(run: string, entry: readonly EntryPart[], { removed, changed }: EntryAge): Promise<void> {
    const { tenant, archive } = this.#name
    // Before the first entry, so that the tenant knows each archive that has one.
    if (!this.#tables.exist) await tenantRetention(this.env, tenant).noteArchive(archive)
    await this.#arm(Date.now() + LIMITS.retention_day_ms)
    this.ctx.storage.transactionSync(() => {
      try {
        this.#tables.make()
        this.#q.drop.run({ run })
        for (const [part, { digest, bytes }] of entry.entries())
          this.#q.put.run({ run, part, digest, bytes: Buffer.from(bytes) })
        this.#q.putAge.run({ run, removed, changed })
      } catch (thrown) {
        this.#tables.forget()
        throw thrown
      }
    })
  }

  /** The entry of an object, in order; empty if it has none. */
  async get(run: string): Promise<EntryPart[]> {
    return this.#tables.exist ? this.#q.ofRun.all({ run }) : []
  }

  /** Part of deleting the tenant. The storage goes with the last entry. */
  async drop(run: string): Promise<void> {
    if (!this.#tables.exist) return
    this.ctx.storage.transactionSync(() => {
      this.#q.drop.run({ run })
      this.#q.dropAge.run({ run })
    })
    if (this.#q.any.get() !== undefined) return
    await this.ctx.storage.deleteAll()
    this.#tables.forget()
  }

  // ── Retention ──

  /** The tenant's rule or its holds have changed. */
  async ruleChanged(): Promise<void> {
    if (this.#tables.exist) await this.#arm(Date.now() + 1)
  }

  /** Asks objects to remove what is due, and sets the alarm for the next one; for none, if nothing is. */
  override async alarm(): Promise<void> {
    if (!this.#tables.exist) return
    const { tenant } = this.#name
    const force = await tenantRetention(this.env, tenant).inForce()
    if (force === null) return
    const { rule, held } = force
    const db = drizzle(this.ctx.storage)
    const now = Date.now()
    for (const { run } of dueEntries(db, rule, held, now)) {
      // First, so that an object that fails is not asked again at once.
      const askAgainAt = now + LIMITS.removal_retry_ms
      db.update(entries).set({ askAgainAt }).where(eq(entries.run, run)).run()
      await runsObjectNamed(this.env, tenant, run).removeExpired().catch(logError)
    }
    const next = nextDue(db, rule, held, now)
    if (next !== null) await this.#arm(Math.max(next, Date.now() + 1))
  }

  /** Wakes the archive at `due` or earlier. */
  async #arm(due: number): Promise<void> {
    const at = await this.ctx.storage.getAlarm()
    if (at === null || due < at) await this.ctx.storage.setAlarm(due)
  }
}

/** Of each kind: entries of which it is the next to be removed, and for how long it is kept. */
const levels = ({ keep }: RetentionRule): Array<{ removed: number; keptMs: number }> =>
  KEPT.flatMap((kind, removed) => {
    const days = keep[kind]
    return days === null ? [] : [{ removed, keptMs: days * LIMITS.retention_day_ms }]
  })

/** The first entries of which something is due. Nothing of an object under hold is. */
const dueEntries = (db: Database, rule: RetentionRule, held: readonly string[], now: number) =>
  levels(rule)
    .flatMap(({ removed, keptMs }) =>
      db
        .select({ run: entries.run })
        .from(entries)
        .where(
          and(
            eq(entries.removed, removed),
            lte(entries.changed, now - keptMs),
            lte(entries.askAgainAt, now),
            notIn(held),
          ),
        )
        .orderBy(asc(entries.changed))
        .limit(LIMITS.removals_at_once)
        .all(),
    )
    .slice(0, LIMITS.removals_at_once)

/** When something of an entry is next due, or an object is asked again; null if nothing ever is. */
function nextDue(db: Database, rule: RetentionRule, held: readonly string[], now: number): number | null {
  const first = levels(rule).map(({ removed, keptMs }) => {
    const of = and(eq(entries.removed, removed), lte(entries.askAgainAt, now), notIn(held))
    const oldest = db.select().from(entries).where(of).orderBy(asc(entries.changed)).limit(1).get()
    return oldest === undefined ? null : oldest.changed + keptMs
  })
  const isAsked = sql`${entries.askAgainAt} > 0 and ${entries.askAgainAt} > ${now}`
  const again = db.select().from(entries).where(isAsked).orderBy(asc(entries.askAgainAt)).limit(1).get()
  const due = [...first, again?.askAgainAt ?? null].filter((at) => at !== null)
  return due.length === 0 ? null : Math.min(...due)
}

const notIn = (held: readonly string[]) =>
  sql`${entries.run} not in (select value from json_each(${JSON.stringify(held)}))`
