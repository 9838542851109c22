// Console sessions, by the hash of their token, each with the hash of the key that opened it. It
// stores no token and no key. A session is valid only while the directory knows its key.

import { asc, eq, lt, or } from 'drizzle-orm'
import { failure } from '../../shared/failures.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { Database } from '../platform/database.ts'
import { consoleSessions } from './tables.ts'

const MINUTE = 60_000
/**
 * Failed attempts are remembered for this many keys. Forgetting one allows it a few more attempts.
 */
const REMEMBERED = 1_000

export class ConsoleSessions {
  readonly #db: Database
  /** Wrong secrets by key id. In memory only: a restart forgets the last minute. */
  readonly #tries = new Map<string, { since: number; wrong: number }>()

  constructor(db: Database) {
    this.#db = db
  }

  /**
   * `keyHash` is `null` for an unknown key. After too many attempts even the right key is refused
   * (K03).
   */
  open(keyId: string, keyHash: string | null, hash: string, now: number): Result<true> {
    const tried = this.#tries.get(keyId)
    const wrong = tried !== undefined && now - tried.since < MINUTE ? tried.wrong : 0
    if (wrong >= LIMITS.sign_in_tries)
      return err(failure('too_many_tries', 'too many failed attempts with this key'))
    if (keyHash === null) {
      if (this.#tries.size >= REMEMBERED) this.#tries.clear()
      this.#tries.set(keyId, { since: wrong === 0 ? now : (tried?.since ?? now), wrong: wrong + 1 })
      return err(failure('unauthenticated', 'no operator has this key'))
    }
    this.#tries.delete(keyId)
    this.#forget(now)
    const mine = this.#db
      .select()
      .from(consoleSessions)
      .where(eq(consoleSessions.keyHash, keyHash))
      .orderBy(asc(consoleSessions.seenAt))
      .all()
    for (const { hash } of mine.slice(0, Math.max(0, mine.length + 1 - LIMITS.console_sessions)))
      this.end(hash)
    this.#db.insert(consoleSessions).values({ hash, keyHash, createdAt: now, seenAt: now }).run()
    return ok(true)
  }

  /**
   * Use is stored at most once a minute. A page that is open but only watches does not extend its
   * session.
   */
  keyOf(hash: string, use: 'used' | 'watched', now: number): string | null {
    const session = this.#db.select().from(consoleSessions).where(eq(consoleSessions.hash, hash)).get()
    if (
      session === undefined ||
      now >= session.createdAt + LIMITS.console_ms ||
      now >= session.seenAt + LIMITS.console_idle_ms
    )
      return null
    if (use === 'used' && now >= session.seenAt + MINUTE)
      this.#db.update(consoleSessions).set({ seenAt: now }).where(eq(consoleSessions.hash, hash)).run()
    return session.keyHash
  }

  end(hash: string): void {
    this.#db.delete(consoleSessions).where(eq(consoleSessions.hash, hash)).run()
  }

  #forget(now: number): void {
    const over = or(
      lt(consoleSessions.createdAt, now - LIMITS.console_ms),
      lt(consoleSessions.seenAt, now - LIMITS.console_idle_ms),
    )
    this.#db.delete(consoleSessions).where(over).run()
  }
}
