// A tenant's workers: tokens that enrol one each, who is enrolled, who was. It admits nobody to anything; whether a request is fresh is the
// gate's. Every write that matters to others goes through the change of the TenantObject that owns it.

import { and, eq, isNull } from 'drizzle-orm'
import { kidOf } from '../shared/dsse.ts'
import { failure } from '../shared/failures.ts'
import { mintKey, newWorkerId } from '../shared/ids.ts'
import { LIMITS } from '../shared/limits.ts'
import type { Tier } from '../shared/plan.ts'
import type { Result } from '../shared/result.ts'
import { err, ok } from '../shared/result.ts'
import type { Change, Database } from './tables/open.ts'
import { enrolments, workers } from './tables/tenant.ts'
import type { WorkerRow } from './worker-gate.ts'

export class WorkerStore {
  readonly #db: Database
  readonly #change: Change

  constructor(db: Database, change: Change) {
    this.#db = db
    this.#change = change
  }

  /** Those that are enrolled, and those that were. */
  all(): WorkerRow[] {
    return this.#db.select().from(workers).all()
  }

  active(): WorkerRow[] {
    return this.#db.select().from(workers).where(eq(workers.status, 'active')).all()
  }

  token(tenant: string, pool: string): { token: string; expires_at: number } {
    const now = Date.now()
    const { key, id, hash } = mintKey('enrol', tenant, now)
    const expiresAt = now + LIMITS.enrolment_ttl_s * 1000
    this.#db.insert(enrolments).values({ id, hash, pool, expiresAt, usedAt: null }).run()
    return { token: key, expires_at: expiresAt }
  }

  /** Takes a token once: the hash is part of the look-up, so nothing is learnt from how long a wrong one takes (K01, K03). */
  enroll(id: string, hash: string, name: string, x: string, tiers: Tier[]): Result<{ worker: string; pool: string }> {
    const now = Date.now()
    const token = this.#db
      .select()
      .from(enrolments)
      .where(and(eq(enrolments.id, id), eq(enrolments.hash, hash), isNull(enrolments.usedAt)))
      .get()
    if (token === undefined || now >= token.expiresAt) return err(failure('enrolment_invalid', 'the token is unknown, used or expired'))
    const worker = { id: newWorkerId(now), name, pool: token.pool, kid: kidOf(x), x, tiers, status: 'active' as const, enrolledAt: now }
    if (this.#db.select().from(workers).where(eq(workers.kid, worker.kid)).get() !== undefined)
      return err(failure('enrolment_invalid', 'this key is enrolled already; make a new one'))
    this.#change(() => {
      this.#db.update(enrolments).set({ usedAt: now }).where(eq(enrolments.id, id)).run()
      this.#db.insert(workers).values(worker).run()
    })
    return ok({ worker: worker.id, pool: token.pool })
  }

  /** What a worker has proven on itself of late. */
  prove(id: string, tiers: Tier[]): void {
    this.#change(() => this.#db.update(workers).set({ tiers }).where(eq(workers.id, id)).run())
  }

  revoke(id: string): Result<{ done: true }> {
    if (this.#db.select().from(workers).where(eq(workers.id, id)).get() === undefined) return err(failure('not_found', 'no such worker'))
    this.#change(() => this.#db.update(workers).set({ status: 'revoked' }).where(eq(workers.id, id)).run())
    return ok({ done: true })
  }
}
