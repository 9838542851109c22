// Caches how many bytes the tenant's calls have left, as its log counts them. While calls come, it asks
// the log again every second, so that no call waits for the log. An old number admits nothing (L6).

const AGAIN_MS = 1_000
const OLD_MS = 5_000

/** Bytes that calls have left, and all that the tenant stored at that time. */
export type Stored = { readonly calls: number; readonly all: number }

export class CallsStored {
  readonly #ask: () => Promise<Stored>
  #stored: Stored = { calls: 0, all: 0 }
  #at = Number.NEGATIVE_INFINITY
  #asking: Promise<Stored> | undefined
  #isUsed = false
  #isWatched = false

  constructor(ask: () => Promise<Stored>) {
    this.#ask = ask
  }

  /** Undefined if it is too old. Sends nothing: workerd forbids that in a request to another object. */
  known(now: number): Stored | undefined {
    this.#isUsed = true
    return this.#isYounger(OLD_MS, now) ? this.#stored : undefined
  }

  /** Rejects if the log does not answer. */
  async current(now: number): Promise<Stored> {
    if (this.#isYounger(AGAIN_MS, now)) return this.#stored
    this.#asking ??= this.#refresh().finally(() => {
      this.#asking = undefined
    })
    return this.#asking
  }

  /** Compares with the absolute difference, because the clock may have been set back. */
  #isYounger(ms: number, now: number): boolean {
    return Math.abs(now - this.#at) < ms
  }

  async #refresh(): Promise<Stored> {
    const stored = await this.#ask()
    this.#stored = stored
    this.#at = Date.now()
    this.#watch()
    return stored
  }

  /** Asks again soon, if the number is used in the meantime. */
  #watch(): void {
    if (this.#isWatched) return
    this.#isWatched = true
    setTimeout(() => {
      this.#isWatched = false
      if (this.#isUsed) void this.current(Date.now()).catch(() => undefined) // the next call asks again
      this.#isUsed = false
    }, AGAIN_MS)
  }
}
