// Owns who may go on when: places of which there are so many, a gate, and what one does at a time. Nothing here knows of doorbells.

/** Whoever waits for a place gets one in turn. Both queues feed the same, so that together they hold no more than this worker may run. */
export class Places {
  #free: number
  readonly #waiting: (() => void)[] = []

  constructor(count: number) {
    this.#free = count
  }

  async take(): Promise<void> {
    if (!this.tryTake()) await new Promise<void>((taken) => this.#waiting.push(taken))
  }

  tryTake(): boolean {
    if (this.#free === 0) return false
    this.#free -= 1
    return true
  }

  /** Nobody waits any longer: there is nothing to have a place for. */
  end(): void {
    for (const taken of this.#waiting.splice(0)) taken()
  }

  leave(): void {
    const next = this.#waiting.shift()
    if (next === undefined) this.#free += 1
    else next()
  }
}

export class Mutex {
  #last: Promise<unknown> = Promise.resolve()

  alone<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#last.then(work)
    this.#last = done.catch(() => undefined)
    return done
  }
}

/** Nothing is taken while it is shut, nor ever again once it is over. */
export class Gate {
  over = false
  #shut: PromiseWithResolvers<void> | undefined

  get isOpen(): boolean {
    return !this.over && this.#shut === undefined
  }

  shut(): void {
    if (!this.over) this.#shut ??= Promise.withResolvers()
  }

  open(): void {
    this.#shut?.resolve()
    this.#shut = undefined
  }

  end(): void {
    this.over = true
    this.open()
  }

  async passed(): Promise<void> {
    while (this.#shut !== undefined) await this.#shut.promise
  }
}
