// The CPU time of a call is bounded; time that its sandbox used before the call does not count.

import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { watchCpu } from '../../../worker/sandbox/limits/cpu-watch.ts'

test('S38 CPU time that a sandbox used before its call does not count against the call', async () => {
  let used = 60_000
  let over = 0
  const end = watchCpu({ cpuMs: () => used }, 10, () => over++)
  await sleep(200)
  expect(over).toBe(0)
  used += 11
  await expect.poll(() => over).toBe(1)
  end()
})
