// Promise: what the call uses is bounded, and what its sandbox used before that is no part of it.

import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { watchCpu } from '../../../worker/sandbox/limits/cpu-watch.ts'

test('S38 time that was used before the call began is not the call’s', async () => {
  let used = 60_000
  let over = 0
  const end = watchCpu({ cpuMs: () => used }, 10, () => over++)
  await sleep(200)
  expect(over).toBe(0)
  used += 11
  await expect.poll(() => over).toBe(1)
  end()
})
