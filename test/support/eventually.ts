// Polling, for tests that wait until another process has done something.

import { setTimeout as sleep } from 'node:timers/promises'

/** Polls until `look` returns something other than `false` and `undefined`, and returns that. */
export async function eventually<T>(
  what: string,
  look: () => T | undefined | false | Promise<T | undefined | false>,
  within_ms = 20_000,
  every_ms = 10,
): Promise<T> {
  for (const until = Date.now() + within_ms; ; await sleep(every_ms)) {
    const found = await look()
    if (found !== undefined && found !== false) return found
    if (Date.now() > until) throw new Error(`within ${within_ms} ms this did not come true: ${what}`)
  }
}
