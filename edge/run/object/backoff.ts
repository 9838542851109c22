// When the runs that failed are tried again: each later than the time before. A run that fails delays
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
