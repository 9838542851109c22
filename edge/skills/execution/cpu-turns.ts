// CPU turns of skills. workerd runs all isolates on one thread, so a skill that computes delays
// everything else. Skills therefore compute one at a time, for one slice of fuel each, and other
// work runs between slices. A skill that waits for I/O or has used up its slice gives its turn
// away. Newcomers and returning skills queue separately and are served alternately, because most
// calls need no second slice.

import { MAX_SKILL_LIMITS } from '../../../shared/limits.ts'

/** A waiter that does not resume within 1 s of being called is treated as dead. */
const RESUME_MS = 1_000

/**
 * A waiter in a queue. The queue sets `isCalled` and the waiter polls it: a promise that another
 * request resolves would continue in that request's context, where the platform may refuse what
 * follows.
 */
export class Waiter {
  isCalled = false

  /**
   * Polls until it is called; returns `false` if `until` passes first. Before each poll it asks
   * `pause_ms` how long to sleep, after each it runs `check`, which reclaims expired leases.
   */
  async untilCalled(
    pause_ms: () => number,
    check: () => void,
    until = Number.POSITIVE_INFINITY,
  ): Promise<boolean> {
    while (!this.isCalled) {
      if (Date.now() >= until) return false
      const [pause, begun] = [pause_ms(), Date.now()]
      await new Promise<void>((resolve) => setTimeout(resolve, pause))
      // If the whole process stalled, a slow waiter is late, not dead: don't reclaim its lease.
      if (!this.isCalled && Date.now() - begun < pause + RESUME_MS / 2) check()
    }
    return true
  }
}

/**
 * The leases of waiters: what each one holds, and until when. Leases expire because the platform
 * can end an object in the middle of its work (if the disk is full, for instance), and then nobody
 * releases what it holds.
 */
export class WaiterLeases<T> {
  readonly #all = new Map<Waiter, { readonly what: T; readonly until: number }>()

  get size(): number {
    return this.#all.size
  }

  set(waiter: Waiter, what: T, ms: number): void {
    this.#all.set(waiter, { what, until: Date.now() + ms })
  }

  call(waiter: Waiter, what: T): void {
    waiter.isCalled = true
    this.set(waiter, what, RESUME_MS)
  }

  /**
   * Extends the lease of a waiter that was called; `false` if it came too late and must queue
   * again.
   */
  resume(waiter: Waiter, ms: number): boolean {
    const lease = this.#all.get(waiter)
    if (lease !== undefined) this.set(waiter, lease.what, ms)
    waiter.isCalled = lease !== undefined
    return waiter.isCalled
  }

  /** Ends the lease and returns what was held; undefined if the lease had been reclaimed before. */
  release(waiter: Waiter): T | undefined {
    const lease = this.#all.get(waiter)
    this.#all.delete(waiter)
    return lease?.what
  }

  expired(): Waiter[] {
    const now = Date.now()
    return [...this.#all].filter(([, { until }]) => until < now).map(([waiter]) => waiter)
  }
}

/** Few skills wait for a turn, because each holds a concurrency slot, so they can poll often. */
const POLL_MS = 1
/** The longest lease of a turn: a turn ends with each slice, and at the latest with the call. */
const TURN_MS = MAX_SKILL_LIMITS.timeout_ms

/**
 * A skill's turn. `releaseDuring` gives the turn away while `work` waits and takes it again after.
 */
export type CpuTurn = { readonly releaseDuring: <T>(work: () => Promise<T>) => Promise<T> }

export class CpuTurns {
  readonly #atOnce: number
  readonly #turn_ms: number
  readonly #taken = new WaiterLeases<true>()
  readonly #queues: readonly [newcomers: Waiter[], returning: Waiter[]] = [[], []]
  #lastServed: 0 | 1 = 1

  constructor(atOnce: number, turn_ms: number = TURN_MS) {
    this.#atOnce = atOnce
    this.#turn_ms = turn_ms
  }

  /** Runs `work` when its turn comes. */
  async take<T>(work: (turn: CpuTurn) => Promise<T>): Promise<T> {
    return this.#run(await this.#enter(0), work)
  }

  /**
   * Like `take`, but returns undefined if the first turn does not come within `ms` milliseconds.
   */
  async takeWithin<T>(ms: number, work: (turn: CpuTurn) => Promise<T>): Promise<T | undefined> {
    const own = await this.#enter(0, Date.now() + ms)
    return own === undefined ? undefined : this.#run(own, work)
  }

  async #run<T>(own: Waiter | undefined, work: (turn: CpuTurn) => Promise<T>): Promise<T> {
    const turn = new HeldTurn(
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

  /** Waits for a turn in the given queue; undefined if `until` passes first. */
  async #enter(queue: 0 | 1, until?: number): Promise<Waiter | undefined> {
    const own = new Waiter()
    this.#reclaimExpired()
    if (this.#taken.size < this.#atOnce) {
      this.#taken.set(own, true, this.#turn_ms)
      return own
    }
    for (;;) {
      this.#queues[queue].push(own)
      const inTime = await own.untilCalled(
        () => POLL_MS,
        () => this.#reclaimExpired(),
        until,
      )
      // A waiter that is called at the very moment its time runs out takes the turn.
      if (!inTime && !own.isCalled) {
        this.#queues[queue].splice(this.#queues[queue].indexOf(own), 1)
        return undefined
      }
      if (this.#taken.resume(own, this.#turn_ms)) return own
    }
  }

  #reclaimExpired(): void {
    for (const dead of this.#taken.expired()) this.#leave(dead)
  }

  #leave(own: Waiter): void {
    if (this.#taken.release(own) === undefined) return
    const other = this.#lastServed === 0 ? 1 : 0
    const queue = this.#queues[other].length > 0 ? other : this.#lastServed
    const next = this.#queues[queue].shift()
    this.#lastServed = queue
    if (next !== undefined) this.#taken.call(next, true)
  }
}

/** A timer this late was delayed by other work, which gets this many chances to finish. */
const [LATE_MS, IDLE_TRIES] = [2, 5]

/**
 * Waits until a timer fires on time, so that other requests' work comes first. Such work consists
 * of many small steps, and each of them would otherwise wait for a whole slice.
 */
export async function waitUntilIdle(): Promise<void> {
  for (let tries = 0; tries < IDLE_TRIES; tries++) {
    const begun = Date.now()
    await new Promise<void>((resolve) => setTimeout(resolve, 0))
    if (Date.now() - begun <= LATE_MS) return
  }
}

/** A turn that ends for good with its work, even if something that the work started still waits. */
class HeldTurn implements CpuTurn {
  #own: Waiter | undefined
  readonly #enter: () => Promise<Waiter | undefined>
  readonly #leave: (own: Waiter) => void
  #ended = false

  constructor(
    own: Waiter | undefined,
    enter: () => Promise<Waiter | undefined>,
    leave: (own: Waiter) => void,
  ) {
    this.#own = own
    this.#enter = enter
    this.#leave = leave
  }

  async releaseDuring<T>(work: () => Promise<T>): Promise<T> {
    this.#release()
    try {
      return await work()
    } finally {
      if (!this.#ended && this.#own === undefined) {
        this.#own = await this.#enter()
        if (this.#ended) this.#release()
      }
    }
  }

  end(): void {
    this.#ended = true
    this.#release()
  }

  #release(): void {
    if (this.#own !== undefined) this.#leave(this.#own)
    this.#own = undefined
  }
}
