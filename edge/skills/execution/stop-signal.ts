// Ends a skill call from outside: at its deadline, or when somebody cancels it.

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
