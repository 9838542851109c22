// The calls in flight on this worker, and the switch that ends each. A call is listed at most once,
// so a second doorbell of the same call is dropped (Q04).

/**
 * Why a running process has to end; the first reason counts. disowned: the edge no longer knows this
 * worker.
 */
export type StopReason = 'cancelled' | 'shutdown' | 'disowned'

export type CallInFlight = {
  readonly call: string
  /** Aborted with a `StopReason`. */
  readonly stop: AbortController
  /** Undefined until the grant is read; heartbeats name no call without one. */
  fence: number | undefined
  /**
   * Removals of the call's folders, which run while its end is reported. The call stays listed
   * until all are done.
   */
  readonly cleanups: Promise<unknown>[]
}

export class CallsInFlight {
  readonly #calls = new Map<string, CallInFlight>()
  #idle: (() => void)[] = []

  get size(): number {
    return this.#calls.size
  }

  /** Lists the call. Undefined if it is listed already. */
  add(call: string): CallInFlight | undefined {
    if (this.#calls.has(call)) return undefined
    const inFlight: CallInFlight = { call, stop: new AbortController(), fence: undefined, cleanups: [] }
    this.#calls.set(call, inFlight)
    return inFlight
  }

  remove({ call }: CallInFlight): void {
    this.#calls.delete(call)
    if (this.#calls.size > 0) return
    for (const done of this.#idle.splice(0)) done()
  }

  /** Ends the call if it runs under this fence; leaves one that runs under a later grant. */
  stop(call: string, fence: number, reason: StopReason): void {
    const inFlight = this.#calls.get(call)
    if (inFlight?.fence === fence) inFlight.stop.abort(reason)
  }

  stopAll(reason: StopReason): void {
    for (const { stop } of this.#calls.values()) stop.abort(reason)
  }

  /** The calls that a heartbeat names. */
  leasedCalls(): { call: string; fence: number }[] {
    return [...this.#calls.values()].flatMap(({ call, fence }) =>
      fence === undefined ? [] : [{ call, fence }],
    )
  }

  whenEmpty(): Promise<void> {
    return this.#calls.size === 0 ? Promise.resolve() : new Promise((done) => this.#idle.push(done))
  }
}
