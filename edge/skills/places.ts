// Who of those that call skills at the same time is let in: first come, first served, as long as others have their share. One share more than
// there are callers is kept free, so that whoever comes next waits for nobody, however many calls of one caller there are.

export class Places {
  readonly #all: number
  readonly #held = new Map<string, number>()
  /** By caller; the first of them is whose turn it is. */
  readonly #waiting = new Map<string, (() => void)[]>()

  constructor(all: number) {
    this.#all = all
  }

  /** Does `work` of this caller when there is a place. */
  async take<T>(caller: string, work: () => Promise<T>): Promise<T> {
    if (!this.#enters(caller)) await new Promise<void>((resolve) => this.#wait(caller, resolve))
    try {
      return await work()
    } finally {
      this.#leave(caller)
    }
  }

  #enters(caller: string): boolean {
    const held = this.#held.get(caller) ?? 0
    const callers = new Set([...this.#held.keys(), ...this.#waiting.keys(), caller]).size
    const free = this.#all - [...this.#held.values()].reduce((sum, each) => sum + each, 0)
    if (free === 0 || held >= Math.ceil(this.#all / (callers + 1))) return false
    this.#held.set(caller, held + 1)
    return true
  }

  #wait(caller: string, resolve: () => void): void {
    const line = this.#waiting.get(caller)
    if (line === undefined) this.#waiting.set(caller, [resolve])
    else line.push(resolve)
  }

  #leave(caller: string): void {
    const held = (this.#held.get(caller) ?? 1) - 1
    if (held === 0) this.#held.delete(caller)
    else this.#held.set(caller, held)
    while ([...this.#waiting.keys()].some((next) => this.#admits(next)));
  }

  /** One of those that wait; the next time this caller is behind the others. */
  #admits(caller: string): boolean {
    if (!this.#enters(caller)) return false
    const [first, ...rest] = this.#waiting.get(caller) ?? []
    this.#waiting.delete(caller)
    if (rest.length > 0) this.#waiting.set(caller, rest)
    first?.()
    return true
  }
}
