// Concurrency primitives of the doorbell queue: counted slots, a mutex, and a pause switch.

/**
 * A counting semaphore, first come first served. Both queues share one, which bounds the calls of
 * this worker.
 */
export class Slots {
  #free: number
  readonly #waiting: (() => void)[] = []

  constructor(count: number) {
    this.#free = count
  }

  async acquire(): Promise<void> {
    if (!this.tryAcquire()) await new Promise<void>((resume) => this.#waiting.push(resume))
  }

  tryAcquire(): boolean {
    if (this.#free === 0) return false
    this.#free -= 1
    return true
  }

  /** Releases all waiters at shutdown, without slots. */
  releaseWaiters(): void {
    for (const resume of this.#waiting.splice(0)) resume()
  }

  release(): void {
    const next = this.#waiting.shift()
    if (next === undefined) this.#free += 1
    else next()
  }
}

export class Mutex {
  #last: Promise<unknown> = Promise.resolve()

  run<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#last.then(work)
    this.#last = done.catch(() => undefined)
    return done
  }
}

/** Pauses the fetching of doorbells, and ends it at shutdown. */
export class PauseSwitch {
  ended = false
  #shut: PromiseWithResolvers<void> | undefined

  get isOpen(): boolean {
    return !this.ended && this.#shut === undefined
  }

  pause(): void {
    if (!this.ended) this.#shut ??= Promise.withResolvers()
  }

  resume(): void {
    this.#shut?.resolve()
    this.#shut = undefined
  }

  end(): void {
    this.ended = true
    this.resume()
  }

  async whenOpen(): Promise<void> {
    while (this.#shut !== undefined) await this.#shut.promise
  }
}
