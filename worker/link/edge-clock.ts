// The worker's estimate of the edge's clock, by which all deadlines are judged (L9). It builds on
// the monotonic clock, so a step of the host's wall clock moves no deadline (J03).

import { performance } from 'node:perf_hooks'

/**
 * The `date` header counts whole seconds; on average the edge's clock is half a second ahead of it.
 */
const DATE_HEADER_MID_MS = 500
/** A slower exchange bounds the edge's clock too loosely to be used. */
const ROUND_TRIP_MAX_MS = 2_000

export class EdgeClock {
  #offset_ms = 0

  readonly #local = (): number => performance.timeOrigin + performance.now()

  now(): number {
    return Math.round(this.#local() + this.#offset_ms)
  }

  /** The edge's clock minus this host's. */
  get offset_ms(): number {
    return Math.round(this.#offset_ms)
  }

  /**
   * Learns from an exchange that began at `sent` (a value of `mark`) and in which the edge reported
   * `now_ms`.
   */
  learn(now_ms: number, sent: number): void {
    const received = this.#local()
    if (received - sent <= ROUND_TRIP_MAX_MS) this.#offset_ms = now_ms - (sent + received) / 2
  }

  mark(): number {
    return this.#local()
  }

  /** Learns from a `clock_skew` refusal, whose `date` header is the only clock reading in it. */
  learnFromHeader(date: string | undefined): void {
    const date_ms = date === undefined ? Number.NaN : Date.parse(date)
    if (Number.isFinite(date_ms)) this.#offset_ms = date_ms + DATE_HEADER_MID_MS - this.#local()
  }
}
