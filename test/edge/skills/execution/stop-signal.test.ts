// Promise: a call of a skill that somebody wants ended is, whenever they said so; and its time ends it where nobody does.

import { expect, test } from 'vitest'
import { stopping } from '../../../../edge/skills/execution/stop-signal.ts'

const LONG_MS = 600_000

test('who wanted it ended before it began is heard, and so is who does while it goes on', async () => {
  const [before, after] = [new AbortController(), new AbortController()]
  before.abort()
  const [first, second] = [
    stopping(Date.now() + LONG_MS, before.signal),
    stopping(Date.now() + LONG_MS, after.signal),
  ]
  expect(await Promise.race([first.came, Promise.resolve('nobody was heard')])).toBe('cancelled')
  after.abort()
  expect(await second.came).toBe('cancelled')
  first.forget()
  second.forget()
})

test('its time ends it, and one whose time was over before ends at once', async () => {
  const { signal } = new AbortController()
  expect(await Promise.all([stopping(Date.now() + 5, signal).came, stopping(Date.now() - 5).came])).toEqual([
    'timeout',
    'timeout',
  ])
})

test('what has ended hears nothing more', async () => {
  const one = stopping(Date.now() + 5)
  one.forget()
  await stopping(Date.now() + 20).came
  expect(await Promise.race([one.came, Promise.resolve('nothing')])).toBe('nothing')
})
