// Promise: a client that waits for a call gets an answer within a limit, and the call continues.
// The limits of this edge are shorter than the real ones.

import { performance } from 'node:perf_hooks'
import { afterAll, expect, test } from 'vitest'
import { ClaudeCodeAnswer } from '../../../shared/wire/hooks.ts'
import { eventually } from '../../support/eventually.ts'
import { Fixtures, refusalOf, toolSpec, unwrap } from '../../support/fixtures.ts'
import { McpClient, textOf } from '../../support/http/mcp-client.ts'
import { McpCalls } from '../../support/mcp-calls.ts'
import { startTestStack } from '../../support/stack/stack.ts'
import { PeerWorker } from '../../support/worker/peer-worker.ts'

const HELD = 4
const stack = await startTestStack({
  worker: 'idle',
  limits: {
    claim_again_ms: 1_000,
    hook_wait_s: 1,
    mcp_hold_s: 2,
    mcp_hold_legacy_s: 3,
    mcp_holds_tenant: HELD,
    mcp_requests_run: 2,
    upstream_listing_ms: 500,
  },
})
afterAll(() => stack.stop())
const fixtures = new Fixtures('waits', stack.dev)
const { root } = fixtures
const tool = await fixtures.tool()
const sensitive = await fixtures.tool({ sensitive: true })
const agent = await fixtures.agent()
const calls = new McpCalls(fixtures, agent)

/** The value, and the whole seconds until it came. */
async function timed<T>(work: Promise<T>): Promise<readonly [T, number]> {
  const began = performance.now()
  const value = await work
  return [value, Math.floor((performance.now() - began) / 1_000)]
}

test('an MCP request is held for `mcp_hold_s`, one of a legacy client for `mcp_hold_legacy_s`, and its call still waits', async () => {
  const [modern, legacy] = [await calls.clientInRun('modern'), await calls.clientInRun('legacy')]
  const held = ({ client, meta }: typeof modern) => timed(client.call(sensitive, {}, { meta }))
  const [[wait, seconds], [text, legacySeconds]] = await Promise.all([held(modern), held(legacy)])
  expect([wait['resultType'], seconds]).toEqual(['input_required', 2])
  expect([textOf(text), legacySeconds]).toEqual([expect.stringContaining('PENDING'), 3])
  for (const { call } of [modern, legacy])
    expect((await calls.find(call(1)))?.state).toBe('awaiting_approval')
})

test('a client of a run can cancel its latest requests by their ids (`mcp_requests_run`), and an older one is not found', async () => {
  const caller = await fixtures.agent()
  const client = new McpClient(stack.url, caller.key, 'legacy')
  const initialized = await client.send('initialize', { protocolVersion: '2025-11-25' })
  client.headers = { 'mcp-session-id': initialized.headers.get('mcp-session-id') ?? '' }
  const ask = (id: number) =>
    client.send('tools/call', { name: sensitive, arguments: { text: `${id}` } }, { id, wait: 60 })
  const held = [await ask(1), await ask(2), await ask(3)]
  const cancel = (requestId: number) =>
    client.raw(JSON.stringify({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId } }), {
      'content-type': 'application/json',
      ...client.headers,
    })
  for (const id of [1, 3, 2]) expect((await cancel(id)).status).toBe(202)
  for (const exchange of held.slice(1))
    expect(textOf((await exchange.answer()).result ?? {})).toBe('It was cancelled.')
  const answered = unwrap(await root('listApprovals', { query: { status: 'pending' } }))
  const left = answered.items.filter(({ prompt }) => prompt.agent === caller.name)
  expect([left.length, held[0]?.messages]).toEqual([1, []])
  unwrap(await root('answerApproval', { params: { id: left[0]?.id ?? '' }, body: { decision: 'deny' } }))
  expect(textOf((await held[0]?.answer())?.result ?? {})).toContain('said no')
})

test('a hook that names no wait is answered after `hook_wait_s` that its question is pending, and asks again for the answer', async () => {
  const name = 'claude_code_write'
  const body = toolSpec({ sensitive: true, input_schema: { type: 'object' } })
  const spec = { ...body, executor: { kind: 'none' as const }, egress: { mode: 'none' as const, hosts: [] } }
  unwrap(await root('putTool', { params: { name }, body: spec }))
  const document = { session_id: 's', tool_name: 'Write', tool_input: { file_path: '/x' } }
  const hook = async () => {
    const answer = await fetch(new URL('/v1/hooks/claude-code', stack.url), {
      method: 'POST',
      headers: { authorization: `Bearer ${agent.key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ ...document, hook_event_name: 'PreToolUse' }),
    })
    return ClaudeCodeAnswer.parse(await answer.json()).hookSpecificOutput
  }
  const [first, seconds] = await timed(hook())
  expect([first.permissionDecision, seconds]).toEqual(['deny', 1])
  expect(first.permissionDecisionReason).toMatch(/^Pending: people have been asked/)
  const { items } = unwrap(await root('listApprovals', { query: { status: 'pending' } }))
  const { id } = items.find(({ prompt }) => prompt.tool === name) ?? { id: '' }
  unwrap(await root('answerApproval', { params: { id }, body: { decision: 'approve' } }))
  expect((await hook()).permissionDecision).toBe('allow')
})

test('L2 a process gets the grant of its claim again for `claim_again_ms`, and then nobody does', async () => {
  const peer = await PeerWorker.enrol(stack.url, root, fixtures.pool)
  const call = unwrap(await agent.client('proposeCallInNewRun', { body: { tool, args: {} } }))
  const claim = unwrap(await peer.claim(call.id))
  expect(unwrap(await peer.claim(call.id))).toEqual(claim)
  const refused = await eventually('it is refused', async () => {
    const again = await peer.claim(call.id)
    return again.ok ? undefined : refusalOf(again)
  })
  expect(refused).toBe('409 already_claimed')
  unwrap(await peer.settle(claim)) // the grant that it has counts
})

test('an operator who lists the tools of a server learns after `upstream_listing_ms` that no worker took the call, which is then cancelled', async () => {
  const params = { name: 'unserved' }
  unwrap(await root('putUpstream', { params, body: { kind: 'stdio', command: ['true'] } }))
  expect(refusalOf(await root('refreshUpstream', { params, body: {} }))).toBe('503 unavailable')
  expect(unwrap(await root('readUpstream', { params })).fault).toContain(
    'no worker of its pool took the call',
  )
  await eventually('its call is cancelled', async () => {
    const [last] = unwrap(await root('listEndedCalls', { query: { last: 1 } })).items
    return last?.state === 'cancelled'
  })
})

test('`mcp_holds_tenant` MCP requests of all agents of a tenant are held, and one more is answered as pending at once', async () => {
  const other = await fixtures.agent()
  const [mine, theirs] = [calls, new McpCalls(fixtures, other)]
  const send = async (of: McpCalls) => {
    const { client, meta, call } = await of.clientInRun('modern')
    const exchange = await client.send('tools/call', { name: sensitive, arguments: {} }, { meta, wait: 60 })
    return { exchange, id: call(1) }
  }
  const held = [await send(mine), await send(theirs), await send(mine), await send(theirs)]
  expect(held.map(({ exchange }) => exchange.isStream)).toEqual([true, true, true, true])
  const more = await send(theirs)
  expect([more.exchange.isStream, (await more.exchange.answer()).result?.['resultType']]).toEqual([
    false,
    'input_required',
  ])
  expect((await theirs.find(more.id))?.state).toBe('awaiting_approval')
  held[0]?.exchange.close()
  await eventually('another request is held', async () => {
    const { exchange } = await send(mine)
    held.push({ exchange, id: '' })
    return exchange.isStream
  })
  for (const { exchange } of held) exchange.close()
})
