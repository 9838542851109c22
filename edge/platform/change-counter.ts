// A counter that grows with every change, and callers that wait for the next one. It carries no
// content, so nothing can be lost: a caller that sees a new number reads the state again.

import { Waiters } from './waiters.ts'

const ANY = '*'

export class ChangeCounter {
  /**
   * Starts at the current time, above all numbers from before a restart, so that old waiters see a
   * change.
   */
  #number = Date.now()
  readonly #waiters = new Waiters<string>()

  get number(): number {
    return this.#number
  }

  /** Counts a change and wakes waiters. `about`: whom it concerns; without it, everybody. */
  notify(about?: readonly string[]): void {
    this.#number = Math.max(this.#number + 1, Date.now())
    if (about === undefined) this.#waiters.wakeAll()
    else for (const one of [ANY, ...about]) this.#waiters.wake(one)
  }

  /** The number, after waiting up to `ms` for it to differ from `known`. */
  async after(known: number, ms: number): Promise<number> {
    if (known === this.#number) await this.#waiters.wait(ANY, ms)
    return this.#number
  }

  /** Waits for a change about this one, for up to `ms`. */
  async about(one: string, ms: number): Promise<void> {
    await this.#waiters.wait(one, ms)
  }
}
