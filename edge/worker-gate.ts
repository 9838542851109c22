// Freshness of workers' requests: a window by the edge's clock, and each nonce once (K02). Nonces are kept in memory, and each begins with
// the gate's epoch, which is random and new whenever the gate forgets nonces that may still be fresh: at a restart, and when the clock goes
// back. So nothing that was admitted before is admitted after, whatever time it says it was signed at (D9).

import { randomBytes } from 'node:crypto'
import { failure } from '../shared/failures.ts'
import type { SignatureInput } from '../shared/http-signature.ts'
import { LIMITS } from '../shared/limits.ts'
import type { Tier } from '../shared/plan.ts'
import type { Result } from '../shared/result.ts'
import { err, ok } from '../shared/result.ts'
import type { Proven } from './worker-means.ts'

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
  /** The process that serves as it, by its random id; null until one has said a heartbeat. */
  process: string | null
  doubledAt: number | null
}
export type EnrolledWorker = WorkerRow & { proven: Proven | null }

/** As a heartbeat says it; workers of before have no process to name. */
export type Speaker = { readonly process?: string | undefined; readonly leaving?: true | undefined }
type Heard = 'serves' | 'takes' | 'doubled' | 'refused'

const newEpoch = (): string => randomBytes(12).toString('base64url')
const STALE_EPOCH = failure('stale_epoch', 'the nonce was made for another epoch of the edge: it has restarted, or its clock went back')

export const WORKER_IN_USE = failure('worker_in_use', 'another process serves as this worker, by the same key')

export class WorkerGate {
  readonly #startedAt = Date.now()
  #epoch = newEpoch()
  readonly #seen = new Map<string, number>()
  /** Workers whose process said that it leaves. */
  readonly #left = new Set<string>()
  /** Workers of which another process was refused since theirs last spoke. */
  readonly #rivalled = new Set<string>()
  /** Nonces of the present window and the one before: dropped whole, never swept. */
  #nonces = new Set<string>()
  #older = new Set<string>()
  #turnedAt = 0

  admit(worker: string, { created, nonce }: SignatureInput, nowMs: number): Result<true> {
    const now = Math.floor(nowMs / 1000)
    if (now < this.#turnedAt) {
      this.#turn(now) // nonces dropped at the last turn may be fresh again by a clock that went back
      this.#older.clear()
      this.#epoch = newEpoch()
    }
    if (!nonce.startsWith(this.#epoch)) return err({ ...STALE_EPOCH, epoch: this.#epoch })
    if (Math.abs(now - created) > LIMITS.signature_age_s) return err(failure('clock_skew', 'the signature is not from this minute'))
    if (now - this.#turnedAt > 2 * LIMITS.signature_age_s) this.#turn(now)
    const id = `${worker} ${nonce}`
    if (this.#nonces.has(id) || this.#older.has(id)) return err(failure('replayed', 'this request was seen before'))
    this.#nonces.add(id)
    return ok(true)
  }

  #turn(now: number): void {
    this.#older = this.#nonces
    this.#nonces = new Set()
    this.#turnedAt = now
  }

  /**
   * A process speaks for a worker. `serves`: it is the one that may. `takes`: from now on it is, because the one before has left or is
   * silent. `doubled`: it serves, and another process has spoken since it last did; a restarted worker's former process never speaks again.
   */
  heard({ id, process: present }: Pick<WorkerRow, 'id' | 'process'>, { process: said, leaving }: Speaker, at: number): Heard {
    const process = said ?? null
    if (process !== present) {
      const free = present === null || this.#left.has(id) || at - this.heardAt(id) >= LIMITS.process_silence_ms
      if (!free || process === null) {
        this.#rivalled.add(id)
        return 'refused'
      }
    }
    const doubled = process === present && this.#rivalled.has(id)
    this.#seen.set(id, at)
    this.#rivalled.delete(id)
    if (leaving === true) this.#left.add(id)
    else this.#left.delete(id)
    if (process !== present) return 'takes'
    return doubled ? 'doubled' : 'serves'
  }

  /** A claim of this process was refused. By now it may be the one that serves: a heartbeat can overtake the report. */
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
