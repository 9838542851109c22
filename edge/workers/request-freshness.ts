// Freshness of workers' requests: a window by the edge's clock, and each nonce once (K02). Nonces
// are kept in memory, and each begins with the gate's epoch, which is random and new whenever the
// gate forgets nonces that may still be fresh: at a restart, and when the clock goes back. So a
// request that was admitted before that is refused after it, whatever signing time it claims (D9).

import { randomBytes } from 'node:crypto'
import type { SignatureInput } from '../../shared/evidence/http-signature.ts'
import { failure } from '../../shared/failures.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Tier } from '../../shared/plan/plan.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { Proven } from './eligibility.ts'

export type WorkerRow = {
  id: string
  name: string
  pool: string
  kid: string
  x: string
  /** That it has proven, and that its heartbeats still say. */
  tiers: Tier[]
  status: 'active' | 'revoked'
  enrolledAt: number
  /**
   * The random id of the process that serves as this worker; null until a heartbeat has named one.
   */
  process: string | null
  doubledAt: number | null
}
export type EnrolledWorker = WorkerRow & { proven: Proven | null }

/** As a heartbeat names it; earlier versions of the worker name no process. */
export type Speaker = { readonly process?: string | undefined; readonly leaving?: true | undefined }
type Heard = 'serves' | 'takes' | 'leaves' | 'doubled' | 'refused'

const newEpoch = (): string => randomBytes(12).toString('base64url')
const STALE_EPOCH = failure(
  'stale_epoch',
  'the nonce begins with another epoch: the edge has restarted, or its clock went back',
)

export const WORKER_IN_USE = failure(
  'worker_in_use',
  'another process serves as this worker, with the same key',
)

export class WorkerGate {
  readonly #startedAt = Date.now()
  #epoch = newEpoch()
  readonly #seen = new Map<string, number>()
  /** Workers with another process that was refused since their own last sent a request. */
  readonly #rivalled = new Set<string>()
  /** Nonces of the present window and the one before: dropped whole, never swept. */
  #nonces = new Set<string>()
  #older = new Set<string>()
  #turnedAt = 0

  admit(worker: string, { created, nonce }: SignatureInput, nowMs: number): Result<true> {
    const now = Math.floor(nowMs / 1000)
    if (now < this.#turnedAt) {
      this.#turn(now) // a nonce dropped at the last turn may be fresh again when the clock has gone back
      this.#older.clear()
      this.#epoch = newEpoch()
    }
    if (!nonce.startsWith(this.#epoch)) return err({ ...STALE_EPOCH, epoch: this.#epoch })
    if (Math.abs(now - created) > LIMITS.signature_age_s)
      return err(failure('clock_skew', 'the signature is not from this minute'))
    if (now - this.#turnedAt > 2 * LIMITS.signature_age_s) this.#turn(now)
    const id = `${worker} ${nonce}`
    if (this.#nonces.has(id) || this.#older.has(id))
      return err(failure('replayed', 'this request was seen before'))
    this.#nonces.add(id)
    return ok(true)
  }

  #turn(now: number): void {
    this.#older = this.#nonces
    this.#nonces = new Set()
    this.#turnedAt = now
  }

  /**
   * A process speaks for a worker. `serves`: it is the one that may. `takes`: it becomes that one,
   * because the one before has left or is silent. `leaves`: from now on any other process may.
   * `doubled`: it serves, and another process has sent a request since it last did. A restart never
   * causes that.
   */
  heard(
    { id, process: present }: Pick<WorkerRow, 'id' | 'process'>,
    { process: said, leaving }: Speaker,
    at: number,
  ): Heard {
    const process = said ?? null
    if (process !== present) {
      const free = present === null || at - this.heardAt(id) >= LIMITS.process_silence_ms
      if (!free || process === null) {
        if (process !== null) this.#rivalled.add(id) // `doctor` names none, and serves nothing
        return 'refused'
      }
    }
    const doubled = process === present && this.#rivalled.has(id)
    this.#seen.set(id, at)
    this.#rivalled.delete(id)
    if (leaving === true) return 'leaves'
    if (process !== present) return 'takes'
    return doubled ? 'doubled' : 'serves'
  }

  /**
   * A claim of this process was refused. By now it may be the one that serves: a heartbeat can
   * overtake the report.
   */
  claimRefused({ id, process: present }: Pick<WorkerRow, 'id' | 'process'>, process: string | null): void {
    if (process !== present) this.#rivalled.add(id)
  }

  /** The latest moment at which it may have spoken: before this object started nobody listened. */
  heardAt(id: string): number {
    return this.#seen.get(id) ?? this.#startedAt
  }

  seenAt(id: string): number | null {
    return this.#seen.get(id) ?? null
  }
}
