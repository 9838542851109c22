// Promise: the number of bytes that calls have left is known for a few seconds, and without it nothing
// is admitted.

import { expect, test } from 'vitest'
import { CallsStored } from '../../../edge/tenant/calls-stored.ts'

const STORED = { calls: 1, all: 2 }

test('D18 no number of stored bytes is known before the log has answered, nor five seconds after its answer', async () => {
  const stored = new CallsStored(async () => STORED)
  expect(stored.known(Date.now())).toBe(undefined)
  expect(await stored.current(Date.now())).toEqual(STORED)
  expect(stored.known(Date.now() + 4_000)).toEqual(STORED)
  expect(stored.known(Date.now() + 5_000)).toBe(undefined)
  expect(stored.known(Date.now() - 6_000)).toBe(undefined) // the clock was set back
})

test('D18 if the log does not answer, the question is rejected, and the next one asks the log again', async () => {
  let isDown = true
  const stored = new CallsStored(async () => {
    if (isDown) throw new Error('no answer')
    return STORED
  })
  await expect(stored.current(Date.now())).rejects.toThrow('no answer')
  expect(stored.known(Date.now())).toBe(undefined)
  isDown = false
  expect(await stored.current(Date.now())).toEqual(STORED)
})

test('callers at the same time and within a second share one question to the log', async () => {
  let asked = 0
  const stored = new CallsStored(async () => {
    asked++
    return STORED
  })
  await Promise.all([stored.current(Date.now()), stored.current(Date.now())])
  await stored.current(Date.now())
  expect(asked).toBe(1)
})
