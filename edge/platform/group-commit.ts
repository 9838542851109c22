// Group commit: while one batch of writes is synced to disk, the next one gathers, so that many
// callers share one sync. Each piece of work is its own transaction; the runtime's output gate
// holds every answer until its batch is on disk.

export class GroupCommit {
  readonly #storage: DurableObjectStorage
  #queue: Array<() => void> = []
  #draining = false

  constructor(storage: DurableObjectStorage) {
    this.#storage = storage
  }

  /**
   * Runs `work` soon, synchronously and alone. An exception rolls back its writes and rejects.
   * `committed` runs right after the writes of `work`, before any other work, and belongs to the
   * same batch.
   */
  run<T>(work: () => T, committed: (value: T) => void = () => undefined): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#queue.push(() => {
        try {
          const value = this.#storage.transactionSync(work)
          committed(value)
          resolve(value)
        } catch (thrown) {
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
      this.#draining = false // a failing store ends the object; the next one starts from the disk
    }
  }
}
