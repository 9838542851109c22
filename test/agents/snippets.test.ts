// Promise: the examples of docs/agents.md for MCP hosts work as they are written there. Its agents run
// against a real edge with the frameworks' own scripted models. Its configurations are for services
// that can't be called here, so a client of the same protocol calls the edge with their values.

import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { z } from 'zod'
import { ROOT } from '../../infra/state.ts'
import { eventually } from '../support/eventually.ts'
import { Fixtures, unwrap } from '../support/fixtures.ts'
import { sharedStack } from '../support/stack/stack.ts'
import { WANTED } from './snippets/wanted.ts'

const fixtures = new Fixtures('snippets', sharedStack())
const PAGE = readFileSync(join(ROOT, 'docs/agents.md'), 'utf8')
/** `text_stats` counts lines, words and bytes. */
const COUNTED = /\b0 +3 +18\b/

/** The block of code that follows a host's name in bold. */
function shown(host: string): string {
  const [, text] = /^```\w+\n([\s\S]*?)^```$/m.exec(PAGE.slice(PAGE.indexOf(`\n**${host}**`))) ?? []
  if (text === undefined) throw new Error(`docs/agents.md shows nothing for ${host}`)
  return text
}
const agent = () => fixtures.agent({ pool: 'default', tools: [WANTED.tool] })
type Agent = Awaited<ReturnType<typeof agent>>

/** The sessions of an agent's runs, with the number of their calls. */
async function sessionsOf({ client }: Agent) {
  const runs = await eventually('a run is listed', async () => {
    const { items } = unwrap(await client('listRuns', { query: {} }))
    return items.length > 0 && items
  })
  const read = runs.map(async ({ id }) => unwrap(await client('readRun', { params: { run: id } })))
  return (await Promise.all(read)).map(({ session, used }) => [session, used.calls])
}

/** Calls the tool as a host with this address and these headers does. */
async function call(url: string, headers: Readonly<Record<string, string>>): Promise<string> {
  const client = new Client({ name: 'host', version: '1' })
  await client.connect(
    new StreamableHTTPClientTransport(new URL(url.replace('https://edge.example.com', fixtures.url)), {
      requestInit: { headers },
    }),
  )
  const { name, inputSchema } =
    (await client.listTools()).tools.find((tool) => tool.name === WANTED.tool) ?? {}
  expect({ name, inputSchema }).toMatchObject({ name: WANTED.tool, inputSchema: { type: 'object' } })
  const { content } = await client.callTool({ name: WANTED.tool, arguments: WANTED.args })
  await client.close()
  return JSON.stringify(content)
}

afterEach(() => {
  vi.unstubAllEnvs()
  vi.restoreAllMocks()
})

describe('an agent that docs/agents.md shows', () => {
  const snippets = {
    'AI SDK': ['ai-sdk', () => import('./snippets/ai-sdk/agent.ts')],
    'OpenAI Agents SDK': ['openai-agents', () => import('./snippets/openai-agents/agent.ts')],
    LangGraph: ['langgraph', () => import('./snippets/langgraph/agent.ts')],
    Mastra: ['mastra', () => import('./snippets/mastra/agent.ts')],
  } as const

  test.each(Object.entries(snippets))(
    '%s: the program on the page is the tested one, and reads the result of the tool',
    async (host, [folder, run]) => {
      expect(shown(host)).toBe(
        readFileSync(join(import.meta.dirname, 'snippets', folder, 'agent.ts'), 'utf8'),
      )
      const caller = await agent()
      vi.stubEnv('COUNTERSIGN_URL', fixtures.url)
      vi.stubEnv('COUNTERSIGN_KEY', caller.key)
      const log = vi.spyOn(console, 'log').mockReturnValue()
      await run()
      expect(log.mock.calls.join('\n')).toMatch(COUNTED)
      expect(await sessionsOf(caller)).toEqual([['chat-17', 1]])
    },
  )
})

describe('a configuration that docs/agents.md shows', () => {
  const Headers = z.record(z.string(), z.string())

  test('OpenAI Responses API: address and headers reach the tools', async () => {
    const Tool = z.strictObject({
      type: z.literal('mcp'),
      server_label: z.string().regex(/^[A-Za-z][A-Za-z0-9_-]*$/),
      server_url: z.string(),
      headers: Headers,
      require_approval: z.literal('never'),
    })
    const caller = await agent()
    const { server_url, headers } = Tool.parse(
      JSON.parse(shown('OpenAI Responses API').replace('KEY', caller.key)),
    )
    expect(await call(server_url, headers)).toMatch(COUNTED)
    expect(await sessionsOf(caller)).toEqual([['chat-17', 1]])
  })

  test('Anthropic Messages API: the address names the session, and the token is the bearer', async () => {
    const Request = z.strictObject({
      mcp_servers: z.tuple([
        z.strictObject({
          type: z.literal('url'),
          name: z.string(),
          url: z.string(),
          authorization_token: z.string(),
        }),
      ]),
      tools: z.tuple([z.strictObject({ type: z.literal('mcp_toolset'), mcp_server_name: z.string() })]),
    })
    const caller = await agent()
    const { mcp_servers, tools } = Request.parse(
      JSON.parse(shown('Anthropic Messages API').replace('KEY', caller.key)),
    )
    const [{ name, url, authorization_token }] = mcp_servers
    expect(tools[0].mcp_server_name).toBe(name)
    expect(await call(url, { authorization: `Bearer ${authorization_token}` })).toMatch(COUNTED)
    expect(await sessionsOf(caller)).toEqual([['chat-17', 1]])
  })

  test('Claude Code: `.mcp.json` takes the key from the environment', async () => {
    const Server = z.strictObject({
      type: z.literal('http'),
      url: z.string(),
      headers: Headers,
      alwaysLoad: z.boolean(),
    })
    const File = z.strictObject({ mcpServers: z.strictObject({ countersign: Server }) })
    const caller = await agent()
    const text = shown('Claude Code').replace(/\$\{COUNTERSIGN_KEY\}/, caller.key) // as Claude Code does
    const { url, headers } = File.parse(JSON.parse(text)).mcpServers.countersign
    expect(await call(url, headers)).toMatch(COUNTED)
  })

  test('n8n: the address names the session, with the bearer of its credential', async () => {
    const [, url = ''] = /\*\*n8n\*\*[^`]*`(https:[^`]+)`/.exec(PAGE) ?? []
    const caller = await agent()
    expect(await call(url, { authorization: `Bearer ${caller.key}` })).toMatch(COUNTED)
    expect(await sessionsOf(caller)).toEqual([['WORKFLOW', 1]])
  })

  test('Pydantic AI: the program compiles, and passes a stand-in for the framework an address and headers that reach the tools', async () => {
    const caller = await agent()
    const standIn = `
import json, sys, types
given = {}
def server(url, headers): given.update(url=url, headers=headers); return 'server'
def agent(model, toolsets): assert toolsets == ['server']
sys.modules['pydantic_ai'] = types.SimpleNamespace(Agent=agent)
sys.modules['pydantic_ai.mcp'] = types.SimpleNamespace(MCPServerStreamableHTTP=server)
exec(compile(sys.stdin.read(), 'docs/agents.md', 'exec'))
print(json.dumps(given))
`
    const printed = execFileSync('python3', ['-c', standIn], {
      input: shown('Pydantic AI'),
      env: { PATH: '/usr/bin:/bin', COUNTERSIGN_KEY: caller.key },
      encoding: 'utf8',
    })
    const { url, headers } = z.strictObject({ url: z.string(), headers: Headers }).parse(JSON.parse(printed))
    expect(await call(url, headers)).toMatch(COUNTED)
    expect(await sessionsOf(caller)).toEqual([['chat-17', 1]])
  })
})
