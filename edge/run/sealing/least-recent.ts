// A cache of a bounded number of bytes, which drops the least recently used values first.

type Held<V> = { readonly value: V; bytes: number }

export class LeastRecent<V> {
  readonly #most: number
  /** In the order of their last use. */
  readonly #held = new Map<string, Held<V>>()
  #bytes = 0

  constructor(most: number) {
    this.#most = most
  }

  get(key: string): V | undefined {
    const held = this.#held.get(key)
    if (held === undefined) return undefined
    this.#held.delete(key)
    this.#held.set(key, held)
    return held.value
  }

  /** A value that is larger than the whole cache is not kept. */
  set(key: string, value: V, bytes: number): void {
    this.delete(key)
    if (bytes > this.#most) return
    this.#held.set(key, { value, bytes })
    this.#bytes += bytes
    for (const oldest of this.#held.keys()) {
      if (this.#bytes <= this.#most) return
      this.delete(oldest)
    }
  }

  delete(key: string): void {
    this.#bytes -= this.#held.get(key)?.bytes ?? 0
    this.#held.delete(key)
  }
}
