// Promise: a call of a skill that somebody wants ended is, whenever they said so; and its time ends it where nobody does.

import { expect, test } from 'vitest'
import { stopSignal } from '../../../../edge/skills/execution/stop-signal.ts'

const LONG_MS = 600_000

test('who wanted it ended before it began is heard, and so is who does while it goes on', async () => {
  const [before, after] = [new AbortController(), new AbortController()]
  before.abort()
  const [first, second] = [
    stopSignal(Date.now() + LONG_MS, before.signal),
    stopSignal(Date.now() + LONG_MS, after.signal),
  ]
  expect(await Promise.race([first.stopped, Promise.resolve('nobody was heard')])).toBe('cancelled')
  after.abort()
  expect(await second.stopped).toBe('cancelled')
  first.dispose()
  second.dispose()
})

test('its time ends it, and one whose time was over before ends at once', async () => {
  const { signal } = new AbortController()
  expect(
    await Promise.all([stopSignal(Date.now() + 5, signal).stopped, stopSignal(Date.now() - 5).stopped]),
  ).toEqual(['timeout', 'timeout'])
})

test('what has ended hears nothing more', async () => {
  const one = stopSignal(Date.now() + 5)
  one.dispose()
  await stopSignal(Date.now() + 20).stopped
  expect(await Promise.race([one.stopped, Promise.resolve('nothing')])).toBe('nothing')
})
