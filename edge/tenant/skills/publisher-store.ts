// The publishers of a tenant's skills, with listed and revoked keys. A part of the TenantObject, so
// that the next call sees a revocation.

import { and, asc, eq, sql } from 'drizzle-orm'
import { kidOf } from '../../../shared/evidence/dsse.ts'
import { failure } from '../../../shared/failures.ts'
import { LIMITS } from '../../../shared/limits.ts'
import type { Result } from '../../../shared/result.ts'
import { err, ok } from '../../../shared/result.ts'
import type { Publisher, PublisherKey, RevokedKey } from '../../../shared/wire/publishers.ts'
import type { ListedKeys } from '../../directory/gatekeeper.ts'
import type { Change, Database } from '../../platform/database.ts'
import { publisherKeys, revokedKeys, skills } from '../tables.ts'
import type { SkillJournal } from './journal-store.ts'

export class PublisherStore {
  readonly #db: Database
  readonly #change: Change
  readonly #journal: SkillJournal

  constructor(db: Database, change: Change, journal: SkillJournal) {
    this.#db = db
    this.#change = change
    this.#journal = journal
  }

  listed(): ListedKeys[] {
    const keys = Map.groupBy(this.#keys(), ({ publisher }) => publisher)
    return [...keys].map(([name, rows]) => ({ name, keys: rows.map(({ x }) => x) }))
  }

  /** Listed publishers, and former ones with a revoked key. */
  all(): Publisher[] {
    const keys = Map.groupBy(this.#keys(), ({ publisher }) => publisher)
    const revoked = Map.groupBy(
      this.#db.select().from(revokedKeys).orderBy(asc(revokedKeys.at)).all(),
      ({ publisher }) => publisher,
    )
    return [...new Set([...keys.keys(), ...revoked.keys()])].sort().map((name) => ({
      name,
      keys: (keys.get(name) ?? []).map(
        ({ kid, x, pinned, by, at }): PublisherKey => ({ kid, x, pinned, by, at_ms: at }),
      ),
      revoked: (revoked.get(name) ?? []).map(
        ({ kid, by, at, reason }): RevokedKey => ({ kid, by, at_ms: at, reason }),
      ),
    }))
  }

  /**
   * Replaces the keys of a publisher. An operator who lists a pinned key vouches for it, so it is
   * no longer pinned.
   */
  put(name: string, keys: readonly string[], by: string): Result<Publisher> {
    const had = this.#keys().filter(({ publisher }) => publisher === name)
    if (had.length === 0 && this.listed().length >= LIMITS.publishers)
      return err(failure('limit_reached', `a tenant can list at most ${LIMITS.publishers} publishers`))
    for (const x of keys) {
      const free = this.#free(name, x)
      if (!free.ok) return free
    }
    const kept = had.filter(({ x, pinned }) => keys.includes(x) && !pinned).map(({ x }) => x)
    if (kept.length === keys.length && kept.length === had.length) return ok(this.#read(name))
    this.#change(() => {
      for (const { kid, x } of had) if (!kept.includes(x)) this.#delete(kid)
      for (const x of keys) if (!kept.includes(x)) this.#add(name, x, by, false)
      this.#journal.append('publisher.put', { publisher: name }, { keys: keys.map(kidOf), by })
    })
    return ok(this.#read(name))
  }

  remove(name: string, by: string): Result<{ done: true }> {
    const had = this.#keys().filter(({ publisher }) => publisher === name)
    if (had.length === 0) return err(failure('not_found', `no publisher \`${name}\``))
    this.#change(() => {
      for (const { kid } of had) this.#delete(kid)
      this.#journal.append('publisher.removed', { publisher: name }, { keys: had.map(({ kid }) => kid), by })
    })
    return ok({ done: true })
  }

  /**
   * Whether a signature by this key as publisher `name` counts. `pin` accepts a name that was never
   * used before.
   */
  counts(name: string, x: string, pin: boolean): Result<true> {
    const free = this.#free(name, x)
    if (!free.ok) return free
    if (this.has(x)) return ok(true)
    if (!pin)
      return err(failure('publisher_unknown', `no listed key of the publisher \`${name}\` signed this`))
    return this.#journal.knows(name)
      ? err(
          failure(
            'publisher_unknown',
            `the publisher \`${name}\` is known here, and this is not one of their keys; only the first key of a new publisher can be pinned`,
          ),
        )
      : this.listed().length >= LIMITS.publishers
        ? err(failure('limit_reached', `a tenant can list at most ${LIMITS.publishers} publishers`))
        : ok(true)
  }

  /** Whether any publisher has this key. */
  has(x: string): boolean {
    return this.#keys().some((key) => key.x === x)
  }

  /** Must run in the transaction that publishes the package. */
  pin(name: string, x: string, by: string): void {
    this.#add(name, x, by, true)
    this.#journal.append('publisher.pinned', { publisher: name }, { keys: [kidOf(x)], by })
  }

  /**
   * Revokes a key, together with the writes of `alsoWrite` to everything that it signed. A key that
   * is no longer listed can still be revoked.
   */
  revoke(name: string, kid: string, by: string, reason: string, alsoWrite: () => void): Result<Publisher> {
    if (this.#db.select().from(revokedKeys).where(eq(revokedKeys.kid, kid)).get()?.publisher === name)
      return ok(this.#read(name))
    const isListed = this.#keys().some((key) => key.publisher === name && key.kid === kid)
    if (!isListed && !this.#hasSigned(name, kid))
      return err(failure('not_found', `no key \`${kid}\` of the publisher \`${name}\``))
    this.#change(() => {
      this.#delete(kid)
      this.#db.insert(revokedKeys).values({ kid, publisher: name, at: Date.now(), by, reason }).run()
      this.#journal.append('publisher.key_revoked', { publisher: name }, { keys: [kid], by, reason })
      alsoWrite()
    })
    return ok(this.#read(name))
  }

  /** Whether a publisher may have this key: it is not revoked and not another publisher's. */
  #free(name: string, x: string): Result<true> {
    const kid = kidOf(x)
    const revoked = this.#db.select().from(revokedKeys).where(eq(revokedKeys.kid, kid)).get()
    if (revoked !== undefined)
      return err(failure('key_revoked', `the key \`${kid}\` was revoked: ${revoked.reason}`))
    const other = this.#keys().find((key) => key.kid === kid && (key.publisher !== name || key.x !== x))
    return other === undefined
      ? ok(true)
      : err(failure('conflict', `the key \`${kid}\` belongs to the publisher \`${other.publisher}\``))
  }

  #hasSigned(name: string, kid: string): boolean {
    const signed = and(eq(skills.publisher, name), eq(sql`${skills.about} ->> '$.signed_by'`, kid))
    return this.#db.select({ id: skills.id }).from(skills).where(signed).limit(1).get() !== undefined
  }

  #keys() {
    return this.#db
      .select()
      .from(publisherKeys)
      .orderBy(asc(publisherKeys.publisher), asc(publisherKeys.at), asc(publisherKeys.kid))
      .all()
  }

  #read(name: string): Publisher {
    return this.all().find((publisher) => publisher.name === name) ?? { name, keys: [], revoked: [] }
  }

  #add(publisher: string, x: string, by: string, pinned: boolean): void {
    this.#db
      .insert(publisherKeys)
      .values({ kid: kidOf(x), x, publisher, pinned, at: Date.now(), by })
      .run()
  }

  #delete(kid: string): void {
    this.#db.delete(publisherKeys).where(eq(publisherKeys.kid, kid)).run()
  }
}
