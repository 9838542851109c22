// The `post` that the outbox passes to an adapter: one POST to an address that may be requested
// (N14), without redirects, with a deadline and with a limit on how much of the response is read.

import { LIMITS } from '../../shared/limits.ts'
import { err, ok } from '../../shared/result.ts'
import {
  beginningOf,
  faultInAddress,
  type Outside,
  type StandIns,
  testOverrideFor,
} from '../platform/outbound-fetch.ts'
import type { Post, PostResponse } from './medium.ts'

/** Discards the body of the response, unless the adapter asks to read it. */
export function postThrough({
  outside,
  standIns,
}: {
  outside: Outside
  standIns: StandIns | undefined
}): Post {
  return async ({ to, headers, body }, read) => {
    const fault = faultInAddress(to, standIns !== undefined)
    if (fault !== undefined) return err({ again: false, why: fault })
    const signal = AbortSignal.timeout(LIMITS.delivery_ms)
    try {
      const answer = await outside.fetch(testOverrideFor(to, standIns ?? {}), {
        method: 'POST',
        redirect: 'manual',
        headers,
        body,
        signal,
      })
      const text =
        read === 'read'
          ? await beginningOf(answer, LIMITS.delivery_answer_bytes)
          : await answer.body?.cancel().then(() => '')
      return ok({
        status: answer.status,
        pause_ms: pauseIn(answer.headers.get('retry-after')),
        text: text ?? '',
      } satisfies PostResponse)
    } catch {
      // The runtime's error would reveal what is behind a name, so the caller only learns of the
      // failure.
      return err({
        again: true,
        why: signal.aborted
          ? `no answer within ${LIMITS.delivery_ms} ms`
          : 'the receiver could not be reached',
      })
    }
  }
}

/** `Retry-After` in seconds. The form with a date is ignored. */
function pauseIn(header: string | null): number | undefined {
  return header !== null && /^[0-9]{1,6}$/.test(header)
    ? Math.min(Number(header) * 1_000, LIMITS.delivery_pause_max_ms)
    : undefined
}
