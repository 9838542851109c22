// Promise: on a supervised stack, as `npm start` runs it, each part that is killed -9 is restarted with a
// message, and a call that was proposed in the meantime runs once all parts are back.

import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Child } from '../../infra/child-process.ts'
import type { Stack } from '../../infra/stack.ts'
import { bearer, client } from '../../shared/routes/client.ts'
import { SHORT_LEASES } from '../support/stack/other-limits.ts'
import { startTestStack } from '../support/stack/stack.ts'

const said: string[] = []
let stack: Stack

beforeAll(async () => {
  stack = await startTestStack({ supervise: true, limits: SHORT_LEASES, say: (text) => said.push(text) })
})
afterAll(() => stack.stop())

/** Kills a part with SIGKILL, and waits until its restart is announced. */
async function kill(part: Child): Promise<void> {
  const { pid, name } = part
  const heard = said.length
  process.kill(pid ?? 0, 'SIGKILL')
  await expect
    .poll(() => said.slice(heard).some((text) => text.startsWith(`${name} runs again`)), { timeout: 30_000 })
    .toBe(true)
  expect(said.slice(heard).find((text) => text.startsWith(name))).toBe(
    `${name} ended (SIGKILL); restarting it in 100 ms`,
  )
  expect(part.pid).not.toBe(pid)
}

const count = () =>
  client(stack.url, bearer(stack.dev.agent_key))('proposeCallInNewRun', {
    wait: 30,
    body: { tool: 'text_stats', args: { text: 'a b' } },
  })

test.each(['redis', 'edge', 'worker'] as const)('a call runs after %s was killed', async (name) => {
  await kill(stack[name])
  expect(await count()).toMatchObject({ ok: true, value: { state: 'succeeded' } })
})

test('a call that is proposed while Redis and the worker are killed succeeds or ends indeterminate', async () => {
  const [answer] = await Promise.all([count(), kill(stack.redis), kill(stack.worker)])
  expect(answer.ok).toBe(true)
  if (!answer.ok) return
  const ended = await client(stack.url, bearer(stack.dev.agent_key))('readCall', {
    params: { run: answer.value.run, call: answer.value.id },
    wait: 30,
  })
  // If the worker was killed during the call, its end is unknown; otherwise it ran once.
  expect(ended).toMatchObject({
    ok: true,
    value: { state: expect.stringMatching(/^(succeeded|indeterminate)$/) },
  })
})
