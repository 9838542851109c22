// Whether something has changed since somebody looked: a number that only grows, and those who wait for the next. It holds no news
// itself, so none can be lost: who hears of any looks again.

import { Waiters } from './waiters.ts'

const ANY = '*'

export class News {
  /** Begins where no number of an earlier life of the object lies: who waited for that one is told. */
  #number = Date.now()
  readonly #waiters = new Waiters<string>()

  get number(): number {
    return this.#number
  }

  /** `about` whom; without, it may be about anybody. */
  tell(about?: readonly string[]): void {
    this.#number = Math.max(this.#number + 1, Date.now())
    if (about === undefined) this.#waiters.wakeAll()
    else for (const one of [ANY, ...about]) this.#waiters.wake(one)
  }

  async after(known: number, ms: number): Promise<number> {
    if (known === this.#number) await this.#waiters.wait(ANY, ms)
    return this.#number
  }

  /** Until there is news about this one, or `ms` have gone by. */
  async about(one: string, ms: number): Promise<void> {
    await this.#waiters.wait(one, ms)
  }
}
