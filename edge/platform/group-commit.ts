// Group commit: while one batch of writes is being made durable the next gathers, so that many callers share one commit.
// Each piece of work is a transaction of its own; the runtime's output gate holds every answer until its batch is on disk.

export class GroupCommit {
  readonly #storage: DurableObjectStorage
  #queue: Array<() => void> = []
  #draining = false

  constructor(storage: DurableObjectStorage) {
    this.#storage = storage
  }

  /** Runs `work` soon, synchronously and alone. What it throws rolls back its own writes only; `undo` puts memory right. */
  run<T>(work: () => T, undo: () => void = () => undefined): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#queue.push(() => {
        try {
          resolve(this.#storage.transactionSync(work))
        } catch (thrown) {
          undo()
          reject(thrown as Error)
        }
      })
      if (!this.#draining) void this.#drain()
    })
  }

  async #drain(): Promise<void> {
    this.#draining = true
    try {
      while (this.#queue.length > 0) {
        const batch = this.#queue
        this.#queue = []
        for (const work of batch) work()
        await this.#storage.sync()
      }
    } finally {
      this.#draining = false // a store that fails ends the object; the next one starts from what is on disk
    }
  }
}
