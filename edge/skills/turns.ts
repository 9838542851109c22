// Whose turn it is. Where one process is all there is, a skill that runs keeps everybody waiting, so skills run one at a time, each for a slice
// of its fuel, and whoever else has something to do comes in between. Who waits for somebody else, or has burnt a slice, lets the next one
// run. Those that have just come and those that come again stand in two lines, served by turns: most need no second slice.

export type Turn = { readonly aside: <T>(work: () => Promise<T>) => Promise<T> }

export class Turns {
  #free: number
  readonly #lines: readonly [come: (() => void)[], again: (() => void)[]] = [[], []]
  #last: 0 | 1 = 1

  constructor(atOnce: number) {
    this.#free = atOnce
  }

  /** Does `work` when it is its turn. */
  async take<T>(work: (turn: Turn) => Promise<T>): Promise<T> {
    await this.#enter(0)
    return this.#have(work)
  }

  /** The same, and undefined where its first turn does not come within so many milliseconds. */
  async takeWithin<T>(ms: number, work: (turn: Turn) => Promise<T>): Promise<T | undefined> {
    return (await this.#entersWithin(ms)) ? this.#have(work) : undefined
  }

  async #have<T>(work: (turn: Turn) => Promise<T>): Promise<T> {
    const turn = new Held(
      () => this.#enter(1),
      () => this.#leave(),
    )
    try {
      return await work(turn)
    } finally {
      turn.end()
    }
  }

  async #enter(line: 0 | 1): Promise<void> {
    if (this.#free > 0) this.#free -= 1
    else await new Promise<void>((resolve) => this.#lines[line].push(resolve))
  }

  async #entersWithin(ms: number): Promise<boolean> {
    const [line] = this.#lines
    const entered = Promise.withResolvers<boolean>()
    const next = (): void => entered.resolve(true)
    const timer = setTimeout(() => {
      const at = line.indexOf(next)
      if (at < 0) return // it is called already
      line.splice(at, 1)
      entered.resolve(false)
    }, ms)
    if (this.#free > 0) {
      this.#free -= 1
      next()
    } else line.push(next)
    const enters = await entered.promise
    clearTimeout(timer)
    return enters
  }

  #leave(): void {
    const other = this.#last === 0 ? 1 : 0
    const line = this.#lines[other].length > 0 ? other : this.#last
    const next = this.#lines[line].shift()
    this.#last = line
    if (next === undefined) this.#free += 1
    else setTimeout(next, 0)
  }
}

/** A timer that is late was kept waiting by somebody's work: so many times at the most, more of it is let through. */
const [LATE_MS, LULLS] = [2, 5]

/** Until nobody else has had anything to do for a moment: work of others comes in many small pieces, and each would wait for a slice. */
export async function lull(): Promise<void> {
  for (let tries = 0; tries < LULLS; tries++) {
    const begun = Date.now()
    await new Promise<void>((resolve) => setTimeout(resolve, 0))
    if (Date.now() - begun <= LATE_MS) return
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
