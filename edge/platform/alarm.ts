// Sets a Durable Object's single alarm to the earliest time at which anything is due.

import { LIMITS } from '../../shared/limits.ts'

export class Alarm {
  readonly #storage: DurableObjectStorage
  readonly #nextDue: () => number | null
  #at = Number.POSITIVE_INFINITY

  constructor(storage: DurableObjectStorage, nextDue: () => number | null) {
    this.#storage = storage
    this.#nextDue = nextDue
  }

  arm(due: number): void {
    if (due >= this.#at) return
    // After a restart an earlier alarm may be set already, which must not be postponed.
    const before = this.#at === Number.POSITIVE_INFINITY ? (this.#nextDue() ?? due) : due
    // Never in the past, because a late alarm counts as a sign that the process slept. And never at
    // the time of the alarm that is being handled, or the platform takes the new one for it.
    this.#at = Math.max(Math.min(due, before), Date.now() + 1)
    void this.#storage.setAlarm(this.#at)
  }

  /** The alarm was removed with all storage. */
  removed(): void {
    this.#at = Number.POSITIVE_INFINITY
  }

  /**
   * Call it when the alarm fires. Returns whether it is so late that the process must have slept.
   */
  rang(): boolean {
    const late = Date.now() - this.#at > LIMITS.heartbeat_ms
    this.#at = Number.POSITIVE_INFINITY
    return late
  }
}
