// Tools over MCP: listing, calling, denial, approval and the tool that reads a call, in both eras,
// with the answers that a model reads.

import { expect, test } from 'vitest'
import { Fixtures, unwrap } from '../../support/fixtures.ts'
import { McpClient, textOf } from '../../support/http/mcp-client.ts'
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
    capabilities: { tools: { listChanged: true }, extensions: { 'io.modelcontextprotocol/tasks': {} } },
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

test('a call that a worker runs is answered with its output and its attestation', async () => {
  for (const era of ERAS) {
    const client = clientOf(era)
    const exchange = await client.send('tools/call', { name: tool, arguments: { text: 'x' } })
    const calls = unwrap(await fixtures.root('listCalls', { query: { last: 1 } }))
    expect(calls).toBeDefined()
    const pending = await client.call(tool, { text: 'x' }, { wait: 0 })
    const { id } = callIn(
      pending.resultType === 'input_required' ? await client.call('countersign_result', {}) : pending,
    )
    await peer.run(id, { stdout: 'done' })
    const { result } = await exchange.answer()
    expect(textOf(result ?? {})).toBe('done')
  }
})
