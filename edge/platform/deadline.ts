// What must be done in time: an answer that others give, or work of our own. It leaves no timer behind: an object may have 10,000 of
// them, and then none at all.

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

/** What others may have to wait for us, and how many small pieces of work are one turn: a pause takes more than a millisecond. */
const TURN_MS = 5
const MOST_A_TURN = 8

/**
 * Work on one after the other, while there is time, in turns: after each, whoever waits has theirs. Work that takes long is a turn by
 * itself, which shows when it is done: until then workerd's clock stands still.
 */
export async function inTurns<T, R>(items: readonly T[], until: number, work: (item: T) => R): Promise<R[]> {
  const done: R[] = []
  for (let turn = 1; done.length < items.length && Date.now() < until; ) {
    const began = Date.now()
    for (const item of items.slice(done.length, done.length + turn)) done.push(work(item))
    await new Promise((resolve) => setTimeout(resolve, 0))
    turn = Date.now() - began > TURN_MS ? 1 : Math.min(2 * turn, MOST_A_TURN)
  }
  return done
}
