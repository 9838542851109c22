// Promise: Claude Code's hook gets the decision of policy and of people on each tool that it is
// about to run, each yes once, and a denial for whatever goes wrong. The record says that
// Countersign did not execute the call.

import { afterAll, expect, test } from 'vitest'
import { verifyBundle } from '../../../shared/evidence/bundle.ts'
import { LIMITS } from '../../../shared/limits.ts'
import { ClaudeCodeAnswer } from '../../../shared/wire/hooks.ts'
import type { RegisteredToolSpec } from '../../../shared/wire/tools.ts'
import { eventually } from '../../support/eventually.ts'
import { refusalOf, toolSpec, unwrap } from '../../support/fixtures.ts'
import { sharedStack } from '../../support/stack/stack.ts'
import { newTenant } from '../../support/tenants.ts'
import { PeerWorker } from '../../support/worker/peer-worker.ts'

const dev = sharedStack()
const fixtures = await newTenant(dev, 'hooks') // tools of Claude Code have fixed names
afterAll(async () => {
  expect((await fixtures.root('listApprovals', { query: {} })).ok).toBe(true) // the edge is alive
})

const unexecuted = (change: Partial<RegisteredToolSpec> = {}): RegisteredToolSpec => ({
  description: 'a tool of Claude Code',
  input_schema: {
    type: 'object',
    properties: { command: { type: 'string' }, description: { type: 'string' } },
    required: ['command'],
  },
  capabilities: [],
  executor: { kind: 'none' },
  egress: { mode: 'none', hosts: [] },
  workspace: 'call',
  limits: {},
  ...change,
})
const put = async (name: string, change: Partial<RegisteredToolSpec> = {}) =>
  unwrap(await fixtures.root('putTool', { params: { name }, body: unexecuted(change) }))
await put('claude_code_bash')
await put('claude_code_write', { input_schema: { type: 'object' }, sensitive: true })
await put('claude_code_any', {
  input_schema: { type: 'object', properties: { tool_name: { type: 'string' } } },
})
unwrap(
  await fixtures.root('putTool', { params: { name: 'claude_code_run' }, body: toolSpec() }), // a tool that Countersign executes
)
const agent = await fixtures.agent()
const approver = await fixtures.operator(['approver'])

let sessions = 0
const newSession = (): string => `session-${++sessions}`
type Given = { session?: string; key?: string; wait?: number; headers?: Record<string, string> }
const documentOf = (tool_name: string, tool_input: unknown, session: string) => ({
  session_id: session,
  transcript_path: '/home/a/.claude/projects/p/t.jsonl',
  cwd: '/home/a/p',
  permission_mode: 'default',
  hook_event_name: 'PreToolUse',
  tool_name,
  tool_input,
  tool_use_id: 'toolu_1',
})

/**
 * Posts a document as Claude Code does; whatever happens, the answer is a decision with status 200.
 */
async function hook(body: unknown, { key = agent.key, wait = 0, headers = {} }: Given = {}) {
  const answer = await fetch(new URL('/v1/hooks/claude-code', fixtures.url), {
    method: 'POST',
    headers: {
      authorization: `Bearer ${key}`,
      'content-type': 'application/json',
      prefer: `wait=${wait}`,
      ...headers,
    },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  })
  expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'application/json'])
  const { permissionDecision, permissionDecisionReason } = ClaudeCodeAnswer.parse(
    await answer.json(),
  ).hookSpecificOutput
  const [id] = /call_[0-9A-Z]+_[0-9]+/.exec(permissionDecisionReason) ?? []
  const refusal = answer.headers.get('countersign-refusal')
  return { says: permissionDecision, reason: permissionDecisionReason, id: id ?? '', refusal }
}
const advised = (tool: string, input: unknown, given: Given = {}) =>
  hook(documentOf(tool, input, given.session ?? newSession()), given)
const callOf = async (id: string) => {
  const run = `run_${id.slice(5, id.lastIndexOf('_'))}`
  return unwrap(await agent.client('readCall', { params: { run, call: id } }))
}
const answer = async (id: string, decision: 'approve' | 'deny') => {
  const { approval } = await callOf(id)
  return unwrap(
    await approver.client('answerApproval', { params: { id: approval?.id ?? '' }, body: { decision } }),
  )
}

test('an allowed tool is released, and the attestation says that Countersign executed nothing', async () => {
  const { says, id, reason } = await advised('Bash', { command: 'ls', description: 'List files' })
  expect([says, reason]).toEqual(['allow', expect.stringContaining('Allowed by Countersign')])
  const call = await callOf(id)
  expect(call).toMatchObject({ state: 'released', tool: 'claude_code_bash', decision: { effect: 'allow' } })
  expect(call.plan).toBeUndefined()
  const params = { run: call.run, call: id }
  const bundle = unwrap(await agent.client('readAttestation', { params }))
  const { ok, statement } = verifyBundle(
    bundle,
    unwrap(await fixtures.root('keys', { query: { tenant: 'hooks' } })),
  )
  expect([ok, statement?.predicate]).toEqual([
    true,
    expect.objectContaining({
      state: 'released',
      grant: null,
      execution: expect.objectContaining({ executor: 'edge', outcome: null, started_at_ms: null }),
    }),
  ])
  const { items } = unwrap(await agent.client('readJournal', { params: { run: call.run }, query: {} }))
  expect(items.map(({ kind }) => kind)).toEqual(['allowed', 'released'])
  const run = unwrap(await agent.client('readRun', { params: { run: call.run } }))
  expect(run).toMatchObject({ channel: 'claude-code', session: expect.stringMatching(/^session-/) })
})

test('policies see the arguments and the lack of isolation, and a denial says what would change it', async () => {
  const on = 'principal, action == Action::"tool.execute/claude_code_bash", resource'
  const rules = {
    force: `@id("no-force") @reason("no forced pushes") forbid (${on}) when { context.args.command like "*push --force*" };`,
    plan: `@id("not-isolated") @reason("nothing isolates it") forbid (${on}) when { context.plan.tier == "none" && context.args.command like "*isolated*" };`,
  }
  await fixtures.withPolicies(rules, async () => {
    const denied = await advised('Bash', { command: 'git push --force' })
    expect(denied.says).toBe('deny')
    expect(denied.reason).toMatch(/Denied by Countersign \(call_.*no forced pushes/)
    expect((await callOf(denied.id)).state).toBe('denied')
    expect((await advised('Bash', { command: 'isolated' })).reason).toContain('nothing isolates it')
    expect((await advised('Bash', { command: 'git push' })).says).toBe('allow')
  })
})

test('a question is denied as pending, and a yes is given once, to the next request for exactly this call', async () => {
  const session = newSession()
  const input = { file_path: '/home/a/p/x', content: 'hello' }
  const first = await advised('Write', input, { session })
  expect([first.says, first.reason]).toEqual([
    'deny',
    expect.stringMatching(/^Pending: people have been asked/),
  ])
  const again = await advised('Write', input, { session })
  expect(again.id).toBe(first.id) // it joins the question
  const other = await advised('Write', { ...input, content: 'other' }, { session })
  expect(other.id).not.toBe(first.id)

  const { approval } = await callOf(first.id)
  const card = unwrap(await approver.client('readApproval', { params: { id: approval?.id ?? '' } }))
  expect(card.prompt.plan).toContain('the agent’s own program runs it')
  expect(card.prompt.arguments).toContain('hello')
  expect(card.options.filter(({ decision }) => decision === 'approve')).toEqual([
    { decision: 'approve', scope: 'once' },
  ])
  await answer(first.id, 'approve')
  expect((await callOf(first.id)).state).toBe('granted')
  expect((await advised('Write', { ...input, content: 'other' }, { session })).says).toBe('deny')
  expect((await advised('Write', input, { session: newSession() })).says).toBe('deny') // another session
  expect(await advised('Write', input, { session })).toMatchObject({ says: 'allow', id: first.id })
  const next = await advised('Write', input, { session })
  expect([next.says, next.id === first.id]).toEqual(['deny', false]) // a new question
})

test('a hook waits for its approver, and gets the answer in the same request', async () => {
  for (const [decision, says] of [
    ['approve', 'allow'],
    ['deny', 'deny'],
  ] as const) {
    const session = newSession()
    const waiting = advised('Write', { file_path: decision }, { session, wait: 60 })
    const { items } = await eventually('the question is there', async () => {
      const page = unwrap(await approver.client('listApprovals', { query: {} }))
      return page.items.some(({ prompt }) => prompt.arguments.includes(`"${decision}"`)) && page
    })
    const id = items.find(({ prompt }) => prompt.arguments.includes(`"${decision}"`))?.id ?? ''
    unwrap(await approver.client('answerApproval', { params: { id }, body: { decision } }))
    expect((await waiting).says).toBe(says)
  }
})

test('L2 exactly one of several requests for one approved call is allowed', async () => {
  const session = newSession()
  const input = { file_path: 'once' }
  const { id } = await advised('Write', input, { session })
  await answer(id, 'approve')
  const all = await Promise.all(Array.from({ length: 8 }, () => advised('Write', input, { session })))
  expect(all.filter(({ says }) => says === 'allow')).toHaveLength(1)
})

test('M05 hooks of one agent beyond those that may wait are answered as pending at once, and may ask again', async () => {
  const session = newSession()
  const input = { file_path: 'crowd' }
  const crowd = Array.from({ length: LIMITS.mcp_holds_agent + 1 }, () =>
    advised('Write', input, { session, wait: 60 }),
  )
  const first = await Promise.race(crowd) // the others wait for an answer that nobody has given yet
  expect([first.says, first.reason]).toEqual(['deny', expect.stringMatching(/^Pending: people have been/)])
  await answer(first.id, 'deny')
  const reasons = (await Promise.all(crowd)).map(({ reason }) => reason.split(' ').at(0))
  expect(reasons.filter((word) => word === 'Denied')).toHaveLength(LIMITS.mcp_holds_agent)
  const second = newSession()
  const waiting = advised('Write', input, { session: second, wait: 60 }) // every place is free again
  const id = await eventually('the next question is there', async () =>
    unwrap(await approver.client('listApprovals', { query: {} })).items.find(({ prompt }) =>
      prompt.arguments.includes('crowd'),
    ),
  )
  unwrap(await approver.client('answerApproval', { params: { id: id.id }, body: { decision: 'approve' } }))
  expect((await waiting).says).toBe('allow')
})

test('equal requests at the same moment ask people once', async () => {
  const session = newSession()
  const all = await Promise.all(
    Array.from({ length: 8 }, () => advised('Write', { file_path: 'together' }, { session })),
  )
  expect(all.map(({ says }) => says)).toEqual(all.map(() => 'deny'))
  expect(new Set(all.map(({ id }) => id)).size).toBe(1)
})

test('an approver’s no reaches the program that asks again, and nobody is asked again until then', async () => {
  const session = newSession()
  const input = { file_path: 'refused' }
  const { id } = await advised('Write', input, { session })
  await answer(id, 'deny')
  expect(await advised('Write', input, { session })).toMatchObject({
    says: 'deny',
    id,
    reason: expect.stringContaining('Denied by Countersign'),
  })
  expect((await advised('Write', input, { session })).id).not.toBe(id)
})

test('equal requests that policy allows are decided one by one, even at the same moment', async () => {
  const session = newSession()
  const all = await Promise.all(
    Array.from({ length: 4 }, () => advised('Bash', { command: 'ls' }, { session })),
  )
  expect(all.map(({ says }) => says)).toEqual(all.map(() => 'allow'))
  expect(new Set(all.map(({ id }) => id)).size).toBe(4)
})

test('L1 an approval has no effect once policy denies the call, the tool has changed or the agent is removed', async () => {
  const never = 'forbid (principal, action == Action::"tool.execute/claude_code_write", resource);'
  const input = { file_path: 'changed' }
  const session = newSession()
  const approved = async () => {
    const { id } = await advised('Write', input, { session })
    await answer(id, 'approve')
    return id
  }
  const first = await approved()
  await fixtures.withPolicies({ never: `@id("never") ${never}` }, async () => {
    expect(await advised('Write', input, { session })).toMatchObject({ says: 'deny', id: first })
  })
  expect((await callOf(first)).state).toBe('cancelled')
  const second = await approved()
  await put('claude_code_write', {
    input_schema: { type: 'object' },
    sensitive: true,
    description: 'changed',
  })
  const renewed = await advised('Write', input, { session }) // a question about the tool as it is now
  expect([renewed.says, renewed.id === second]).toEqual(['deny', false])
  expect((await callOf(renewed.id)).state).toBe('awaiting_approval')

  const leaving = await fixtures.agent()
  const { id } = await advised('Write', input, { session, key: leaving.key })
  expect(id).not.toBe('')
  unwrap(await fixtures.root('deleteAgent', { params: { name: leaving.name } }))
  expect(await advised('Write', input, { session, key: leaving.key })).toMatchObject({
    says: 'deny',
    refusal: 'unauthenticated',
  })
})

test('an agent that is removed while its hook waits gets no yes', async () => {
  const leaving = await fixtures.agent()
  const waiting = advised('Write', { file_path: 'leaving' }, { key: leaving.key, wait: 60 })
  const id = await eventually(
    'the question is there',
    async () =>
      unwrap(await approver.client('listApprovals', { query: {} })).items.find(({ prompt }) =>
        prompt.arguments.includes('leaving'),
      )?.id,
  )
  unwrap(await fixtures.root('deleteAgent', { params: { name: leaving.name } }))
  await approver.client('answerApproval', { params: { id }, body: { decision: 'approve' } })
  expect((await waiting).says).toBe('deny')
})

test('L6 a malformed hook request, a wrong key and an unknown tool are denied with a reason', async () => {
  const good = documentOf('Bash', { command: 'ls' }, newSession())
  const { tool_input: _, ...noInput } = good
  const cases: [string, unknown, Given][] = [
    ['unauthenticated', good, { key: 'cs_nobody' }],
    ['unauthenticated', good, { headers: { authorization: '' } }],
    ['forbidden', good, { key: approver.key }],
    ['not_json', '{"session_id":', {}],
    ['not_json', '', {}],
    ['json_duplicate_key', '{"tool_name":"Bash","tool_name":"Read"}', {}],
    ['unsupported_media_type', good, { headers: { 'content-type': 'text/plain' } }],
    ['invalid_request', [], {}],
    ['invalid_request', noInput, {}],
    ['invalid_request', { ...good, tool_input: 'ls' }, {}],
    ['invalid_request', { ...good, hook_event_name: 'PostToolUse' }, {}],
    ['invalid_request', { ...good, session_id: '' }, {}],
    ['invalid_request', { ...good, tool_name: 'Bash\nRead' }, {}],
    ['invalid_arguments', { ...good, tool_input: { command: 7 } }, {}],
    ['body_too_large', { ...good, tool_input: { command: 'x'.repeat(LIMITS.body_bytes) } }, {}],
  ]
  for (const [code, body, given] of cases) {
    const said = await hook(body, given)
    expect([code, said.says, said.refusal]).toEqual([code, 'deny', code])
    expect(said.reason).toMatch(/^Countersign refused the request of this hook/)
    expect(said.reason).toMatch(/ To do: .{10,}\.$/)
  }
})

test('a tool without a contract of its own is decided as `claude_code_any`, with its name', async () => {
  const { says, id } = await advised('mcp__github__create_issue', { title: 'a' })
  expect(says).toBe('allow')
  expect((await callOf(id)).tool).toBe('claude_code_any')
  const rule =
    '@id("no-github") forbid (principal, action == Action::"tool.execute/claude_code_any", resource) when { context.args has tool_name && context.args.tool_name like "mcp__github__*" };'
  await fixtures.withPolicies({ rule }, async () => {
    expect((await advised('mcp__github__create_issue', { title: 'a' })).says).toBe('deny')
    expect((await advised('mcp__jira__create_issue', { title: 'a' })).says).toBe('allow')
  })
  // A tool that Countersign executes is no advice, even if its name fits.
  expect((await callOf((await advised('Run', { a: 1 })).id)).tool).toBe('claude_code_any')
  expect((await callOf((await advised('Any', { a: 1 })).id)).tool).toBe('claude_code_any')
  unwrap(await fixtures.root('deleteTool', { params: { name: 'claude_code_any' } }))
  expect(await advised('Run', {})).toMatchObject({ says: 'deny', refusal: 'not_found' })
})

test('a tool without an executor is not offered to agents, and no other route gets it to run', async () => {
  const { items } = unwrap(await agent.client('listTools', {}))
  expect(items.map(({ name }) => name)).toEqual(['claude_code_run'])
  const args = { command: 'ls' }
  expect(
    refusalOf(await agent.client('proposeCallInNewRun', { body: { tool: 'claude_code_bash', args } })),
  ).toBe('400 invalid_request')
  expect(unwrap(await agent.client('decide', { body: { tool: 'claude_code_bash', args } })).plan).toBeNull()
  const session = newSession()
  const { id } = await advised('Write', { file_path: 'claimed' }, { session })
  await answer(id, 'approve')
  const peer = await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool)
  const { run } = await callOf(id)
  expect(refusalOf(await peer.client('claim', { body: { run, call: id, tiers: ['B', 'C'] } }))).toBe(
    '409 not_claimable',
  )
})

test('a contract without an executor is refused if it has a setting that only an executor could enforce', async () => {
  for (const [field, change] of [
    ['egress', { egress: { mode: 'strict', hosts: ['example.com'] } }],
    ['egress', { egress: { mode: 'none', hosts: ['example.com'] } }],
    ['secrets', { secrets: ['a'] }],
    ['workspace', { workspace: 'run' }],
    ['limits', { limits: { pids: 1 } }],
    ['input_files', { input_files: true }],
    ['output_schema', { output_schema: { type: 'object' } }],
    ['idempotent', { idempotent: true }],
  ] as const) {
    const refused = await fixtures.root('putTool', {
      params: { name: 'claude_code_bad' },
      body: unexecuted(change as Partial<RegisteredToolSpec>),
    })
    expect([field, refused.ok ? '' : refused.error.detail]).toEqual([
      field,
      expect.stringContaining(`/${field}:`),
    ])
  }
})
