// Requests outside of the objects that wait for a change of a call. In a single-process installation
// they share memory with the runs, so a wait needs no message that stays open, which costs 50 kB for
// each, and keeps no object in memory.

/** By the id of a call. A watch resolves only promises of its own request. */
const watches = new Map<string, Set<CallWatch>>()

export class CallWatch {
  readonly #call: string
  #change = Promise.withResolvers<void>()

  /** Watches from now on, until `leave`. */
  constructor(call: string) {
    this.#call = call
    const others = watches.get(call) ?? new Set()
    watches.set(call, others.add(this))
  }

  /** Resolves when the call has changed since the last time, or after `ms`. */
  async changed(ms: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, ms)
    try {
      await Promise.race([this.#change.promise, promise])
    } finally {
      clearTimeout(timer)
    }
    this.#change = Promise.withResolvers()
  }

  notify(): void {
    this.#change.resolve()
  }

  leave(): void {
    const others = watches.get(this.#call)
    others?.delete(this)
    if (others?.size === 0) watches.delete(this.#call)
  }
}

export const isWatched = (call: string): boolean => watches.has(call)

export function notifyWatches(call: string): void {
  for (const watch of watches.get(call) ?? []) watch.notify()
}
