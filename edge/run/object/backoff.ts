// When a run that failed is tried again. Each failure in a row makes the pause of that run longer, and of
// no other.

const FIRST_MS = 2_000
const LONGEST_MS = 30_000

export class Backoff {
  readonly #failed = new Map<string, { readonly times: number; readonly until: number }>()

  /** Returns when the run is to be tried again. */
  failed(run: string, now: number): number {
    const times = (this.#failed.get(run)?.times ?? 0) + 1
    const until = now + Math.min(FIRST_MS * 2 ** (times - 1), LONGEST_MS)
    this.#failed.set(run, { times, until })
    return until
  }

  succeeded(run: string): void {
    this.#failed.delete(run)
  }

  /** When a run that has failed is to be tried again; undefined for any other. */
  until(run: string): number | undefined {
    return this.#failed.get(run)?.until
  }
}
