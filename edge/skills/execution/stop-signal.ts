// What ends a call of a skill that has not ended itself: its time, or whoever wants it ended. What becomes of it then it does not know.

export type Stopping = { readonly came: Promise<'timeout' | 'cancelled'>; readonly forget: () => void }

/** `ends`: by our clock. Whoever wanted it ended before this began is heard too: an event that was is not told again. */
export function stopping(ends: number, signal?: AbortSignal): Stopping {
  const { promise: came, resolve } = Promise.withResolvers<'timeout' | 'cancelled'>()
  const cancel = (): void => resolve('cancelled')
  if (signal?.aborted) cancel()
  signal?.addEventListener('abort', cancel)
  const timer = setTimeout(() => resolve('timeout'), ends - Date.now())
  const forget = (): void => {
    clearTimeout(timer)
    signal?.removeEventListener('abort', cancel)
  }
  return { came, forget }
}
