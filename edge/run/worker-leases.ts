// Until when the worker of each running call is taken to be there. In memory: after a restart each
// call has a lease anew. It ends no call.

import { LIMITS } from '../../shared/limits.ts'

export class Leases {
  readonly #until = new Map<number, number>()
  #listening = Date.now()

  /**
   * Speaking for a call keeps it until its grant's deadline and no longer: what has not settled by
   * then never will.
   */
  hold(n: number, deadline: number): void {
    this.#until.set(n, Math.min(Date.now() + LIMITS.lease_ms, deadline))
  }

  /** Whether its worker has reported on the call since the claim. */
  isHeld(n: number): boolean {
    return this.#until.has(n)
  }

  /** Restarts the lease. */
  forget(n: number): void {
    this.#until.delete(n)
  }

  until(n: number): number {
    return Math.max(this.#until.get(n) ?? 0, this.#listening + LIMITS.lease_ms)
  }

  /** Who slept can't tell who was silent. */
  slept(): void {
    this.#listening = Date.now()
  }
}
