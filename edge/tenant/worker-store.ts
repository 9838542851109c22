// A tenant's workers: enrolment tokens, and the workers that are or were enrolled. Freshness of
// requests is checked elsewhere (edge/workers/request-freshness.ts). A change by an operator, and of a
// worker's keys, is recorded in the tenant's journal; what its heartbeats and proofs say is not.

import { and, asc, eq, isNull } from 'drizzle-orm'
import { type Envelope, kidOf, payloadBytes } from '../../shared/evidence/dsse.ts'
import { PublicKey } from '../../shared/evidence/ed25519.ts'
import { edgeKeysOf, type KeyEntry } from '../../shared/evidence/keys.ts'
import {
  advertisedTiers,
  provenResources,
  readProof,
  type WorkerProof,
} from '../../shared/evidence/worker-proof.ts'
import { failure } from '../../shared/failures.ts'
import { mintKey, newWorkerId } from '../../shared/ids.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Tier } from '../../shared/plan/plan.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { ProvenWorker } from '../../shared/wire/workers.ts'
import type { Change, Database } from '../platform/database.ts'
import { currentResources, type ReceivedProof } from '../workers/eligibility.ts'
import type { EnrolledWorker, WorkerRow } from '../workers/request-freshness.ts'
import type { RecordedChange } from './journal-store.ts'
import { enrolments, formerWorkerKeys, proofs, workers } from './tables.ts'

/** How often the warning about two processes of one worker is stored again. */
const DOUBLED_EVERY_MS = 60_000

/** The proof in a stored envelope, which was verified on arrival. */
const proofIn = (envelope: Envelope): WorkerProof =>
  JSON.parse(Buffer.from(payloadBytes(envelope)).toString()) as WorkerProof

/** The key to which a link leads from this one, signed by both. */
function nextKey(x: string, link: Envelope): string | undefined {
  const led = edgeKeysOf(x, [link])
  return led.ok ? led.value.at(-1)?.x : undefined
}

export class WorkerStore {
  readonly #db: Database
  readonly #record: RecordedChange
  readonly #change: Change
  readonly #proven = new Map<string, ReceivedProof | null>()
  /** Caches whether a worker's key is valid; the check takes longer than the rest of `keys`. */
  readonly #signing = new Map<string, boolean>()

  constructor(db: Database, record: RecordedChange, change: Change) {
    this.#db = db
    this.#record = record
    this.#change = change
  }

  /**
   * Public keys, including those of revoked workers, so that their earlier signatures stay
   * verifiable. Earlier versions enrolled weak and off-curve keys. They are left out: no signature
   * by such a key is accepted, and one of them makes every reader refuse the whole key file (D2).
   */
  keys(): KeyEntry[] {
    const former = this.#former()
    return this.#db
      .select()
      .from(workers)
      .all()
      .filter(this.#canSign)
      .flatMap((row) => {
        const { id, enrolledAt, keySince, revokedAt, status, distrustedFrom } = row
        const from_ms = keySince ?? enrolledAt
        const present = { ...row, from_ms, until_ms: revokedAt, status }
        const earlier = (former.get(id) ?? []).map(({ kid, x, fromAt, untilAt }) => ({
          kid,
          x,
          from_ms: fromAt,
          until_ms: untilAt,
          status: 'retired' as const,
        }))
        return [...earlier, present].map(({ kid, x, from_ms, until_ms, status }) => ({
          kty: 'OKP',
          crv: 'Ed25519',
          kid,
          x,
          role: 'worker',
          worker: id,
          from_ms,
          until_ms,
          ...(distrustedFrom === null
            ? { status }
            : { status: 'distrusted', distrusted_from_ms: distrustedFrom }),
        }))
      })
  }

  #former(): ReadonlyMap<string, (typeof formerWorkerKeys.$inferSelect)[]> {
    const rows = this.#db.select().from(formerWorkerKeys).orderBy(asc(formerWorkerKeys.untilAt)).all()
    return Map.groupBy(rows, ({ worker }) => worker)
  }

  readonly #canSign = ({ id, x }: WorkerRow): boolean => {
    const known = this.#signing.get(id) ?? PublicKey.safeParse(x).success
    this.#signing.set(id, known)
    return known
  }

  active(): EnrolledWorker[] {
    const rows = this.#db.select().from(workers).where(eq(workers.status, 'active')).all()
    const former = this.#former()
    return rows.map((row) => ({ ...row, proven: this.#provenBy(row.id), former: former.get(row.id) ?? [] }))
  }

  /** `note`: records it without a new directory. */
  token(
    tenant: string,
    pool: string,
    by: string,
    note: RecordedChange,
  ): { token: string; expires_at: number } {
    const now = Date.now()
    const { key, id, hash } = mintKey('enrol', tenant, now)
    const expiresAt = now + LIMITS.enrolment_ttl_s * 1000
    note(['enrolment.created', by, { enrolment: id, pool }], () =>
      this.#db.insert(enrolments).values({ id, hash, pool, expiresAt, usedAt: null }).run(),
    )
    return { token: key, expires_at: expiresAt }
  }

  /**
   * Uses a token once. The look-up includes its hash, so timing reveals nothing about a wrong token
   * (K01, K03).
   */
  enrol(id: string, hash: string, name: string, x: string): Result<{ worker: string; pool: string }> {
    const now = Date.now()
    const token = this.#db
      .select()
      .from(enrolments)
      .where(and(eq(enrolments.id, id), eq(enrolments.hash, hash), isNull(enrolments.usedAt)))
      .get()
    if (token === undefined || now >= token.expiresAt)
      return err(failure('enrolment_invalid', 'the token is unknown, used or expired'))
    const worker = {
      id: newWorkerId(now),
      name,
      pool: token.pool,
      kid: kidOf(x),
      x,
      tiers: [],
      status: 'active' as const,
      enrolledAt: now,
      process: null,
      doubledAt: null,
    }
    if (this.#isKnown(worker.kid))
      return err(failure('enrolment_invalid', 'this key is already enrolled; generate a new one'))
    const { pool } = token
    const about = { worker: worker.id, name, pool, kid: worker.kid, enrolment: id }
    this.#record(['worker.enrolled', `worker ${worker.id}`, about], () => {
      this.#db.update(enrolments).set({ usedAt: now }).where(eq(enrolments.id, id)).run()
      this.#db.insert(workers).values(worker).run()
    })
    return ok({ worker: worker.id, pool })
  }

  #isKnown(kid: string): boolean {
    const present = this.#db.select().from(workers).where(eq(workers.kid, kid)).get()
    const former = this.#db.select().from(formerWorkerKeys).where(eq(formerWorkerKeys.kid, kid)).get()
    return present !== undefined || former !== undefined
  }

  /**
   * Replaces a worker's key by the one that a link names, signed by both. A repeated link is accepted:
   * the worker may have lost the answer to the first.
   */
  rotateKey({ id, kid, x, enrolledAt, former }: EnrolledWorker, link: Envelope): Result<{ kid: string }> {
    const next = nextKey(x, link)
    if (next === undefined)
      return former.some((key) => nextKey(key.x, link) === x)
        ? ok({ kid })
        : err(
            failure(
              'invalid_request',
              '/link: it must be signed by the worker’s present key and the new one',
            ),
          )
    if (this.#isKnown(kidOf(next)))
      return err(failure('invalid_request', '/link: this key is already enrolled; generate a new one'))
    if (former.length >= LIMITS.worker_keys - 1)
      return err(
        failure('limit_reached', `a worker can have at most ${LIMITS.worker_keys} keys; enrol it again`),
      )
    const now = Date.now()
    const fromAt = former.at(-1)?.untilAt ?? enrolledAt
    const about = { worker: id, kid: kidOf(next), former: kid }
    this.#record(['worker.key_rotated', `worker ${id}`, about], () => {
      this.#db.insert(formerWorkerKeys).values({ kid, worker: id, x, fromAt, untilAt: now }).run()
      this.#db
        .update(workers)
        .set({ kid: kidOf(next), x: next, keySince: now })
        .where(eq(workers.id, id))
        .run()
    })
    return ok({ kid: kidOf(next) })
  }

  /** Stores a worker's proof, which counts until it expires. */
  prove(tenant: string, worker: WorkerRow, envelope: Envelope, now: number): Result<{ tiers: Tier[] }> {
    const { id, kid, x } = worker
    const proof = readProof(envelope, { tenant, id, kid, x })
    if (!proof.ok) return err(failure('proof_invalid', proof.error))
    if (Math.abs(now - proof.value.at_ms) > LIMITS.proof_every_ms)
      return err(failure('proof_invalid', 'its time differs too much from the edge’s clock; prove again'))
    const before = this.#db.select().from(proofs).where(eq(proofs.worker, id)).get()
    if (before !== undefined && proof.value.at_ms < proofIn(before.envelope).at_ms)
      return err(failure('proof_invalid', 'a later proof is stored')) // a delayed proof must not restore what a newer one lacks
    const row = { worker: id, receivedAt: now, envelope }
    const means = provenResources(proof.value)
    this.#proven.delete(id)
    this.#change(() => {
      this.#db.insert(proofs).values(row).onConflictDoUpdate({ target: proofs.worker, set: row }).run()
      this.#db.update(workers).set({ tiers: means.tiers }).where(eq(workers.id, id)).run()
    })
    return ok({ tiers: means.tiers })
  }

  /**
   * Limits the proven tiers to those of the last heartbeat (L8, K04). The proof's age is checked at
   * the claim.
   */
  narrow({ id, tiers, proven }: EnrolledWorker, reported: readonly Tier[]): void {
    const counts = proven?.means.tiers.filter((tier) => reported.includes(tier)) ?? []
    if (counts.join() === tiers.join()) return
    this.#change(() => this.#db.update(workers).set({ tiers: counts }).where(eq(workers.id, id)).run())
  }

  /** Records the process that serves as the worker. */
  serve(id: string, process: string | null): void {
    this.#change(() => this.#db.update(workers).set({ process }).where(eq(workers.id, id)).run())
  }

  /**
   * Records that two processes use the worker's key. While both live each heartbeat detects it; it
   * is stored once a minute.
   */
  doubled({ id, doubledAt }: WorkerRow, now: number): void {
    if (doubledAt !== null && now - doubledAt < DOUBLED_EVERY_MS) return
    this.#change(() => this.#db.update(workers).set({ doubledAt: now }).where(eq(workers.id, id)).run())
  }

  #provenBy(id: string): ReceivedProof | null {
    const known = this.#proven.get(id)
    if (known !== undefined) return known
    const row = this.#db.select().from(proofs).where(eq(proofs.worker, id)).get()
    const proven =
      row === undefined ? null : { means: provenResources(proofIn(row.envelope)), at: row.receivedAt }
    this.#proven.set(id, proven)
    return proven
  }

  list(seenAt: (id: string) => number | null, now: number): ProvenWorker[] {
    const kept = new Map(
      this.#db
        .select()
        .from(proofs)
        .all()
        .map(({ worker, envelope }) => [worker, envelope]),
    )
    return this.#db
      .select()
      .from(workers)
      .all()
      .map(({ enrolledAt, doubledAt, id, name, pool, kid, tiers, status }) => {
        const worker = { id, name, pool, kid, status }
        const envelope = kept.get(worker.id) ?? null
        const proof = envelope === null ? null : proofIn(envelope)
        const means = currentResources({ tiers, proven: this.#provenBy(id) }, now)
        const current = { tiers: means.tiers, advertised: advertisedTiers(means), means }
        return {
          ...worker,
          ...current,
          enrolled_at_ms: enrolledAt,
          seen_at_ms: seenAt(worker.id),
          doubled_at_ms: doubledAt,
          proof,
          envelope,
        }
      })
  }

  /** `distrustedFrom`: nothing that it has signed since then counts. */
  revoke(id: string, distrustedFrom: number | null, by: string): Result<{ done: true }> {
    const row = this.#db.select().from(workers).where(eq(workers.id, id)).get()
    if (row === undefined) return err(failure('not_found', 'no such worker'))
    const ended = {
      status: 'revoked' as const,
      revokedAt: row.revokedAt ?? Date.now(),
      // The earliest time counts, so that nobody gives back trust.
      distrustedFrom:
        row.distrustedFrom === null
          ? distrustedFrom
          : Math.min(row.distrustedFrom, distrustedFrom ?? row.distrustedFrom),
    }
    if (row.status === 'revoked' && row.distrustedFrom === ended.distrustedFrom) return ok({ done: true })
    const about = { worker: id, kid: row.kid, distrusted_from_ms: ended.distrustedFrom }
    this.#record(['worker.revoked', by, about], () =>
      this.#db.update(workers).set(ended).where(eq(workers.id, id)).run(),
    )
    return ok({ done: true })
  }
}
