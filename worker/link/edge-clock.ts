// Owns the worker's idea of the edge's time (L9): windows are judged by the edge's clock, so the worker learns that clock and asks no
// other. It runs on the monotonic clock: a step of the local wall clock moves no deadline.

import { performance } from 'node:perf_hooks'

/** The `date` header counts whole seconds; on average the edge is half a second further. */
const DATE_HEADER_MID_MS = 500
/** An answer that took longer says too little about when the edge read its clock. */
const ROUND_TRIP_MAX_MS = 2_000

export class EdgeClock {
  #offset_ms = 0

  readonly #local = (): number => performance.timeOrigin + performance.now()

  now(): number {
    return Math.round(this.#local() + this.#offset_ms)
  }

  /** How far the edge is ahead of this host. */
  get offset_ms(): number {
    return Math.round(this.#offset_ms)
  }

  /** For an exchange that began at `asked` (as `mark` told it) and in which the edge said `now_ms`. */
  learn(now_ms: number, asked: number): void {
    const answered = this.#local()
    if (answered - asked <= ROUND_TRIP_MAX_MS) this.#offset_ms = now_ms - (asked + answered) / 2
  }

  mark(): number {
    return this.#local()
  }

  /** From an answer that refused our clock: the header is all there is. */
  learnFromHeader(date: string | undefined): void {
    const told = date === undefined ? Number.NaN : Date.parse(date)
    if (Number.isFinite(told)) this.#offset_ms = told + DATE_HEADER_MID_MS - this.#local()
  }
}
