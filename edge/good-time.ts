// An answer that must come in time. It leaves no timer behind: an object may have 10,000 of them, and then none at all.

/** What comes after `until`, or breaks, is no answer. */
export function inGoodTime<T>(answer: Promise<T>, until: number): Promise<T | undefined> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve(undefined), Math.max(0, until - Date.now()))
    const end = (value: T | undefined) => {
      clearTimeout(timer)
      resolve(value)
    }
    answer.then(end, () => end(undefined))
  })
}
