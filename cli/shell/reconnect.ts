// Retry policy of long-running commands: transient failures are reported once and retried with
// backoff; a refusal ends the command.

import { setTimeout as sleep } from 'node:timers/promises'
import type { Live, Trouble } from './command.ts'

const PAUSES_MS = [250, 1_000, 2_000, 5_000] as const
/** Codes of transient failures: the edge, or a proxy in front of it, is restarting. */
const TRANSIENT: ReadonlySet<string> = new Set([
  'unreachable',
  'timed_out',
  'unexpected_answer',
  'unavailable',
  'internal',
])

export class RetryBackoff {
  readonly #live: Pick<Live, 'note' | 'until'>
  #tries = 0

  constructor(live: Pick<Live, 'note' | 'until'>) {
    this.#live = live
  }

  /** Waits and returns true if the failure is transient; returns false for a refusal. */
  async waitToRetry({ code, detail }: Trouble): Promise<boolean> {
    if (!TRANSIENT.has(code)) return false
    const { note, until } = this.#live
    if (this.#tries === 0) note(`${detail}; retrying`)
    await sleep(PAUSES_MS[Math.min(this.#tries++, PAUSES_MS.length - 1)], undefined, { signal: until }).catch(
      () => undefined,
    )
    return true
  }

  /** Call after each answer: the next failure starts with the shortest pause again. */
  reset(): void {
    if (this.#tries > 0) this.#live.note('connected to the edge again')
    this.#tries = 0
  }
}
