// Ends a skill call from outside: at its deadline, or when somebody cancels it.

import { LIMITS } from '../../../shared/limits.ts'

/** `stopped` resolves with the reason; `dispose` removes the timer and the listener. */
export type StopSignal = {
  readonly stopped: Promise<'timeout' | 'cancelled'>
  readonly dispose: () => void
}

/** `ends`: the deadline by the edge's clock. A signal that has fired already cancels at once. */
export function stopSignal(ends: number, signal?: AbortSignal): StopSignal {
  const { promise: stopped, resolve } = Promise.withResolvers<'timeout' | 'cancelled'>()
  const cancel = (): void => resolve('cancelled')
  if (signal?.aborted) cancel()
  signal?.addEventListener('abort', cancel)
  const timer = setTimeout(() => resolve('timeout'), ends - Date.now())
  const dispose = (): void => {
    clearTimeout(timer)
    signal?.removeEventListener('abort', cancel)
  }
  return { stopped, dispose }
}

/**
 * The answer of a call that was stopped, with its log and the fuel that it used. Undefined if it
 * fails, or does not come within `skill_farewell_ms`: a call that never answers must not hold its
 * slot.
 */
export async function answerAfterStop(answering: Promise<unknown>): Promise<unknown> {
  const { promise: late, resolve } = Promise.withResolvers<undefined>()
  const timer = setTimeout(() => resolve(undefined), LIMITS.skill_farewell_ms)
  const answer = await Promise.race([answering.catch(() => undefined), late])
  clearTimeout(timer)
  return answer
}
