// Slots of open live streams and pages: limited for each link, session or principal, and in total.
// In memory only: after a restart a stream takes its slot again with its next request.

import { failure } from '../../shared/failures.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'

/**
 * A slot expires if its stream stops polling: a proxy in between may hide that the browser is gone.
 */
const EXPIRY_MS = LIMITS.console_wait_ms + 5_000

/**
 * `whose`: the link, session or principal; `approval`: the one that is shown, `null` for the whole
 * inbox.
 */
export type InboxStream = {
  readonly stream: string
  readonly whose: string
  readonly approval: string | null
}

export class StreamSlots {
  readonly #most: number
  readonly #each: number
  readonly #expiryMs: number
  readonly #streams = new Map<string, { readonly whose: string; readonly until: number }>()

  /** `each`: the most of one owner. `expiryMs`: how long a slot lasts without being renewed. */
  constructor(
    most: number = LIMITS.streams_tenant,
    each: number = LIMITS.streams_each,
    expiryMs: number = EXPIRY_MS,
  ) {
    this.#most = most
    this.#each = each
    this.#expiryMs = expiryMs
  }

  /** The number of open streams. */
  open(now: number): number {
    for (const [id, { until }] of this.#streams) if (now >= until) this.#streams.delete(id)
    return this.#streams.size
  }

  /**
   * Renews a stream's slot; an expired one takes a new slot if one is free. `most`: the limit in
   * total.
   */
  enter(stream: string, whose: string, now: number, most = this.#most): Result<true> {
    const all = this.open(now)
    const own = [...this.#streams.values()].filter((one) => one.whose === whose).length
    const full = own >= this.#each || all >= most
    if (full && !this.#streams.has(stream))
      return err(
        failure('too_many_streams', 'too many live pages and streams are open; close some and try again'),
      )
    this.stay(stream, whose, now)
    return ok(true)
  }

  stay(stream: string, whose: string, now: number): void {
    this.#streams.set(stream, { whose, until: now + this.#expiryMs })
  }

  leave(stream: string): void {
    this.#streams.delete(stream)
  }
}
