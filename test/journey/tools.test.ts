// Promise: the tools that come with `npm start` do what their descriptions say, within the limits
// given there.

import { beforeAll, expect, test } from 'vitest'
import { bearer, type Client, client } from '../../shared/routes/client.ts'
import { sharedStack } from '../support/stack/stack.ts'

let agent: Client
let operator: Client

beforeAll(() => {
  const { url, agent_key, operator_key } = sharedStack()
  agent = client(url, bearer(agent_key))
  operator = client(url, bearer(operator_key))
})

/** The value of a successful answer; throws on a failure. */
function got<T>(answer: { ok: true; value: T } | { ok: false; error: unknown }): T {
  if (!answer.ok) throw new Error(JSON.stringify(answer.error))
  return answer.value
}

const newRun = async (): Promise<string> => got(await agent('createRun', { body: {} })).id

/** Proposes a call, approves it if policy asks, and returns the ended call. */
async function done(run: string, tool: string, args: Record<string, unknown>) {
  const call = got(await agent('proposeCall', { params: { run }, body: { tool, args } }))
  if (call.approval !== undefined)
    got(await operator('answerApproval', { params: { id: call.approval.id }, body: { decision: 'approve' } }))
  return got(await agent('readCall', { params: { run, call: call.id }, wait: 20 }))
}

test('text_stats counts lines, words and bytes and needs no approval', async () => {
  const call = await done(await newRun(), 'text_stats', { text: 'one two\nthree ✓\n' })
  expect(call).toMatchObject({ state: 'succeeded', decision: { effect: 'allow' } })
  expect(call.result?.output.trim().split(/\s+/)).toEqual(['2', '4', '18'])
})

test('file_write and process_run share the workspace of their run, and no other run sees it', async () => {
  const run = await newRun()
  const written = await done(run, 'file_write', { path: 'note.txt', text: 'kept\n' })
  expect(written).toMatchObject({
    state: 'succeeded',
    decision: { effect: 'ask' },
    plan: { tier: 'C' },
    result: { output: 'kept\n' },
  })
  expect(await done(run, 'process_run', { command: 'cat', args: ['note.txt'] })).toMatchObject({
    state: 'succeeded',
    result: { output: 'kept\n' },
  })
  const elsewhere = await done(await newRun(), 'process_run', { command: 'cat', args: ['note.txt'] })
  expect(elsewhere).toMatchObject({ state: 'failed', result: { exit_code: 1 } })
})

test('file_write fails for a path outside the workspace', async () => {
  for (const path of ['/etc/countersign', '../outside', '/usr/bin/env']) {
    expect(await done(await newRun(), 'file_write', { path, text: 'x' })).toMatchObject({
      state: 'failed',
      result: { ok: false },
    })
  }
})

test('process_run takes standard input, a folder and a timeout, and no shell interprets its arguments', async () => {
  const run = await newRun()
  expect(await done(run, 'process_run', { command: 'sort', args: ['-r'], stdin: 'a\nb\n' })).toMatchObject({
    result: { output: 'b\na\n' },
  })
  const literal = await done(run, 'process_run', {
    command: 'echo',
    args: ['$(id)', '`id`', '; id', '{command}', '{...args}'],
  })
  expect(literal.result?.output).toBe('$(id) `id` ; id {command} {...args}\n')
  expect(await done(run, 'process_run', { command: 'mkdir', args: ['inner'] })).toMatchObject({
    state: 'succeeded',
  })
  expect(await done(run, 'process_run', { command: 'pwd', cwd: 'inner' })).toMatchObject({
    result: { output: '/workspace/inner\n' },
  })
  expect(await done(run, 'process_run', { command: 'sleep', args: ['30'], timeout_ms: 300 })).toMatchObject({
    state: 'timed_out',
  })
})

test('process_run needs an approval for every program and is denied hosts that are not listed', async () => {
  for (const command of ['true', 'bash', '/bin/sh']) {
    const call = got(await agent('proposeCallInNewRun', { body: { tool: 'process_run', args: { command } } }))
    expect(call).toMatchObject({
      state: 'awaiting_approval',
      plan: { tier: 'C', egress: { mode: 'strict', hosts: [] } },
    })
  }
  const unlisted = await done(await newRun(), 'process_run', {
    command: 'curl',
    args: ['http://other.test'],
    egress_hosts: ['other.test'],
  })
  expect(unlisted).toMatchObject({ state: 'denied', decision: { policies: ['tool.egress'] } })
})

test('http_fetch is denied an unlisted host, however the URL spells it', async () => {
  const urls = [
    'http://169.254.169.254/',
    'http://[::1]/',
    'http://2852039166/',
    'https://example.com.evil.test/',
    'https://example.com@evil.test/',
    'file:///etc/passwd',
  ]
  for (const url of urls) {
    const answer = await agent('proposeCallInNewRun', {
      body: { tool: 'http_fetch', args: { url } },
      wait: 10,
    })
    expect(answer.ok ? answer.value.state : answer.error.code, url).toMatch(/^(denied|invalid_arguments)$/)
  }
})
