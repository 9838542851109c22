// A fake MCP server over real HTTP, of either generation of the protocol, whose tools misbehave as a
// test says. It also answers as the token endpoint of an OAuth authorization server, at `/token`.

import { createServer, type IncomingHttpHeaders, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export type Message = {
  readonly id?: string | number
  readonly method: string
  readonly params: {
    readonly name?: string
    readonly arguments?: unknown
    readonly _meta?: Record<string, unknown>
  }
}
export type Came = {
  readonly verb: string
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly body: string
  readonly message: Message | null
}
export type UpstreamTool = { readonly name: string; readonly [member: string]: unknown }
/** Answers one `tools/call`. */
export type Behaviour = (response: ServerResponse, message: Message, fake: FakeUpstream) => void

const json = (response: ServerResponse, body: unknown, status = 200, headers = {}): void => {
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body))
}
export const result = (message: Message, value: object): object => ({
  jsonrpc: '2.0',
  id: message.id,
  result: { resultType: 'complete', ...value },
})
export const text = (words: string, more: object = {}): object => ({
  content: [{ type: 'text', text: words }],
  ...more,
})
export const answering =
  (value: object): Behaviour =>
  (response, message) =>
    json(response, result(message, value))
/** Events of a stream; it stays open unless `end`. */
export const streaming =
  (events: (message: Message) => readonly object[], end = true): Behaviour =>
  (response, message) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    for (const event of events(message)) response.write(`data: ${JSON.stringify(event)}\n\n`)
    if (end) response.end()
  }

export const never: Behaviour = () => undefined
export const endless: Behaviour = streaming(() => [], false)
/** Answers under the id of another request. */
export const answeringAnother: Behaviour = (response, message) =>
  json(response, result({ ...message, id: 'other' }, text('x')))

/** Answers with 100 MB, as fast as they are read. */
export const flooding = (response: ServerResponse): void => {
  response.writeHead(200, { 'content-type': 'application/json' })
  const block = 'x'.repeat(1024 * 1024)
  let left = 100
  const more = (): void => {
    while (left > 0 && !response.destroyed) {
      left -= 1
      if (!response.write(block)) {
        response.once('drain', more)
        return
      }
    }
    response.end('"}')
  }
  response.write('{"jsonrpc":"2.0","result":"')
  more()
}

export const tool = (name: string, more: object = {}): UpstreamTool => ({
  name,
  description: `the tool ${name}`,
  inputSchema: { type: 'object', properties: { text: { type: 'string' } }, additionalProperties: false },
  ...more,
})

export class FakeUpstream {
  readonly came: Came[] = []
  tools: readonly UpstreamTool[] = []
  /** By the name of the tool. */
  readonly behaviours = new Map<string, Behaviour>()
  era: 'modern' | 'legacy'
  /** If set, requests without this header value get 401. */
  authorization: string | null = null
  /** Tokens that `/token` gives, in order. */
  tokens: string[] = []
  /** Instead of listing its tools. */
  listing: ((response: ServerResponse, message: Message) => void) | null = null
  readonly #server: Server

  private constructor(era: 'modern' | 'legacy') {
    this.era = era
    this.#server = createServer((request, response) => {
      const chunks: Buffer[] = []
      request.on('data', (chunk: Buffer) => chunks.push(chunk))
      request.on('end', () => {
        const body = Buffer.concat(chunks).toString()
        const message = body.startsWith('{') ? (JSON.parse(body) as Message) : null // sent by the edge
        this.came.push({
          verb: request.method ?? '',
          path: request.url ?? '',
          headers: request.headers,
          body,
          message,
        })
        this.#answer(request.url ?? '', request.method ?? '', request.headers, message, response)
      })
    })
  }

  static async open(era: 'modern' | 'legacy', tools: readonly UpstreamTool[] = []): Promise<FakeUpstream> {
    const fake = new FakeUpstream(era)
    fake.tools = tools
    await new Promise<void>((resolve) => fake.#server.listen(0, '127.0.0.1', resolve))
    return fake
  }

  get origin(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}` // it listens on TCP
  }
  get url(): string {
    return `${this.origin}/mcp`
  }
  get host(): string {
    return new URL(this.origin).host
  }

  /** The calls of a tool that it received. */
  callsOf(name: string): Came[] {
    return this.came.filter(({ message }) => message?.method === 'tools/call' && message.params.name === name)
  }
  methods(): string[] {
    return this.came.map(({ verb, message }) => message?.method ?? verb)
  }

  close(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#server.close(() => resolve())
    this.#server.closeAllConnections()
    return promise
  }

  #answer(
    path: string,
    verb: string,
    headers: IncomingHttpHeaders,
    message: Message | null,
    response: ServerResponse,
  ): unknown {
    if (path === '/token') return this.#token(response)
    if (this.authorization !== null && headers.authorization !== this.authorization)
      return json(response, { error: 'unauthorized' }, 401, { 'www-authenticate': 'Bearer' })
    if (verb === 'DELETE') return response.writeHead(204).end()
    if (message === null) return response.writeHead(405).end()
    return this.era === 'modern'
      ? this.#modern(headers, message, response)
      : this.#legacy(headers, message, response)
  }

  #token(response: ServerResponse): unknown {
    const [token = 'token-of-the-fake'] = this.tokens.splice(0, 1)
    return json(response, { access_token: token, token_type: 'Bearer', expires_in: 3600 })
  }

  #modern(headers: IncomingHttpHeaders, message: Message, response: ServerResponse): unknown {
    const { id, method, params } = message
    const version = params._meta?.['io.modelcontextprotocol/protocolVersion']
    if (
      version !== '2026-07-28' ||
      headers['mcp-method'] !== method ||
      headers['mcp-protocol-version'] !== version
    )
      return json(response, { jsonrpc: '2.0', id, error: { code: -32020, message: 'header mismatch' } }, 400)
    if (method === 'server/discover')
      return json(
        response,
        result(message, { supportedVersions: ['2026-07-28'], capabilities: { tools: {} } }),
      )
    return this.#either(message, response)
  }

  #legacy(headers: IncomingHttpHeaders, message: Message, response: ServerResponse): unknown {
    const { id, method } = message
    const session = headers['mcp-session-id'] === 'the-session'
    if (method === 'initialize') {
      const params = {
        protocolVersion: '2025-11-25',
        capabilities: { tools: {} },
        serverInfo: { name: 'fake', version: '1' },
      }
      return json(response, { jsonrpc: '2.0', id, result: params }, 200, { 'mcp-session-id': 'the-session' })
    }
    if (!session)
      return json(response, { jsonrpc: '2.0', id: null, error: { code: -32000, message: 'no session' } }, 400)
    if (method === 'notifications/initialized') return response.writeHead(202).end()
    return this.#either(message, response)
  }

  #either(message: Message, response: ServerResponse): unknown {
    const { id, method, params } = message
    if (method === 'tools/list')
      return this.listing === null
        ? json(response, result(message, { tools: this.tools }))
        : this.listing(response, message)
    if (method !== 'tools/call')
      return json(response, { jsonrpc: '2.0', id, error: { code: -32601, message: 'no such method' } }, 404)
    const behaviour = this.behaviours.get(params.name ?? '') ?? answering(text(`ran ${params.name}`))
    return behaviour(response, message, this)
  }
}
