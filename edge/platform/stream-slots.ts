// Who follows what at the moment, on pages and streams that are open: so many for each link, session or principal, and so many in all. In
// memory: a restart forgets them, and whoever still is there is known again by the next question. It knows nothing of what is followed.

import { failure } from '../../shared/failures.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'

/** A stream whose browser is gone asks no more; whether anybody tells us is up to what stands between. */
const LAPSE_MS = LIMITS.console_wait_ms + 5_000

/** `whose`: of which link, or which session; `approval`: the one that is looked at, `null` for all that wait. */
export type Following = { readonly stream: string; readonly whose: string; readonly approval: string | null }

export class Followers {
  readonly #most: number
  readonly #streams = new Map<string, { readonly whose: string; readonly until: number }>()

  constructor(most: number = LIMITS.streams_tenant) {
    this.#most = most
  }

  /** The number of open streams. */
  open(now: number): number {
    for (const [id, { until }] of this.#streams) if (now >= until) this.#streams.delete(id)
    return this.#streams.size
  }

  /** Renews a follower; one that has expired in the meantime is added again if there is room. `most`: the limit for all together. */
  enter(stream: string, whose: string, now: number, most = this.#most): Result<true> {
    const all = this.open(now)
    const theirs = [...this.#streams.values()].filter((one) => one.whose === whose).length
    const full = theirs >= LIMITS.streams_each || all >= most
    if (full && !this.#streams.has(stream))
      return err(failure('too_many_streams', 'as many pages and streams are open as are told what happens'))
    this.stay(stream, whose, now)
    return ok(true)
  }

  stay(stream: string, whose: string, now: number): void {
    this.#streams.set(stream, { whose, until: now + LAPSE_MS })
  }

  leave(stream: string): void {
    this.#streams.delete(stream)
  }
}
