// Whose turn it is. Where one process is all there is, a skill that runs keeps everybody waiting, so skills run one at a time, each for a slice
// of its fuel, and whoever else has something to do comes in between. Who waits for somebody else, or has burnt a slice, lets the next one
// run. Those that have just come and those that come again stand in two lines, served by turns: most need no second slice.

import { MAX_SKILL_LIMITS } from '../../../shared/limits.ts'

/** Who is called and does not come is gone. */
const COMING_MS = 1_000

/**
 * Somebody who waits: others say that they are called, and they look. A promise that another object keeps goes on in that one's name, where
 * the platform may refuse what is to be done next.
 */
export class Waiting {
  isCalled = false

  /** Looks after so many milliseconds each time; `false` where it is late before anybody called. */
  async isHeard(
    pause_ms: () => number,
    look: () => void,
    until = Number.POSITIVE_INFINITY,
  ): Promise<boolean> {
    while (!this.isCalled) {
      if (Date.now() >= until) return false
      const [pause, begun] = [pause_ms(), Date.now()]
      await new Promise<void>((resolve) => setTimeout(resolve, pause))
      // Where all were held up, whoever is called is late and not gone.
      if (!this.isCalled && Date.now() - begun < pause + COMING_MS / 2) look()
    }
    return true
  }
}

/** What is held by whom, and until when: an object may die in the middle (of a full disk, say), and what it had begun never ends. */
export class Leases<T> {
  readonly #all = new Map<Waiting, { readonly what: T; readonly until: number }>()

  get size(): number {
    return this.#all.size
  }

  give(to: Waiting, what: T, ms: number): void {
    this.#all.set(to, { what, until: Date.now() + ms })
  }

  call(who: Waiting, what: T): void {
    who.isCalled = true
    this.give(who, what, COMING_MS)
  }

  /** `false` where whoever was called came too late, and has to wait anew. */
  comes(who: Waiting, ms: number): boolean {
    const lease = this.#all.get(who)
    if (lease !== undefined) this.give(who, lease.what, ms)
    who.isCalled = lease !== undefined
    return who.isCalled
  }

  /** What it was; undefined where it is somebody else's by now. */
  end(of: Waiting): T | undefined {
    const lease = this.#all.get(of)
    this.#all.delete(of)
    return lease?.what
  }

  overdue(): Waiting[] {
    const now = Date.now()
    return [...this.#all].filter(([, { until }]) => until < now).map(([who]) => who)
  }
}

/** Those that wait for a turn are few, for each has a place. */
const LOOK_MS = 1
/** Nobody has a turn for so long: it ends with each slice, and with a call. */
const TURN_MS = MAX_SKILL_LIMITS.timeout_ms

export type Turn = { readonly aside: <T>(work: () => Promise<T>) => Promise<T> }

export class Turns {
  readonly #atOnce: number
  readonly #turn_ms: number
  readonly #taken = new Leases<true>()
  readonly #lines: readonly [come: Waiting[], again: Waiting[]] = [[], []]
  #last: 0 | 1 = 1

  constructor(atOnce: number, turn_ms: number = TURN_MS) {
    this.#atOnce = atOnce
    this.#turn_ms = turn_ms
  }

  /** Does `work` when it is its turn. */
  async take<T>(work: (turn: Turn) => Promise<T>): Promise<T> {
    return this.#have(await this.#enter(0), work)
  }

  /** The same, and undefined where its first turn does not come within so many milliseconds. */
  async takeWithin<T>(ms: number, work: (turn: Turn) => Promise<T>): Promise<T | undefined> {
    const own = await this.#enter(0, Date.now() + ms)
    return own === undefined ? undefined : this.#have(own, work)
  }

  async #have<T>(own: Waiting | undefined, work: (turn: Turn) => Promise<T>): Promise<T> {
    const turn = new Held(
      own,
      () => this.#enter(1),
      (own) => this.#leave(own),
    )
    try {
      return await work(turn)
    } finally {
      turn.end()
    }
  }

  /** Undefined where it is late before that. */
  async #enter(line: 0 | 1, until?: number): Promise<Waiting | undefined> {
    const own = new Waiting()
    this.#takeBack()
    if (this.#taken.size < this.#atOnce) {
      this.#taken.give(own, true, this.#turn_ms)
      return own
    }
    for (;;) {
      this.#lines[line].push(own)
      const isHeard = await own.isHeard(
        () => LOOK_MS,
        () => this.#takeBack(),
        until,
      )
      if (!isHeard && !own.isCalled) {
        this.#lines[line].splice(this.#lines[line].indexOf(own), 1)
        return undefined
      } // who is called at the very moment at which it is late has its turn
      if (this.#taken.comes(own, this.#turn_ms)) return own
    }
  }

  /** What the dead hold. */
  #takeBack(): void {
    for (const dead of this.#taken.overdue()) this.#leave(dead)
  }

  #leave(own: Waiting): void {
    if (this.#taken.end(own) === undefined) return
    const other = this.#last === 0 ? 1 : 0
    const line = this.#lines[other].length > 0 ? other : this.#last
    const next = this.#lines[line].shift()
    this.#last = line
    if (next !== undefined) this.#taken.call(next, true)
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
  #own: Waiting | undefined
  readonly #enter: () => Promise<Waiting | undefined>
  readonly #leave: (own: Waiting) => void
  #ended = false

  constructor(
    own: Waiting | undefined,
    enter: () => Promise<Waiting | undefined>,
    leave: (own: Waiting) => void,
  ) {
    this.#own = own
    this.#enter = enter
    this.#leave = leave
  }

  async aside<T>(work: () => Promise<T>): Promise<T> {
    this.#give()
    try {
      return await work()
    } finally {
      if (!this.#ended && this.#own === undefined) {
        this.#own = await this.#enter()
        if (this.#ended) this.#give()
      }
    }
  }

  end(): void {
    this.#ended = true
    this.#give()
  }

  #give(): void {
    if (this.#own !== undefined) this.#leave(this.#own)
    this.#own = undefined
  }
}
