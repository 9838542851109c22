// Freshness of workers' requests: a time window by the edge's clock, and each nonce once (K02).
// Seen nonces are kept in memory. Every nonce begins with a random epoch, which changes whenever
// nonces that may still be fresh are forgotten: at a restart, and when the clock goes back. So a
// request from before is refused afterwards, whatever time it claims (D9).

import { randomBytes } from 'node:crypto'
import type { SignatureInput } from '../../shared/evidence/http-signature.ts'
import { failure } from '../../shared/failures.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Tier } from '../../shared/plan/plan.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { ReceivedProof } from './eligibility.ts'

export type WorkerRow = {
  id: string
  name: string
  pool: string
  kid: string
  x: string
  /** The tiers that it has proven and that its heartbeats still report. */
  tiers: Tier[]
  status: 'active' | 'revoked'
  enrolledAt: number
  /** The random id of the process that serves as this worker; null until a heartbeat names one. */
  process: string | null
  doubledAt: number | null
}
/** An earlier key of a worker: it may have signed what ended until then. */
export type FormerKey = { readonly kid: string; readonly x: string; readonly untilAt: number }
export type EnrolledWorker = WorkerRow & {
  proven: ReceivedProof | null
  former: readonly FormerKey[]
}

/** The sender of a heartbeat; older workers name no process. */
export type HeartbeatSender = { readonly process?: string | undefined; readonly leaving?: true | undefined }
type HeartbeatVerdict = 'serves' | 'takes' | 'leaves' | 'doubled' | 'refused'

const newEpoch = (): string => randomBytes(12).toString('base64url')
const STALE_EPOCH = failure(
  'stale_epoch',
  'the nonce begins with another epoch: the edge has restarted, or its clock went back',
)

export const WORKER_IN_USE = failure(
  'worker_in_use',
  'another process serves as this worker, with the same key',
)

export class RequestFreshness {
  readonly #startedAt = Date.now()
  #epoch = newEpoch()
  readonly #seen = new Map<string, number>()
  /** Workers for which another process was refused since the serving one last sent a heartbeat. */
  readonly #contested = new Set<string>()
  /** Nonces of the current window and the previous one. A window is dropped as a whole. */
  #nonces = new Set<string>()
  #older = new Set<string>()
  #windowSince = 0

  admit(worker: string, { created, nonce }: SignatureInput, nowMs: number): Result<true> {
    const now = Math.floor(nowMs / 1000)
    if (now < this.#windowSince) {
      this.#startWindow(now) // after the clock went back, a dropped nonce may be fresh again
      this.#older.clear()
      this.#epoch = newEpoch()
    }
    if (!nonce.startsWith(this.#epoch)) return err({ ...STALE_EPOCH, epoch: this.#epoch })
    if (Math.abs(now - created) > LIMITS.signature_age_s)
      return err(
        failure(
          'clock_skew',
          'the time of the signature differs from the edge’s clock by more than a minute',
        ),
      )
    if (now - this.#windowSince > 2 * LIMITS.signature_age_s) this.#startWindow(now)
    const id = `${worker} ${nonce}`
    if (this.#nonces.has(id) || this.#older.has(id))
      return err(failure('replayed', 'this request was seen before'))
    this.#nonces.add(id)
    return ok(true)
  }

  #startWindow(now: number): void {
    this.#older = this.#nonces
    this.#nonces = new Set()
    this.#windowSince = now
  }

  /**
   * Judges a heartbeat. `serves`: its process is the serving one. `takes`: it becomes the serving
   * one, because the previous one has left or is silent. `leaves`: any process may take over from
   * now on. `doubled`: it serves, but another process has sent a request since its last heartbeat,
   * which a restart never causes.
   */
  judgeHeartbeat(
    { id, process: serving }: Pick<WorkerRow, 'id' | 'process'>,
    { process: sender, leaving }: HeartbeatSender,
    at: number,
  ): HeartbeatVerdict {
    const process = sender ?? null
    if (process !== serving) {
      const free = serving === null || at - this.lastHeartbeatAt(id) >= LIMITS.process_silence_ms
      if (!free || process === null) {
        if (process !== null) this.#contested.add(id) // `doctor` names no process and serves nothing
        return 'refused'
      }
    }
    const doubled = process === serving && this.#contested.has(id)
    this.#seen.set(id, at)
    this.#contested.delete(id)
    if (leaving === true) return 'leaves'
    if (process !== serving) return 'takes'
    return doubled ? 'doubled' : 'serves'
  }

  /**
   * A claim of this process was refused. It may be the serving one by now, because a heartbeat can
   * overtake this report.
   */
  claimRefused({ id, process: serving }: Pick<WorkerRow, 'id' | 'process'>, process: string | null): void {
    if (process !== serving) this.#contested.add(id)
  }

  /**
   * The latest time at which it may have sent a heartbeat. Nothing is known from before this
   * object's start.
   */
  lastHeartbeatAt(id: string): number {
    return this.#seen.get(id) ?? this.#startedAt
  }

  seenAt(id: string): number | null {
    return this.#seen.get(id) ?? null
  }
}
