// Promise: on a stack as `npm start` runs it, each part may be killed -9 at any time; it is started again and said so, and a call proposed
// while parts are away runs once they are back.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Child } from '../../infra/child-process.ts'
import type { Stack } from '../../infra/stack.ts'
import { bearer, client } from '../../shared/routes/client.ts'
import { startTestStack } from '../support/stack/stack.ts'

const dir = mkdtempSync(join(tmpdir(), 'countersign-'))
const said: string[] = []
let stack: Stack

beforeAll(async () => {
  stack = await startTestStack({ state: dir, supervise: true, say: (text) => said.push(text) })
})
afterAll(async () => {
  await stack.stop()
  rmSync(dir, { recursive: true })
})

/** Kills a part as a power cut would, and waits until its successor was announced. */
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
    body: { tool: 'text.stats', args: { text: 'a b' } },
  })

test.each(['redis', 'edge', 'worker'] as const)('%s is killed', async (name) => {
  await kill(stack[name])
  expect(await count()).toMatchObject({ ok: true, value: { state: 'succeeded' } })
})

test('redis and the worker are killed while a call is proposed', async () => {
  const [answer] = await Promise.all([count(), kill(stack.redis), kill(stack.worker)])
  expect(answer.ok).toBe(true)
  if (!answer.ok) return
  const ended = await client(stack.url, bearer(stack.dev.agent_key))('readCall', {
    params: { run: answer.value.run, call: answer.value.id },
    wait: 30,
  })
  // Killed in the middle of it, the worker can't say what became of it; in every other case it ran, once.
  expect(ended).toMatchObject({
    ok: true,
    value: { state: expect.stringMatching(/^(succeeded|indeterminate)$/) },
  })
})
