// Owns the list of calls that this worker has in hand, and the switch that ends each one. A call is in it once (Q04): the second doorbell
// of the same call finds it there and is dropped.

/** Why a running process is to end. The first reason stays. disowned: the edge knows this worker no more. */
export type StopReason = 'cancelled' | 'shutdown' | 'disowned'

export type InHand = {
  readonly call: string
  /** Aborted with a `StopReason`. */
  readonly stop: AbortController
  /** From the grant; nothing is spoken for before there is one. */
  fence: number | undefined
  /** What is removed of the call while its end is told. Until all of that is gone the call is in hand. */
  readonly leaving: Promise<unknown>[]
}

export class Running {
  readonly #calls = new Map<string, InHand>()
  #idle: (() => void)[] = []

  get size(): number {
    return this.#calls.size
  }

  /** Takes the call in hand, unless it is. */
  take(call: string): InHand | undefined {
    if (this.#calls.has(call)) return undefined
    const inHand: InHand = { call, stop: new AbortController(), fence: undefined, leaving: [] }
    this.#calls.set(call, inHand)
    return inHand
  }

  leave({ call }: InHand): void {
    this.#calls.delete(call)
    if (this.#calls.size > 0) return
    for (const done of this.#idle.splice(0)) done()
  }

  /** Ends the call if it runs under this fence; a later grant of the same call is another matter. */
  stop(call: string, fence: number, reason: StopReason): void {
    const inHand = this.#calls.get(call)
    if (inHand?.fence === fence) inHand.stop.abort(reason)
  }

  stopAll(reason: StopReason): void {
    for (const { stop } of this.#calls.values()) stop.abort(reason)
  }

  /** What a heartbeat speaks for. */
  spokenFor(): { call: string; fence: number }[] {
    return [...this.#calls.values()].flatMap(({ call, fence }) =>
      fence === undefined ? [] : [{ call, fence }],
    )
  }

  empty(): Promise<void> {
    return this.#calls.size === 0 ? Promise.resolve() : new Promise((done) => this.#idle.push(done))
  }
}
