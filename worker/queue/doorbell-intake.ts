// Whether this worker takes doorbells. It takes none while any reason against it stands; doorbells
// stay in Redis in the meantime, for another worker of the pool or for later.

import type { DoorbellQueue } from './doorbells.ts'

/** `unwelcome`: nobody would keep the leases of what this worker claims. */
export type ClosingReason = 'unproven' | 'unwelcome' | 'spool unwritable' | 'spool full'

export class DoorbellIntake {
  readonly #reasons = new Set<ClosingReason>()
  #queue: DoorbellQueue | undefined

  /** From now on the queue pauses and resumes as the reasons say. */
  govern(queue: DoorbellQueue): void {
    this.#queue = queue
    if (this.#reasons.size > 0) queue.pause()
  }

  /** Adds the reason where it stands, and removes it where it does not. */
  closeIf(reason: ClosingReason, stands: boolean): void {
    const wasClosed = this.#reasons.size > 0
    if (stands) this.#reasons.add(reason)
    else this.#reasons.delete(reason)
    const isClosed = this.#reasons.size > 0
    if (wasClosed === isClosed) return
    if (isClosed) this.#queue?.pause()
    else this.#queue?.resume()
  }
}
