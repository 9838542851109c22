// The archive of sealed runs: one object for each tenant and day. It stores the entry of each object of
// runs as it receives it, and does not read what is in it.

import { DurableObject } from 'cloudflare:workers'
import { and, eq, isNotNull, sql } from 'drizzle-orm'
import migrations from '../../migrations/archive/migrations.js'
import schemas from '../../migrations/archive/schemas.json' with { type: 'json' }
import type { Env } from '../bindings.ts'
import { type Database, preparedOnce } from '../platform/database.ts'
import { Tables } from '../platform/object-tables.ts'
import type { EntryPart } from './entry.ts'
import { entries, parts } from './tables.ts'

/** The bytes of a row besides its part: digest, keys and its share of a page. */
const ROW_BYTES = 256

const p = sql.placeholder
const prepared = preparedOnce((db: Database) => ({
  index: db
    .select({ digest: entries.digest, bytes: entries.index })
    .from(entries)
    .where(and(eq(entries.object, p('object')), isNotNull(entries.index)))
    .prepare(),
  entry: db
    .select({ id: entries.id, weight: entries.weight })
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
    .set({ weight: p('weight'), digest: p('digest'), index: p('index') } as never) // drizzle's types lack placeholders here
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
  any: db.select({ id: entries.id }).from(entries).limit(1).prepare(),
}))

export class ArchiveObject extends DurableObject<Env> {
  /** An archive without entries has no tables: a new run may ask it, and finds nothing. */
  readonly #tables = new Tables(this.ctx, { migrations, schemas })
  readonly #q = prepared(this.ctx.storage)

  /** Stores parts that the next entry of the object will have. Resolves when they are on disk. */
  async stage(object: string, staged: readonly EntryPart[]): Promise<void> {
    this.#tables.write(() => {
      this.#q.add.run({ object })
      const entry = this.#q.entry.get({ object })?.id
      for (const { digest, bytes } of staged) this.#q.put.run({ entry, digest, bytes: Buffer.from(bytes) })
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
    weight: number,
    digests: readonly string[],
  ): Promise<number | null> {
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
      this.#q.publish.run({ object, weight, digest: index.digest, index: Buffer.from(index.bytes) })
      return bytes
    })
  }

  /** The index of the object's entry; null if it has none. */
  async index(object: string): Promise<EntryPart | null> {
    const { digest, bytes } = (this.#tables.exist && this.#q.index.get({ object })) || {}
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
}
