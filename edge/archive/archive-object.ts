// The archive of sealed runs: one object for each tenant and day. It stores the entry of an object of
// runs as it gets it, and knows nothing of what is in it.

import { DurableObject } from 'cloudflare:workers'
import { and, asc, eq, sql } from 'drizzle-orm'
import migrations from '../../migrations/archive/migrations.js'
import schemas from '../../migrations/archive/schemas.json' with { type: 'json' }
import type { Env } from '../bindings.ts'
import { type Database, preparedOnce } from '../platform/database.ts'
import { Tables } from '../platform/object-tables.ts'
import type { EntryPart } from './entry.ts'
import { parts } from './tables.ts'

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
  any: db.select({ id: parts.id }).from(parts).limit(1).prepare(),
}))

export class ArchiveObject extends DurableObject<Env> {
  /** An archive without entries has no tables: a new run may ask it, and finds nothing. */
  readonly #tables = new Tables(this.ctx, { migrations, schemas })
  readonly #q = prepared(this.ctx.storage)

  /** Stores the entry of an object, in place of an earlier one. Resolves when it is on disk. */
  async put(run: string, entry: readonly EntryPart[]): Promise<void> {
    this.#tables.write(() => {
      this.#q.drop.run({ run })
      for (const [part, { digest, bytes }] of entry.entries())
        this.#q.put.run({ run, part, digest, bytes: Buffer.from(bytes) })
    })
  }

  /** The entry of an object, in order; empty if it has none. */
  async get(run: string): Promise<EntryPart[]> {
    return this.#tables.exist ? this.#q.ofRun.all({ run }) : []
  }

  /** Part of deleting the tenant. The storage goes with the last entry. */
  async drop(run: string): Promise<void> {
    if (!this.#tables.exist) return
    this.#q.drop.run({ run })
    if (this.#q.any.get() !== undefined) return
    await this.ctx.storage.deleteAll()
    this.#tables.forget()
  }
}
