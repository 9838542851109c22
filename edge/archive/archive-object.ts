// The archive of sealed runs: one object for each tenant and day. It stores the entry of each object of
// runs as it receives it, and does not read its parts. When the tenant's retention rule no longer
// keeps something of an entry, it asks the object to remove that and to seal itself again.

import { DurableObject } from 'cloudflare:workers'
import { and, asc, eq, gt, isNotNull, lte, sql } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/durable-sqlite'
import migrations from '../../migrations/archive/migrations.js'
import schemas from '../../migrations/archive/schemas.json' with { type: 'json' }
import { LIMITS } from '../../shared/limits.ts'
import { KEPT, type RetentionRule } from '../../shared/wire/retention.ts'
import { type Env, runsObjectNamed, tenantRetention } from '../bindings.ts'
import { type Database, preparedOnce } from '../platform/database.ts'
import { logError } from '../platform/error-log.ts'
import { Tables } from '../platform/object-tables.ts'
import { type EntryPart, openIndex } from './entry.ts'
import { entries, parts } from './tables.ts'

/** The bytes of a row besides its part: digest, keys and its share of a page. */
const ROW_BYTES = 256

/** An object's description of its new entry. */
export type EntryFacts = {
  /** Grows with all that happens in the object (`entries.weight`). */
  readonly weight: number
  /** How many of `KEPT` were removed of the runs that were stored, and the time of their last event. */
  readonly removed: number
  readonly changed: number
  /** All runs were stored: no part is kept from the entry before. */
  readonly isWhole: boolean
}

const p = sql.placeholder
const prepared = preparedOnce((db: Database) => ({
  index: db
    .select({ digest: entries.digest, bytes: entries.index })
    .from(entries)
    .where(and(eq(entries.object, p('object')), isNotNull(entries.index)))
    .prepare(),
  entry: db
    .select({
      id: entries.id,
      weight: entries.weight,
      removed: entries.removed,
      changed: entries.changed,
    })
    .from(entries)
    .where(eq(entries.object, p('object')))
    .prepare(),
  add: db
    .insert(entries)
    .values({ object: p('object') })
    .onConflictDoNothing()
    .prepare(),
  publish: db
    .update(entries)
    .set({
      weight: p('weight'),
      digest: p('digest'),
      index: p('index'),
      removed: p('removed'),
      changed: p('changed'),
      askAgainAt: 0,
    } as never) // drizzle's types lack placeholders here
    .where(eq(entries.object, p('object')))
    .prepare(),
  part: db
    .select({ bytes: parts.bytes })
    .from(parts)
    .where(and(eq(parts.entry, p('entry')), eq(parts.digest, p('digest'))))
    .prepare(),
  digests: db
    .select({ digest: parts.digest, bytes: sql<number>`length(${parts.bytes})` })
    .from(parts)
    .where(eq(parts.entry, p('entry')))
    .prepare(),
  put: db
    .insert(parts)
    .values({ entry: p('entry'), digest: p('digest'), bytes: p('bytes') })
    .onConflictDoNothing()
    .prepare(),
  dropPart: db
    .delete(parts)
    .where(and(eq(parts.entry, p('entry')), eq(parts.digest, p('digest'))))
    .prepare(),
  dropParts: db
    .delete(parts)
    .where(eq(parts.entry, p('entry')))
    .prepare(),
  drop: db
    .delete(entries)
    .where(eq(entries.object, p('object')))
    .prepare(),
  askAgain: db.update(entries).set({ askAgainAt: 0 }).where(gt(entries.askAgainAt, 0)).prepare(),
  any: db.select({ id: entries.id }).from(entries).limit(1).prepare(),
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

  /** Stores parts that the next entry of the object will have. Resolves when they are on disk. */
  async stage(object: string, staged: readonly EntryPart[]): Promise<void> {
    const { tenant, archive } = this.#name
    // Before the first entry, so that the tenant knows each archive that has one.
    if (!this.#tables.exist) await tenantRetention(this.env, tenant).noteArchive(archive)
    this.#tables.write(() => {
      this.#q.add.run({ object })
      const entry = this.#q.entry.get({ object })?.id
      for (const { digest, bytes } of staged) this.#q.put.run({ entry, digest, bytes: Buffer.from(bytes) })
    })
  }

  /** Removes parts that were staged in vain. The entry keeps its own, whichever instance asks. */
  async unstage(object: string): Promise<void> {
    if (!this.#tables.exist) return
    this.#tables.write(() => {
      const [entry, part] = [this.#q.entry.get({ object })?.id, this.#indexOf(object)]
      const index = part && openIndex(object, part)
      if (index?.ok === false) return
      const kept = new Set(index?.value.parts.map(({ digest }) => digest))
      for (const { digest } of this.#q.digests.all({ entry }))
        if (!kept.has(digest)) this.#q.dropPart.run({ entry, digest })
    })
  }

  /**
   * Makes this index, with the parts of these digests, the entry of the object, and removes all its
   * other parts. Returns how many bytes the entry takes. Changes nothing and returns null if a part is
   * missing, or if the present entry is from a later state of the object: then the caller is an earlier
   * instance of the object.
   */
  async publish(
    object: string,
    index: EntryPart,
    { weight, removed, changed, isWhole }: EntryFacts,
    digests: readonly string[],
  ): Promise<number | null> {
    await this.#arm(Date.now() + LIMITS.retention_day_ms)
    return this.#tables.write(() => {
      const entry = this.#q.entry.get({ object })
      if (entry === undefined || (entry.weight ?? 0) > weight) return null
      const others = new Map(
        this.#q.digests.all({ entry: entry.id }).map((part) => [part.digest, part.bytes]),
      )
      let bytes = index.bytes.byteLength + ROW_BYTES
      for (const digest of new Set(digests)) {
        const part = others.get(digest)
        if (part === undefined) return null
        bytes += part + ROW_BYTES
        others.delete(digest)
      }
      for (const digest of others.keys()) this.#q.dropPart.run({ entry: entry.id, digest })
      this.#q.publish.run({
        object,
        weight,
        digest: index.digest,
        index: Buffer.from(index.bytes),
        removed: isWhole ? removed : Math.min(removed, entry.removed),
        changed: isWhole ? changed : Math.max(changed, entry.changed ?? 0),
      })
      return bytes
    })
  }

  /** The index of the object's entry; null if it has none. */
  async index(object: string): Promise<EntryPart | null> {
    return this.#tables.exist ? this.#indexOf(object) : null
  }

  #indexOf(object: string): EntryPart | null {
    const { digest, bytes } = this.#q.index.get({ object }) ?? {}
    return digest == null || bytes == null ? null : { digest, bytes }
  }

  /** The parts of these digests. A missing one is left out. */
  async parts(object: string, digests: readonly string[]): Promise<EntryPart[]> {
    const entry = this.#tables.exist ? this.#q.entry.get({ object })?.id : undefined
    return digests.flatMap((digest) => {
      const bytes = this.#q.part.get({ entry, digest })?.bytes
      return bytes === undefined ? [] : [{ digest, bytes }]
    })
  }

  /** Part of deleting the tenant. The storage goes with the last entry. */
  async drop(object: string): Promise<void> {
    if (!this.#tables.exist) return
    this.#tables.write(() => {
      this.#q.dropParts.run({ entry: this.#q.entry.get({ object })?.id ?? -1 })
      this.#q.drop.run({ object })
    })
    if (this.#q.any.get() !== undefined) return
    await this.ctx.storage.deleteAll()
    this.#tables.forget()
  }

  // ── Retention ──

  /** The tenant's rule or its holds have changed. */
  async ruleChanged(): Promise<void> {
    if (!this.#tables.exist) return
    this.#q.askAgain.run()
    await this.#arm(Date.now() + 1)
  }

  /** Asks objects to remove what is due, and sets the alarm for the next one; for none, if nothing is. */
  override async alarm(): Promise<void> {
    if (!this.#tables.exist) return
    const { tenant } = this.#name
    const force = await tenantRetention(this.env, tenant).inForce()
    if (force === null) return
    const { rule } = force
    const db = drizzle(this.ctx.storage)
    const now = Date.now()
    for (const { object } of dueEntries(db, rule, now)) {
      // First, so that an object that fails is not asked again at once.
      const askAgainAt = now + LIMITS.removal_retry_ms
      db.update(entries).set({ askAgainAt }).where(eq(entries.object, object)).run()
      await runsObjectNamed(this.env, tenant, object).removeExpired().catch(logError)
    }
    const next = nextDue(db, rule, now)
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

/** The first entries of which something is due. An object under hold removes nothing. */
const dueEntries = (db: Database, rule: RetentionRule, now: number) =>
  levels(rule)
    .flatMap(({ removed, keptMs }) =>
      db
        .select({ object: entries.object })
        .from(entries)
        .where(
          and(eq(entries.removed, removed), lte(entries.changed, now - keptMs), lte(entries.askAgainAt, now)),
        )
        .orderBy(asc(entries.changed))
        .limit(LIMITS.removals_at_once)
        .all(),
    )
    .slice(0, LIMITS.removals_at_once)

/** When something of an entry is next due, or an object is asked again; null if nothing ever is. */
function nextDue(db: Database, rule: RetentionRule, now: number): number | null {
  const first = levels(rule).map(({ removed, keptMs }) => {
    const oldest = db
      .select({ changed: entries.changed })
      .from(entries)
      .where(and(eq(entries.removed, removed), isNotNull(entries.changed), lte(entries.askAgainAt, now)))
      .orderBy(asc(entries.changed))
      .limit(1)
      .get()
    return oldest?.changed == null ? null : oldest.changed + keptMs
  })
  const isAsked = and(gt(entries.askAgainAt, 0), gt(entries.askAgainAt, now))
  const again = db
    .select({ at: entries.askAgainAt })
    .from(entries)
    .where(isAsked)
    .orderBy(asc(entries.askAgainAt))
    .limit(1)
    .get()
  const due = [...first, again?.at ?? null].filter((at) => at !== null)
  return due.length === 0 ? null : Math.min(...due)
}
