// Leases of the workers that run calls, in memory. After a restart of this object every call gets a
// new lease. The lifecycle ends calls whose lease is lost.

import { LIMITS } from '../../shared/limits.ts'

export class WorkerLeases {
  readonly #until = new Map<number, number>()
  #startedAt = Date.now()

  /** Extends the lease, but never beyond the grant's deadline: after that the call can't settle. */
  hold(n: number, deadline: number): void {
    this.#until.set(n, Math.min(Date.now() + LIMITS.lease_ms, deadline))
  }

  /** Whether the worker has reported on the call since the claim. */
  isHeld(n: number): boolean {
    return this.#until.has(n)
  }

  /** Restarts the lease. */
  forget(n: number): void {
    this.#until.delete(n)
  }

  until(n: number): number {
    return Math.max(this.#until.get(n) ?? 0, this.#startedAt + LIMITS.lease_ms)
  }

  /**
   * After our own pause we can't tell which workers missed a heartbeat, so every lease restarts.
   */
  restartAll(): void {
    this.#startedAt = Date.now()
  }
}
