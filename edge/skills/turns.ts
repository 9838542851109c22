// Whose turn it is, first come, first served. Where one process is all there is, a skill that runs keeps everybody waiting for as long as its
// fuel lasts, so skills run one after the other, and whoever else has something to do comes in between. Who waits for somebody else lets
// the next one run meanwhile.

export type Turn = { readonly aside: <T>(work: () => Promise<T>) => Promise<T> }

export class Turns {
  #free: number
  readonly #waiting: (() => void)[] = []

  constructor(atOnce: number) {
    this.#free = atOnce
  }

  /** Does `work` when it is its turn. */
  async take<T>(work: (turn: Turn) => Promise<T>): Promise<T> {
    await this.#enter()
    const turn = new Held(
      () => this.#enter(),
      () => this.#leave(),
    )
    try {
      return await work(turn)
    } finally {
      turn.end()
    }
  }

  async #enter(): Promise<void> {
    if (this.#free > 0) this.#free -= 1
    else await new Promise<void>((resolve) => this.#waiting.push(resolve))
  }

  #leave(): void {
    const next = this.#waiting.shift()
    if (next === undefined) this.#free += 1
    else setTimeout(next, 0)
  }
}

/** One turn: given up while its work waits, and for good when that has ended, whoever still waits in it. */
class Held implements Turn {
  readonly #enter: () => Promise<void>
  readonly #leave: () => void
  #holds = true
  #ended = false

  constructor(enter: () => Promise<void>, leave: () => void) {
    this.#enter = enter
    this.#leave = leave
  }

  async aside<T>(work: () => Promise<T>): Promise<T> {
    this.#give()
    try {
      return await work()
    } finally {
      if (!this.#ended && !this.#holds) {
        await this.#enter()
        this.#holds = true
        if (this.#ended) this.#give()
      }
    }
  }

  end(): void {
    this.#ended = true
    this.#give()
  }

  #give(): void {
    if (!this.#holds) return
    this.#holds = false
    this.#leave()
  }
}
