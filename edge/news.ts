// Whether something has changed since somebody looked: a number that only grows, and those who wait for the next. It holds no news itself, so
// none can be lost: who hears of any looks again.

import { Waiters } from './waiters.ts'

export class News {
  /** Begins where no number of an earlier life of the object lies: who waited for that one is told. */
  #number = Date.now()
  readonly #waiters = new Waiters<'any'>()

  get number(): number {
    return this.#number
  }

  tell(): void {
    this.#number = Math.max(this.#number + 1, Date.now())
    this.#waiters.wake('any')
  }

  async after(known: number, ms: number): Promise<number> {
    if (known === this.#number) await this.#waiters.wait('any', ms)
    return this.#number
  }
}
