// Promise: `countersign wrap` is an MCP server whose tools are the accepted ones of the server that it
// wraps. It registers that server with the operator's key of the installation, and says what to do.

import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { afterEach, expect, test } from 'vitest'
import { nameOf } from '../../../cli/upstreams/wrap.ts'
import { ROOT } from '../../../infra/state.ts'
import { CLI, CLI_ENV, countersign } from '../../support/countersign.ts'
import { Fixtures, unwrap } from '../../support/fixtures.ts'
import { sharedStack } from '../../support/stack/stack.ts'

const SERVER = readFileSync('test/support/upstreams/stdio-server.py', 'utf8')
const stack = sharedStack()
const fixtures = new Fixtures('wrap', stack)
const folders: string[] = []
const children: ChildProcessWithoutNullStreams[] = []
afterEach(() => {
  for (const child of children.splice(0)) child.kill()
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true })
})

type Message = {
  readonly id?: unknown
  readonly result?: Record<string, unknown>
  readonly error?: { readonly message: string }
}

/** A client that has started `countersign wrap` and speaks with it. */
class WrapClient {
  readonly #child: ChildProcessWithoutNullStreams
  readonly #lines: AsyncIterator<string>
  #err = ''
  #id = 0

  constructor(args: readonly string[], env: Readonly<Record<string, string>>) {
    const command = [...CLI, 'wrap', ...args]
    this.#child = spawn(process.execPath, command, { cwd: ROOT, env: { ...CLI_ENV, ...env } })
    children.push(this.#child)
    this.#child.stderr.on('data', (chunk: Buffer) => {
      this.#err += chunk.toString()
    })
    this.#lines = createInterface(this.#child.stdout)[Symbol.asyncIterator]()
  }

  get said(): string {
    return this.#err
  }

  send(text: string): void {
    this.#child.stdin.write(`${text}\n`)
  }
  async next(): Promise<Message> {
    const line = await this.#lines.next()
    if (line.done === true) throw new Error(`it ended: ${this.#err}`)
    return JSON.parse(line.value) as Message // a line of the edge or of the command
  }
  request(method: string, params: object = {}): Promise<Message> {
    this.#id += 1
    this.send(JSON.stringify({ jsonrpc: '2.0', id: this.#id, method, params }))
    return this.next()
  }
  async initialize(): Promise<void> {
    const clientInfo = { name: 'test', version: '1' }
    await this.request('initialize', { protocolVersion: '2025-11-25', capabilities: {}, clientInfo })
    this.send('{"jsonrpc":"2.0","method":"notifications/initialized"}')
  }
  async tools(): Promise<string[]> {
    const { result = {} } = await this.request('tools/list')
    return (result['tools'] as { name: string }[]).map(({ name }) => name) // the edge’s own answer
  }
  end(): Promise<number | null> {
    const { promise, resolve } = Promise.withResolvers<number | null>()
    this.#child.once('close', resolve)
    this.#child.stdin.end()
    return promise
  }
}

/** A state folder like that of `npm start`, with the key of this agent. */
function stateWith(agent_key: string): Readonly<Record<string, string>> {
  const folder = mkdtempSync(join(tmpdir(), 'countersign-wrap-'))
  folders.push(folder)
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'dev.json'), JSON.stringify({ ...stack, agent_key }), { mode: 0o600 })
  return { COUNTERSIGN_STATE: folder }
}

test('a wrapped server is registered, shows only its accepted tools, and can be called', async () => {
  const agent = await fixtures.agent({ tools: ['*'], pool: 'default' })
  const other = await fixtures.tool()
  const name = fixtures.name()
  const args = ['--name', name, '--', '/usr/bin/python3', '-c', SERVER]
  const first = new WrapClient(args, stateWith(agent.key))
  await first.initialize()
  expect(first.said).toContain(`upstream \`${name}\`: 0 of 15 tools accepted; read each other one`)
  expect((await first.tools()).every((tool) => tool.startsWith('countersign_'))).toBe(true)

  const params = { name, tool: `${name}_echo` }
  const { tool } = unwrap(await fixtures.root('readUpstreamTool', { params }))
  const body = { definition: tool.seen ?? '', sensitive: false, capabilities: [], idempotent: false }
  unwrap(await fixtures.root('acceptUpstreamTool', { params, body }))
  const tools = await first.tools()
  expect(tools).toContain(params.tool)
  expect(tools).not.toContain(other)
  const called = await first.request('tools/call', { name: params.tool, arguments: { text: 'hello' } })
  expect(called.result?.['content']).toEqual([{ type: 'text', text: 'hello' }])
  expect(await first.end()).toBe(0)

  const again = new WrapClient(args, stateWith(agent.key))
  await again.initialize()
  expect(again.said).toContain(`upstream \`${name}\`: 1 of 15 tools accepted`)
})

test('with an agent’s key alone `wrap` registers nothing, and says who can', async () => {
  const agent = await fixtures.agent({ tools: ['*'] })
  const name = fixtures.name()
  const env = { COUNTERSIGN_URL: stack.url, COUNTERSIGN_KEY: agent.key, COUNTERSIGN_STATE: '/nonexistent' }
  const client = new WrapClient(['--name', name, '--', 'true'], env)
  await client.initialize()
  expect(client.said).toContain(`an operator registers this server with \`countersign upstreams add ${name}`)
  client.send('no JSON')
  expect((await client.next()).error?.message).toContain('one JSON-RPC message')
})

test('`wrap` refuses a name that another server has, and a name that is invalid', async () => {
  const agent = await fixtures.agent({ tools: ['*'] })
  const name = fixtures.name()
  const body = { kind: 'stdio' as const, command: ['false'] }
  unwrap(await fixtures.root('putUpstream', { params: { name }, body }))
  const env = stateWith(agent.key)
  const taken = await countersign(['wrap', '--name', name, '--', 'true'], { env })
  expect([taken.code, taken.err]).toEqual([1, expect.stringContaining('is another server')])
  expect((await countersign(['wrap', '--name', 'A B', '--', 'true'], { env })).code).toBe(2)
  expect((await countersign(['wrap'], { env })).code).toBe(2)
})

test.each([
  [['npx', '-y', '@scope/server-files@1.2.3', '/data'], 'server-files'],
  [['/usr/local/bin/docs_mcp', '--all'], 'docs-mcp'],
  [['python3', '/opt/9lives.py'], 'lives'],
  [['node'], ''],
])('`wrap` names the server %j after its program: %j', (command, name) => {
  expect(nameOf(command)).toBe(name)
})
