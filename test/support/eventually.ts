// Polling, for tests that wait until another process has done something.

import { setTimeout as sleep } from 'node:timers/promises'

/**
 * A look may be a request or a scan of /proc, so the pause grows to this with the time waited. The
 * end of something that takes 20 s is noticed 0.1 s later, at a tenth of the cost.
 */
const SLOWEST_MS = 100

/** Polls until `look` returns something other than `false` and `undefined`, and returns that. */
export async function eventually<T>(
  what: string,
  look: () => T | undefined | false | Promise<T | undefined | false>,
  within_ms = 20_000,
  every_ms = 10,
): Promise<T> {
  for (const begun = Date.now(); ; ) {
    const found = await look()
    if (found !== undefined && found !== false) return found
    const waited_ms = Date.now() - begun
    if (waited_ms > within_ms) throw new Error(`within ${within_ms} ms this did not come true: ${what}`)
    await sleep(Math.max(every_ms, Math.min(waited_ms / 10, SLOWEST_MS)))
  }
}
