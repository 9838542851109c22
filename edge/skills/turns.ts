// Whose turn it is. Where one process is all there is, a skill that runs keeps everybody waiting, so skills run one at a time, each for a slice
// of its fuel, and whoever else has something to do comes in between. Who waits for somebody else, or has burnt a slice, lets the next one
// run. Those that have just come and those that come again stand in two lines, served by turns: most need no second slice.

/**
 * Somebody who waits: others say that they are called, and they look. A promise that another object keeps goes on in that one's name, where
 * the platform may refuse what is to be done next.
 */
export class Waiting {
  isCalled = false

  /** Looks each so many milliseconds; `false` where it is late before anybody called. */
  async isHeard(every_ms: number, until = Number.POSITIVE_INFINITY): Promise<boolean> {
    while (!this.isCalled) {
      if (Date.now() >= until) return false
      await new Promise<void>((resolve) => setTimeout(resolve, every_ms))
    }
    return true
  }
}

/** Those that wait for a turn are few, for each has a place. */
const LOOK_MS = 1

export type Turn = { readonly aside: <T>(work: () => Promise<T>) => Promise<T> }

export class Turns {
  #free: number
  readonly #lines: readonly [come: Waiting[], again: Waiting[]] = [[], []]
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
    return (await this.#enter(0, Date.now() + ms)) ? this.#have(work) : undefined
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

  /** `false` where it is late before that. */
  async #enter(line: 0 | 1, until?: number): Promise<boolean> {
    if (this.#free > 0) {
      this.#free -= 1
      return true
    }
    const waiting = new Waiting()
    this.#lines[line].push(waiting)
    if ((await waiting.isHeard(LOOK_MS, until)) || waiting.isCalled) return true // called at the very moment at which it was late
    this.#lines[line].splice(this.#lines[line].indexOf(waiting), 1)
    return false
  }

  #leave(): void {
    const other = this.#last === 0 ? 1 : 0
    const line = this.#lines[other].length > 0 ? other : this.#last
    const next = this.#lines[line].shift()
    this.#last = line
    if (next === undefined) this.#free += 1
    else next.isCalled = true
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
  readonly #enter: () => Promise<unknown>
  readonly #leave: () => void
  #holds = true
  #ended = false

  constructor(enter: () => Promise<unknown>, leave: () => void) {
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
