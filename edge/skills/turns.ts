// Whose turn it is, first come, first served. Where one process is all there is, a skill that runs keeps everybody waiting for as long as its
// fuel lasts, so skills run one after the other, and whoever else has something to do comes in between.

export class Turns {
  #free: number
  readonly #waiting: (() => void)[] = []

  constructor(atOnce: number) {
    this.#free = atOnce
  }

  /** Does `work` when it is its turn. */
  async take<T>(work: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free -= 1
    else await new Promise<void>((resolve) => this.#waiting.push(resolve))
    try {
      return await work()
    } finally {
      const next = this.#waiting.shift()
      if (next === undefined) this.#free += 1
      else setTimeout(next, 0)
    }
  }
}
