// Promise: a task says for how long its answer can be fetched, and carries a bounded part of a long
// output.

import { expect, test } from 'vitest'
import type { McpContext } from '../../../edge/mcp/context.ts'
import { detailedTask } from '../../../edge/mcp/tasks.ts'
import { Call } from '../../../shared/wire/calls.ts'

const hash = 'a'.repeat(64)
const taskOf = (output: string, more: Partial<Call> = {}, mcp: { output_chars?: number } = {}) => {
  const context = { agent: { spec: { mcp } }, publicUrl: 'https://cs.example' } as unknown as McpContext // only these parts are read
  const call = Call.parse({
    id: 'call_01ARZ3NDEKTSV4RRFFQ69G5FAV_1',
    run: 'run_01ARZ3NDEKTSV4RRFFQ69G5FAV',
    tool: 'mail_send',
    state: 'succeeded',
    digest: hash,
    decision: {
      effect: 'allow',
      code: 'allowed',
      policies: ['p'],
      reason: 'r',
      policy_set: hash,
      snapshot: hash,
    },
    created_at_ms: 1_000,
    ended_at_ms: 2_000,
    result: { ok: true, output, encoding: 'utf-8', stderr: '', exit_code: 0, truncated: false },
    ...more,
  })
  return detailedTask(context, 'task_1', call)
}
const outputIn = (task: Record<string, unknown>) =>
  (task['result'] as { content: { text: string }[] }).content[0]?.text.length // a task of an ended call has it

test('a task’s answer can be fetched for a day (`mcp_task_ms`) after its call could have ended', () => {
  const claim = 15 * 60_000
  expect(taskOf('x')['ttlMs']).toBe(claim + 86_400_000)
  const approval = {
    id: 'apr_01ARZ3NDEKTSV4RRFFQ69G5FAV_1',
    status: 'approved',
    expires_at: 61_000,
    page: 'https://cs.example/p',
  } as const
  expect(taskOf('x', { approval })['ttlMs']).toBe(60_000 + claim + 86_400_000)
})

test('a result has at most 16 KiB of a tool’s output (`mcp_output_chars`), or as much as the agent is set to', () => {
  expect([16_384, 16_385].map((length) => outputIn(taskOf('x'.repeat(length))))).toEqual([16_384, 16_384])
  expect(outputIn(taskOf('x'.repeat(3_000), {}, { output_chars: 2_000 }))).toBe(2_000)
})
