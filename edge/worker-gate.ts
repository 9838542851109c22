// Freshness of workers' requests: a window by the edge's clock, and each nonce once. In memory: a request signed before
// this object started is refused, so a restart forgets nothing that matters (K02).

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
}
export type EnrolledWorker = WorkerRow & { proven: Proven | null }

export class WorkerGate {
  readonly #startedAt = Math.floor(Date.now() / 1000)
  readonly #seen = new Map<string, number>()
  /** Nonces of the present window and the one before: dropped whole, never swept. */
  #nonces = new Set<string>()
  #older = new Set<string>()
  #turnedAt = 0

  admit(worker: string, { created, nonce }: SignatureInput, nowMs: number): Result<true> {
    const now = Math.floor(nowMs / 1000)
    if (Math.abs(now - created) > LIMITS.signature_age_s || created < this.#startedAt)
      return err(failure('clock_skew', 'the signature is not from this minute'))
    if (now - this.#turnedAt > 2 * LIMITS.signature_age_s) {
      this.#older = this.#nonces
      this.#nonces = new Set()
      this.#turnedAt = now
    }
    const id = `${worker} ${nonce}`
    if (this.#nonces.has(id) || this.#older.has(id)) return err(failure('replayed', 'this request was seen before'))
    this.#nonces.add(id)
    return ok(true)
  }

  seen(id: string, at: number): void {
    this.#seen.set(id, at)
  }

  /** The latest moment at which it may have spoken: before this object started nobody listened. */
  heardAt(id: string): number {
    return this.#seen.get(id) ?? this.#startedAt * 1000
  }

  seenAt(id: string): number | null {
    return this.#seen.get(id) ?? null
  }
}
