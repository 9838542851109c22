// Deadlines for other objects' answers and for our own work. Timers are always cleared, because an
// object may have only 10,000 of them.

/** The answer; undefined if it rejects or does not arrive before `until`. */
export function withDeadline<T>(answer: Promise<T>, until: number): Promise<T | undefined> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve(undefined), Math.max(0, until - Date.now()))
    const end = (value: T | undefined) => {
      clearTimeout(timer)
      resolve(value)
    }
    answer.then(end, () => end(undefined))
  })
}

/**
 * How long a batch may delay others, and the most items in one. A pause costs more than a
 * millisecond.
 */
const BATCH_MS = 5
const BATCH_MAX = 8

/**
 * Works on items until the deadline, in batches between which other requests run. The batch grows
 * while it stays fast. Its duration is known only afterwards, because workerd's clock stands still
 * during work.
 */
export async function inBatches<T, R>(
  items: readonly T[],
  until: number,
  work: (item: T) => R,
): Promise<R[]> {
  const done: R[] = []
  for (let batch = 1; done.length < items.length && Date.now() < until; ) {
    const began = Date.now()
    for (const item of items.slice(done.length, done.length + batch)) done.push(work(item))
    await new Promise((resolve) => setTimeout(resolve, 0))
    batch = Date.now() - began > BATCH_MS ? 1 : Math.min(2 * batch, BATCH_MAX)
  }
  return done
}
