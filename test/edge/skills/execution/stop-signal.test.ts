// Promise: a skill call ends when somebody cancels it, before or during its execution, and at its
// deadline. A stopped call has a short time to report what it used.

import { expect, test } from 'vitest'
import { answerAfterStop, stopSignal } from '../../../../edge/skills/execution/stop-signal.ts'
import { LIMITS } from '../../../../shared/limits.ts'

const LONG_MS = 600_000

test('a skill call is stopped by a cancellation before it begins and by one while it runs', async () => {
  const [before, after] = [new AbortController(), new AbortController()]
  before.abort()
  const [first, second] = [
    stopSignal(Date.now() + LONG_MS, before.signal),
    stopSignal(Date.now() + LONG_MS, after.signal),
  ]
  expect(await Promise.race([first.stopped, Promise.resolve('not stopped')])).toBe('cancelled')
  after.abort()
  expect(await second.stopped).toBe('cancelled')
  first.dispose()
  second.dispose()
})

test('a skill call is stopped at its deadline, and at once if the deadline has passed', async () => {
  const { signal } = new AbortController()
  expect(
    await Promise.all([stopSignal(Date.now() + 5, signal).stopped, stopSignal(Date.now() - 5).stopped]),
  ).toEqual(['timeout', 'timeout'])
})

test('a disposed stop signal no longer reacts to anything', async () => {
  const one = stopSignal(Date.now() + 5)
  one.dispose()
  await stopSignal(Date.now() + 20).stopped
  expect(await Promise.race([one.stopped, Promise.resolve('nothing')])).toBe('nothing')
})

test('a stopped skill call may report what it used; one whose report fails counts as having used nothing', async () => {
  const soon = stopSignal(Date.now() + 5).stopped.then(() => 'used 7 fuel')
  expect(await answerAfterStop(soon)).toBe('used 7 fuel')
  expect(await answerAfterStop(Promise.reject(new Error('gone')))).toBeUndefined()
})

test('W01 the edge waits for the report of a stopped skill call for at most `skill_farewell_ms`, which is 200 ms', async () => {
  expect(LIMITS.skill_farewell_ms).toBe(200)
  const began = performance.now()
  expect(await answerAfterStop(new Promise(() => undefined))).toBeUndefined()
  expect(performance.now() - began).toBeGreaterThanOrEqual(198) // timers count in whole milliseconds
  expect(performance.now() - began).toBeLessThan(5_000)
})
