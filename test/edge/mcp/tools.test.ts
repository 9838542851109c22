// Tools over MCP: listing, calling, denial, approval and the tool that reads a call, in both eras,
// with the answers that a model reads.

import { expect, test } from 'vitest'
import { Fixtures, unwrap } from '../../support/fixtures.ts'
import { McpClient, textOf } from '../../support/http/mcp-client.ts'
import { McpCalls } from '../../support/mcp-calls.ts'
import { sharedStack } from '../../support/stack/stack.ts'
import { PeerWorker } from '../../support/worker/peer-worker.ts'

const fixtures = new Fixtures('mcp-tools', sharedStack())
const tool = await fixtures.tool({
  input_schema: {
    type: 'object',
    properties: { text: { type: 'string', maxLength: 100 } },
    additionalProperties: false,
  },
})
const sensitive = await fixtures.tool({ sensitive: true })
const agent = await fixtures.agent({ tools: [tool, sensitive] })
const peer = await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool)
const ERAS = ['modern', 'legacy'] as const
let sessions = 0
const clientOf = (era: 'modern' | 'legacy', capabilities = {}, key = agent.key) => {
  const client = new McpClient(fixtures.url, key, era, capabilities)
  client.headers = { 'countersign-session': `tools-${++sessions}` }
  return client
}
type CallMeta = { id: string; run: string; digest: string; state: string }
const callIn = (result: Record<string, unknown>): CallMeta =>
  (result['_meta'] as Record<string, CallMeta>)['dev.countersign/call'] as CallMeta

test('a modern client discovers the server, and a legacy client initializes it', async () => {
  expect(await clientOf('modern').result('server/discover')).toMatchObject({
    resultType: 'complete',
    supportedVersions: ['2026-07-28'],
    capabilities: {
      tools: { listChanged: true },
      prompts: {},
      resources: {},
      extensions: { 'io.modelcontextprotocol/tasks': {} },
    },
    cacheScope: 'private',
    _meta: { 'io.modelcontextprotocol/serverInfo': { name: 'countersign' } },
  })
  for (const [asked, given] of [
    ['2025-11-25', '2025-11-25'],
    ['2025-06-18', '2025-06-18'],
    ['2025-03-26', '2025-03-26'],
    ['2024-11-05', '2025-11-25'],
    ['2026-07-28', '2025-11-25'],
  ]) {
    const exchange = await clientOf('legacy').send('initialize', {
      protocolVersion: asked,
      capabilities: {},
      clientInfo: { name: 'a test', version: '1' },
    })
    const { result } = await exchange.answer()
    expect(result).toMatchObject({ protocolVersion: given, serverInfo: { name: 'countersign' } })
    expect(result).not.toHaveProperty('resultType')
    expect(exchange.headers.get('mcp-session-id')).toMatch(/^[\w-]{40,}$/)
  }
})

test('the list of tools is the same text each time, sorted by name, with our own tool', async () => {
  for (const era of ERAS) {
    const client = clientOf(era)
    const [one, other] = [
      await client.send('tools/list', {}, { id: 1 }),
      await client.send('tools/list', {}, { id: 1 }),
    ]
    const { result } = await one.answer()
    await other.answer()
    expect(one.text).toBe(other.text)
    const tools = result?.['tools'] as { name: string; description: string; annotations: object }[]
    expect(tools.map(({ name }) => name)).toEqual(['countersign_result', tool, sensitive].sort())
    expect(tools.find(({ name }) => name === tool)).toMatchObject({
      description: 'a tool of a test',
      inputSchema: { type: 'object', additionalProperties: false },
      annotations: {
        readOnlyHint: true,
        destructiveHint: false,
        idempotentHint: false,
        openWorldHint: false,
      },
    })
    expect(tools.find(({ name }) => name === sensitive)).toMatchObject({
      description: expect.stringContaining('Needs a human approval'),
      annotations: { destructiveHint: true },
    })
    expect('ttlMs' in (result ?? {})).toBe(era === 'modern')
  }
})

const calls = new McpCalls(fixtures, agent)

test('a call that a worker runs is answered with its output, its digest and its attestation', async () => {
  for (const era of ERAS) {
    const { client, meta, call, run } = await calls.clientInRun(era)
    const answering = client.call(tool, { text: 'x' }, { meta })
    const { digest } = await calls.proposed(call(1))
    await peer.run(call(1), { stdout: 'done' })
    const result = await answering
    const { attestation } = await calls.proposed(call(1))
    expect([textOf(result), result['isError']]).toEqual(['done', undefined])
    expect(result['_meta']).toMatchObject({
      'dev.countersign/call': { id: call(1), run, digest, state: 'succeeded' },
      'dev.countersign/decision': { effect: 'allow', code: 'allowed' },
      'dev.countersign/attestation': {
        id: attestation?.id,
        execution_sha256: attestation?.execution_sha256,
        bundle: `${fixtures.url}/v1/runs/${run}/calls/${call(1)}/attestation`,
      },
    })
  }
})

test('M02 M06 unknown tools, other agents’ tools and names a megabyte long get the same short answer', async () => {
  const other = await fixtures.tool()
  for (const era of ERAS) {
    const client = clientOf(era)
    for (const name of ['not-there', other, 'Not A Name', 'x'.repeat(1_000_000)]) {
      const exchange = await client.send(
        'tools/call',
        { name, arguments: {} },
        { headers: { 'mcp-name': name.slice(0, 20_000) } },
      )
      const { error } = await exchange.answer()
      if (name.length > 20_000 && era === 'modern') expect(error?.code).toBe(-32020)
      else
        expect([exchange.status, error]).toEqual([
          200,
          { code: -32602, message: `Unknown tool: ${name.slice(0, 64)}` },
        ])
    }
    for (const params of [
      {},
      { name: 5 },
      { name: tool, arguments: null },
      { name: tool, arguments: [] },
      { name: tool, arguments: 'x' },
    ])
      expect((await (await client.send('tools/call', params)).answer()).error?.code).toBe(-32602)
  }
})

test('invalid arguments and a denial are tool results that a model can read', async () => {
  const narrow = await fixtures.agent({ tools: [tool], channels: ['only-here'] })
  for (const era of ERAS) {
    const wrong = await clientOf(era).call(tool, { text: 5 })
    expect([wrong['isError'], textOf(wrong)]).toEqual([true, expect.stringContaining('text')])
    expect(wrong['_meta']).toMatchObject({
      'dev.countersign/failure': { code: 'invalid_arguments', retry: false },
    })
    const denied = await clientOf(era, {}, narrow.key).call(tool, { text: 'x' })
    expect([denied['isError'], textOf(denied)]).toEqual([true, expect.stringMatching(/^Denied by policy: /)])
    expect(denied['_meta']).toMatchObject({ 'dev.countersign/decision': { effect: 'deny', code: 'denied' } })
  }
})

test('a legacy client gets a pending result, and reads the final one with `countersign_result`', async () => {
  const { client, meta, call } = await calls.clientInRun('legacy')
  const pending = await client.call(sensitive, { text: 'a' }, { meta, wait: 0 })
  expect([pending['isError'], textOf(pending)]).toEqual([
    undefined,
    expect.stringMatching(/^PENDING: not done yet/),
  ])
  expect(pending['structuredContent']).toMatchObject({
    countersign: { status: 'awaiting_approval', call: call(1) },
  })
  const waiting = client.call('countersign_result', { call: call(1), wait_s: 30 })
  await calls.answer(call(1), 'approve')
  await peer.run(call(1), { stdout: 'sent' })
  expect(textOf(await waiting)).toBe('sent')
  expect(textOf(await client.call('countersign_result', { call: call(1) }))).toBe('sent')
  expect(textOf(await client.call('countersign_result', { call: call(1), part: 2 }))).toBe(
    'There is no part 2: the output has 1.',
  )
})

test('a result has at most 16 KiB of a tool’s output (`mcp_output_chars`), and says how to read on', async () => {
  const { client, meta, call } = await calls.clientInRun('legacy')
  const answering = client.call(tool, { text: 'long' }, { meta })
  await calls.proposed(call(1))
  await peer.run(call(1), { stdout: 'x'.repeat(16_385) })
  expect(textOf(await answering).split('\n')[0]).toBe('x'.repeat(16_384))
  expect(textOf(await client.call('countersign_result', { call: call(1), part: 2 }))).toMatch(/^x(?:\n|This)/)
})

test('a rejection by an approver reaches the model with its reason', async () => {
  const { client, meta, call } = await calls.clientInRun('legacy')
  const answering = client.call(sensitive, { text: 'b' }, { meta })
  await calls.answer(call(1), 'deny', 'not on a Friday')
  const result = await answering
  expect([result['isError'], textOf(result)]).toEqual([
    true,
    'An approver said no: not on a Friday. Do not propose it again unchanged.',
  ])
})

test('M06 `countersign_result` answers the same for another agent’s call and for one that does not exist', async () => {
  const { client, meta, call } = await calls.clientInRun('legacy')
  await client.call(sensitive, {}, { meta, wait: 0 })
  const other = await fixtures.agent()
  const answers = []
  for (const id of [call(1), call(2), 'call_01ARZ3NDEKTSV4RRFFQ69G5FAV_1', 'x', 5]) {
    const result = await clientOf('legacy', {}, other.key).call('countersign_result', { call: id })
    answers.push([result['isError'], textOf(result)])
  }
  expect(new Set(answers.map((one) => JSON.stringify(one))).size).toBe(1)
})

test('`_meta`, a session, the path or the sealed session names the run; otherwise there is one a day', async () => {
  const fresh = await fixtures.agent({ tools: [tool] })
  const runOf = async (client: McpClient, wish = {}) =>
    callIn(await client.call(tool, { text: String(Math.random()) }, { wait: 0, ...wish })).run
  const client = (path = '/mcp') => new McpClient(fixtures.url, fresh.key, 'legacy', {}, path)
  const day = await runOf(client())
  expect(await runOf(client())).toBe(day)
  const a = await runOf(client('/mcp/s/a'))
  expect(await runOf(client(), { headers: { 'countersign-session': 'a' } })).toBe(a)
  expect(await runOf(client(), { meta: { 'dev.countersign/session': 'a' } })).toBe(a)
  expect(await runOf(client('/mcp/s/a'), { headers: { 'countersign-session': 'a' } })).toBe(a)
  expect(await runOf(client('/mcp/s/b'))).not.toBe(a)
  expect(unwrap(await fresh.client('readRun', { params: { run: a } })).session).toBe('a')
  const sealed = async () =>
    (await client().send('initialize', { protocolVersion: '2025-11-25' })).headers.get('mcp-session-id') ?? ''
  const [one, two] = [await sealed(), await sealed()]
  const [first, second] = [
    await runOf(client(), { headers: { 'mcp-session-id': one } }),
    await runOf(client(), { headers: { 'mcp-session-id': two } }),
  ]
  expect(await runOf(client(), { headers: { 'mcp-session-id': one } })).toBe(first)
  expect(new Set([day, a, first, second]).size).toBe(4)
  const refused = async (wish: object, key = fresh.key) => {
    const exchange = await new McpClient(fixtures.url, key, 'legacy').send(
      'tools/call',
      { name: tool, arguments: {} },
      wish,
    )
    return [exchange.status, (await exchange.answer()).error?.code]
  }
  expect(await refused({ headers: { 'mcp-session-id': `${one}x` } })).toEqual([404, -32600])
  expect(await refused({ headers: { 'mcp-session-id': one } }, (await fixtures.agent()).key)).toEqual([
    404, -32600,
  ])
  expect(await refused({ headers: { 'countersign-session': 'a b' } })).toEqual([200, -32602])
  expect(
    await refused({ headers: { 'countersign-session': 'a' }, meta: { 'dev.countersign/run': a } }),
  ).toEqual([200, -32602])
  expect(await refused({ meta: { 'dev.countersign/run': day } }, agent.key)).toEqual([200, -32602])
  expect(await refused({ meta: { 'dev.countersign/run': 'run_01ARZ3NDEKTSV4RRFFQ69G5FAV' } })).toEqual([
    200, -32602,
  ])
  const strict = await fixtures.agent({ mcp: { run: 'required' } })
  expect(await refused({}, strict.key)).toEqual([200, -32602])
})

test('M02 bad input is refused with the code and status that its era expects', async () => {
  const [modern, legacy] = [clientOf('modern'), clientOf('legacy')]
  const answerTo = async (exchange: {
    status: number
    answer: () => Promise<{ error?: { code: number } }>
  }) => [exchange.status, (await exchange.answer()).error?.code]
  const json = { 'content-type': 'application/json' }
  expect(await answerTo(await legacy.raw('{', json))).toEqual([400, -32700])
  expect(await answerTo(await legacy.raw('[]', json))).toEqual([400, -32600])
  expect(await answerTo(await legacy.raw('{"jsonrpc":"2.0","id":1.5,"method":"ping"}', json))).toEqual([
    400, -32600,
  ])
  expect(await answerTo(await legacy.raw('{}', { 'content-type': 'text/plain' }))).toEqual([415, 415])
  const html = await legacy.raw('{}', { ...json, accept: 'text/html' })
  expect([html.status, (await html.answer()).error]).toMatchObject([
    406,
    { code: 406, data: { code: 'not_acceptable' } },
  ])
  expect(await answerTo(await legacy.raw('{}', { ...json, origin: 'https://evil.example' }))).toEqual([
    403, 403,
  ])
  expect(await answerTo(await legacy.raw('{}', { ...json, 'idempotency-key': 'x' }))).toEqual([400, 400])
  expect(await answerTo(await new McpClient(fixtures.url, 'x', 'legacy').raw('{}', json))).toEqual([401, 401])
  expect(
    await answerTo(await new McpClient(fixtures.url, fixtures.rootKey, 'legacy').raw('{}', json)),
  ).toEqual([403, 403])
  expect(await answerTo(await legacy.raw(`{"a":"${'x'.repeat(1_100_000)}"}`, json))).toEqual([413, 413])
  for (const method of [
    'initialize',
    'ping',
    'logging/setLevel',
    'resources/subscribe',
    'tasks/list',
    'no/such',
    'constructor',
  ])
    expect(await answerTo(await modern.send(method)), method).toEqual([404, -32601])
  for (const method of ['server/discover', 'tasks/get', 'subscriptions/listen', 'no/such', '__proto__'])
    expect(await answerTo(await legacy.send(method)), method).toEqual([200, -32601])
  expect(await legacy.result('ping')).toEqual({})
  expect(await legacy.result('resources/list')).toEqual({ resources: [] })
  expect(await legacy.result('resources/templates/list')).toEqual({ resourceTemplates: [] })
  expect(await modern.result('prompts/list')).toMatchObject({
    prompts: [],
    ttlMs: 60_000,
    cacheScope: 'private',
  })
  for (const [method, params] of [
    ['prompts/get', { name: 'x' }],
    ['resources/read', { uri: 'file:///x' }],
  ] as const) {
    const exchange = await modern.send(method, params, {
      headers: { 'mcp-name': Object.values(params).join() },
    })
    expect([exchange.status, (await exchange.answer()).error?.code]).toEqual([200, -32602])
  }
  expect((await legacy.raw('{"jsonrpc":"2.0","method":"notifications/initialized"}', json)).status).toBe(202)
  expect((await legacy.raw('{"jsonrpc":"2.0","id":1,"result":{}}', json)).status).toBe(202)
  const get = await fetch(modern.url, {
    headers: { authorization: `Bearer ${agent.key}`, accept: 'text/event-stream' },
  })
  expect([get.status, get.headers.get('allow')]).toEqual([405, 'POST'])
})

test('a tool that policy rules out for the agent is not listed, and a call of it is denied like any other', async () => {
  const [out, grouped, byAgent, byArgs] = [
    await fixtures.tool(),
    await fixtures.tool({ groups: ['risky'] }),
    await fixtures.tool(),
    await fixtures.tool({ input_schema: { type: 'object', properties: { text: { type: 'string' } } } }),
  ]
  const team = await fixtures.agent({ tools: ['*'], groups: ['interns'] })
  const listed = async (key = team.key) =>
    ((await clientOf('modern', {}, key).result('tools/list'))['tools'] as { name: string }[]).map(
      ({ name }) => name,
    )
  const all = [out, grouped, byAgent, byArgs]
  expect((await listed()).filter((name) => all.includes(name))).toEqual([...all].sort())
  const action = 'action in Action::"tool.execute"'
  await fixtures.withPolicies(
    {
      'mcp-list.cedar': [
        `@id("out") forbid (principal, ${action}, resource == Tool::"${out}");`,
        `@id("grouped") forbid (principal in Group::"interns", ${action}, resource in ToolGroup::"risky");`,
        `@id("by-agent") forbid (principal == Agent::"${team.name}", ${action}, resource == Tool::"${byAgent}");`,
        `@id("by-args") forbid (principal, ${action}, resource == Tool::"${byArgs}") when { context.tool_name == "${byArgs}" && context.run_id like "x*" };`,
      ].join('\n'),
    },
    async () => {
      expect((await listed()).filter((name) => all.includes(name))).toEqual([byArgs])
      const other = await fixtures.agent({ tools: ['*'] })
      expect((await listed(other.key)).filter((name) => all.includes(name))).toEqual(
        [byAgent, byArgs, grouped].sort(),
      )
      const denied = await clientOf('modern', {}, team.key).call(out)
      expect([denied['isError'], textOf(denied)]).toEqual([
        true,
        expect.stringMatching(/^Denied by policy: /),
      ])
    },
  )
})

test('M03 a long list of tools comes in pages, and a cursor works only for its own agent', async () => {
  const { tools: before } = (await clientOf('legacy').result('tools/list')) as { tools: unknown[] }
  expect(before.length).toBeLessThan(250)
  for (const cursor of ['', 'x', 5, null, 'A'.repeat(2_000)])
    expect((await (await clientOf('legacy').send('tools/list', { cursor })).answer()).error?.code).toBe(
      -32602,
    )
})
