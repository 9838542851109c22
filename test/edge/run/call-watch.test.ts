// Promise: a request that watches a call sees each of its changes, and forgets none that came while
// it did something else.

import { expect, test } from 'vitest'
import { CallWatch, isWatched, notifyWatches } from '../../../edge/run/call-watch.ts'

const CALL = 'call_01KADX00000000000000000001_1'
const LONG_MS = 60_000

test('a change wakes every watch of its call, even if it came before the wait', async () => {
  const [one, other] = [new CallWatch(CALL), new CallWatch(CALL)]
  const waiting = one.changed(LONG_MS)
  notifyWatches(CALL)
  await Promise.all([waiting, other.changed(LONG_MS)])
  const again = one.changed(LONG_MS)
  notifyWatches(CALL)
  await again
  for (const watch of [one, other]) watch.leave()
})

test('a watch waits for its own call only, and no longer than it was asked to', async () => {
  const watch = new CallWatch(CALL)
  let changed = false
  const waiting = watch.changed(20).then(() => {
    changed = true
  })
  notifyWatches('call_01KADX00000000000000000002_1')
  await Promise.resolve()
  expect(changed).toBe(false)
  await waiting
  watch.leave()
})

test('a call counts as watched until its last watcher has left', () => {
  const [one, other] = [new CallWatch(CALL), new CallWatch(CALL)]
  one.leave()
  expect(isWatched(CALL)).toBe(true)
  other.leave()
  other.leave()
  expect(isWatched(CALL)).toBe(false)
})
