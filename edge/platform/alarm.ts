// When a run is woken next: by the earliest time at which anything of it is due. It knows no calls, and does nothing when it rings.

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
    // The first time in this object's life an earlier alarm may stand, which must not be put off.
    const before = this.#at === Number.POSITIVE_INFINITY ? (this.#nextDue() ?? due) : due
    // Never in the past: an alarm that comes late says that we slept. Nor at the time of one that is ringing, as which it would be taken
    // for rung.
    this.#at = Math.max(Math.min(due, before), Date.now() + 1)
    void this.#storage.setAlarm(this.#at)
  }

  /** It rings now: whether so late that we must have slept. */
  rang(): boolean {
    const late = Date.now() - this.#at > LIMITS.heartbeat_ms
    this.#at = Number.POSITIVE_INFINITY
    return late
  }
}
