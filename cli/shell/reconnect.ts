// How a command that goes on holds out: troubles that pass are said once and waited for, refusals are not. It asks nothing itself.

import { setTimeout as sleep } from 'node:timers/promises'
import type { Live, Trouble } from './command.ts'

const PAUSES_MS = [250, 1_000, 2_000, 5_000] as const
/** The edge restarts, or something before it does. */
const PASSING: ReadonlySet<string> = new Set([
  'unreachable',
  'timed_out',
  'unexpected_answer',
  'unavailable',
  'internal',
])

export class Patience {
  readonly #live: Pick<Live, 'note' | 'until'>
  #tries = 0

  constructor(live: Pick<Live, 'note' | 'until'>) {
    this.#live = live
  }

  /** Whether to try again, after a pause. */
  async with({ code, detail }: Trouble): Promise<boolean> {
    if (!PASSING.has(code)) return false
    const { note, until } = this.#live
    if (this.#tries === 0) note(`${detail}; trying again`)
    await sleep(PAUSES_MS[Math.min(this.#tries++, PAUSES_MS.length - 1)], undefined, { signal: until }).catch(
      () => undefined,
    )
    return true
  }

  /** An answer came. */
  rewarded(): void {
    if (this.#tries > 0) this.#live.note('the edge answers again')
    this.#tries = 0
  }
}
