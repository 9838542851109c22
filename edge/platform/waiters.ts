// Callers that wait inside an object for a key to be woken. In memory only: clients poll again
// after a restart.

export class Waiters<K> {
  readonly #waiting = new Map<K, Set<() => void>>()

  /** Resolves when `key` is woken, or after `ms`. */
  async wait(key: K, ms: number): Promise<void> {
    if (ms <= 0) return
    const peers = this.#waiting.get(key) ?? new Set()
    this.#waiting.set(key, peers)
    await new Promise<void>((resolve) => {
      const finish = () => {
        clearTimeout(timer)
        peers.delete(finish)
        if (peers.size === 0) this.#waiting.delete(key)
        resolve()
      }
      const timer = setTimeout(finish, ms)
      peers.add(finish)
    })
  }

  isAwaited(key: K): boolean {
    return this.#waiting.has(key)
  }

  wake(key: K): void {
    for (const finish of [...(this.#waiting.get(key) ?? [])]) finish()
  }

  wakeAll(): void {
    for (const key of [...this.#waiting.keys()]) this.wake(key)
  }
}
