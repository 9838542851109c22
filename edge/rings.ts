// Which calls of one pool wait for a worker, and whose doorbell is next. Each run has a few doorbells out at a time, so that a call waits
// behind a few of every other run, however many those have. In memory: it is what runs say, and they say it again. It rings nothing.

import { LIMITS } from '../shared/limits.ts'

/** Nothing but names: whoever reads Redis learns no argument, no secret, no result (L7). */
export type Ring = {
  run: string
  call: string
  until: number
  /** The one worker that can claim it, by its own queue; null: any of the pool. */
  worker: string | null
}

/** `outSince`: null while it waits its turn. */
type Waiting = { ring: Ring; outSince: number | null }
type Bounds = { readonly out: number; readonly perRun: number; readonly all: number }

/** What is out longer than this holds up no other: its doorbell may be lost, or its worker busy for long. */
const OUT_MS = 5_000

const BOUNDS: Bounds = { out: LIMITS.doorbells_per_run, perRun: LIMITS.waiting_calls_per_run, all: LIMITS.waiting_calls_per_pool }

export class Rings {
  readonly #bounds: Bounds
  readonly #runs = new Map<string, Map<string, Waiting>>()
  #size = 0

  constructor(bounds: Bounds = BOUNDS) {
    this.#bounds = bounds
  }

  /** A call waits, or waits still. What is to be rung now: it again if it is out, else whichever of its run are next. */
  waits(ring: Ring, now: number): Ring[] {
    const calls = this.#runs.get(ring.run) ?? new Map<string, Waiting>()
    const known = calls.get(ring.call)
    if (known === undefined) {
      if (this.#size >= 2 * this.#bounds.all) return [] // what has run full must not grow; the run's next ring is soon enough
      calls.set(ring.call, { ring, outSince: null })
      this.#runs.set(ring.run, calls)
      this.#size += 1
      return this.#next(ring.run, now)
    }
    known.ring = ring
    if (known.outSince === null) return this.#next(ring.run, now)
    known.outSince = now
    return [ring]
  }

  /** A call waits no more, whatever it does. */
  left(run: string, call: string, now: number): Ring[] {
    const calls = this.#runs.get(run)
    if (calls?.delete(call) !== true) return []
    this.#size -= 1
    if (calls.size === 0) this.#runs.delete(run)
    return this.#next(run, now)
  }

  /** Whether one more call of this run would be too many. A run has a share of the pool, and no more. */
  full(run: string, now: number): boolean {
    const full = (): boolean => this.#size >= this.#bounds.all || (this.#runs.get(run)?.size ?? 0) >= this.#bounds.perRun
    if (!full()) return false
    this.#forget(now)
    return full()
  }

  #next(run: string, now: number): Ring[] {
    const calls = [...(this.#runs.get(run)?.values() ?? [])]
    let free = this.#bounds.out - calls.filter(({ outSince }) => outSince !== null && now - outSince < OUT_MS).length
    const next: Ring[] = []
    for (const waiting of calls) {
      if (free <= 0) break
      if (waiting.outSince !== null || waiting.ring.until <= now) continue
      waiting.outSince = now
      next.push(waiting.ring)
      free -= 1
    }
    return next
  }

  /** What nobody claimed in time has lapsed, whether or not its run said so. */
  #forget(now: number): void {
    for (const [run, calls] of this.#runs) {
      for (const [call, { ring }] of calls) {
        if (ring.until > now) continue
        calls.delete(call)
        this.#size -= 1
      }
      if (calls.size === 0) this.#runs.delete(run)
    }
  }
}
