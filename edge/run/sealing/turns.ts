// How many objects of one process seal at a time. After a long stop all rested objects wake at once; if
// all of them sealed at once, the edge would answer nobody until the last one has.

import { LIMITS } from '../../../shared/limits.ts'

export class SealingTurns {
  readonly #turns = new Set<{ readonly begun: number }>()
  /** When the last object that got no turn asks again. */
  #last = 0

  /**
   * Does the work and returns null, or returns when to ask again. Those that wait ask one after the
   * other, because each of them has to be read from the disk for it.
   */
  async take(now: number, work: () => Promise<void>): Promise<number | null> {
    // The platform may have ended an object in the middle of its turn.
    for (const turn of this.#turns) if (now - turn.begun > LIMITS.sealing_ms) this.#turns.delete(turn)
    if (this.#turns.size >= LIMITS.sealings_at_once) {
      this.#last = Math.max(this.#last, now) + LIMITS.sealing_wait_ms
      return this.#last
    }
    const turn = { begun: now }
    this.#turns.add(turn)
    try {
      await work()
    } finally {
      this.#turns.delete(turn)
    }
    return null
  }
}
