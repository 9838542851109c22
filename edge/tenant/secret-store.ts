// A tenant's sealed secrets, as a part of the TenantObject, so that the next claim sees a removal.
// It seals values and never opens one.

import { asc, count, eq, lte } from 'drizzle-orm'
import { failure } from '../../shared/failures.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { Secret, SecretSpec } from '../../shared/wire/secrets.ts'
import { sealedKeyOf } from '../export/target.ts'
import type { Database } from '../platform/database.ts'
import type { SealedSecret, Sealing } from '../secrets/sealing.ts'
import type { HeldSecret } from '../secrets/vault.ts'
import type { RecordedChange } from './journal-store.ts'
import { exportTarget, formerSecrets, secrets } from './tables.ts'

export class SecretStore {
  readonly #db: Database
  readonly #record: RecordedChange

  constructor(db: Database, record: RecordedChange) {
    this.#db = db
    this.#record = record
  }

  put(sealing: Sealing, name: string, { value, tools, hosts }: SecretSpec, by: string): Result<Secret> {
    const before = this.#db.select().from(secrets).where(eq(secrets.name, name)).get()
    const held = this.#db.select({ n: count() }).from(secrets).get()?.n ?? 0
    if (before === undefined && held >= LIMITS.secrets)
      return err(failure('limit_reached', `a tenant can have at most ${LIMITS.secrets} secrets`))
    const version = (before?.version ?? 0) + 1
    const row = {
      name,
      version,
      sealed: sealing.seal(name, version, value),
      tools,
      hosts: hosts ?? null,
      by,
      at: Date.now(),
    }
    this.#record(['secret.put', by, { secret: name, version, tools, hosts: row.hosts }], () => {
      if (before !== undefined) this.#keepFormer(before)
      this.#db.insert(secrets).values(row).onConflictDoUpdate({ target: secrets.name, set: row }).run()
    })
    return ok(viewOf(row))
  }

  remove(name: string, by: string): Result<{ done: true }> {
    const before = this.#db.select().from(secrets).where(eq(secrets.name, name)).get()
    if (before === undefined) return err(failure('not_found', `no secret \`${name}\``))
    this.#record(['secret.removed', by, { secret: name, version: before.version }], () => {
      this.#keepFormer(before)
      this.#db.delete(secrets).where(eq(secrets.name, name)).run()
    })
    return ok({ done: true })
  }

  list(): Secret[] {
    return this.#db.select().from(secrets).orderBy(asc(secrets.name)).all().map(viewOf)
  }

  former(): SealedSecret[] {
    return this.#db.select().from(formerSecrets).all()
  }

  #keepFormer({ name, version, sealed }: SealedSecret): void {
    const { seq } = this.#db.insert(formerSecrets).values({ name, version, sealed }).returning().get()
    this.#db
      .delete(formerSecrets)
      .where(lte(formerSecrets.seq, seq - LIMITS.former_secrets))
      .run()
  }

  held(): HeldSecret[] {
    const those = this.#db.select().from(secrets).all()
    return those.map(({ name, version, sealed, tools, hosts }) => ({ name, version, sealed, tools, hosts }))
  }
}

/**
 * Seals under the current key what is sealed under an earlier one, in the caller's transaction. It is
 * repeated while there is an earlier key, because a backup may bring older values back.
 */
export function resealAll(db: Database, sealing: Sealing): void {
  if (!sealing.hasFormer) return
  for (const { name, ...row } of db.select().from(secrets).all()) {
    const sealed = sealing.resealed({ name, ...row })
    if (sealed !== undefined) db.update(secrets).set({ sealed }).where(eq(secrets.name, name)).run()
  }
  for (const { seq, ...row } of db.select().from(formerSecrets).all()) {
    const sealed = sealing.resealed(row)
    if (sealed !== undefined) db.update(formerSecrets).set({ sealed }).where(eq(formerSecrets.seq, seq)).run()
  }
  const target = db.select().from(exportTarget).get()
  const sealed = target && sealing.resealed(sealedKeyOf(target))
  if (sealed !== undefined) db.update(exportTarget).set({ sealed }).run()
}

const viewOf = ({ name, version, tools, hosts, by, at }: typeof secrets.$inferSelect): Secret => ({
  name,
  version,
  tools,
  ...(hosts === null ? {} : { hosts }),
  put_by: by,
  put_at_ms: at,
})
