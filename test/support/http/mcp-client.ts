// A client of the MCP endpoint that sends exactly what a test says, in either era, and reads JSON
// and event streams. It repairs nothing.

import { setTimeout as sleep } from 'node:timers/promises'

type Json = Record<string, unknown>
export type RpcMessage = {
  readonly id?: string | number | null
  readonly method?: string
  readonly params?: Json
  readonly result?: Json
  readonly error?: { code: number; message: string; data?: Json }
}
type Wish = {
  readonly id?: string | number
  readonly meta?: Json
  readonly capabilities?: Json
  readonly headers?: Readonly<Record<string, string>>
  readonly wait?: number
}

const NAMED: Readonly<Record<string, string>> = { 'tools/call': 'name' }

/** One answered or held request. */
export class McpExchange {
  readonly status: number
  readonly headers: Headers
  /** Messages of a stream as they come, and comments as `null`. */
  readonly received: (RpcMessage | null)[] = []
  readonly #abort: AbortController
  #ended = false
  #text = ''

  constructor(response: Response, abort: AbortController) {
    this.status = response.status
    this.headers = response.headers
    this.#abort = abort
    void this.#read(response)
  }

  async #read(response: Response): Promise<void> {
    const decoder = new TextDecoder()
    const isStream = this.isStream
    let rest = ''
    try {
      for await (const chunk of response.body ?? []) {
        const text = decoder.decode(chunk, { stream: true })
        this.#text += text
        if (!isStream) continue
        const blocks = (rest + text).split('\n\n')
        rest = blocks.pop() ?? ''
        for (const block of blocks)
          this.received.push(block.startsWith('data: ') ? (JSON.parse(block.slice(6)) as RpcMessage) : null)
      }
    } catch {
      // closed by the test, or cut by the edge
    }
    if (!isStream && this.#text !== '') this.received.push(JSON.parse(this.#text) as RpcMessage)
    this.#ended = true
  }

  get isStream(): boolean {
    return this.headers.get('content-type') === 'text/event-stream'
  }
  get ended(): boolean {
    return this.#ended
  }
  get text(): string {
    return this.#text
  }
  /** Everything that was received, except comments. */
  get messages(): RpcMessage[] {
    return this.received.filter((one) => one !== null)
  }

  close(): void {
    this.#abort.abort()
  }

  async until<T>(what: string, look: (exchange: this) => T | undefined, within_ms = 30_000): Promise<T> {
    for (const end = Date.now() + within_ms; ; await sleep(5)) {
      const found = look(this)
      if (found !== undefined) return found
      if (this.#ended || Date.now() > end)
        throw new Error(
          `${what} did not come; status ${this.status}, received ${JSON.stringify(this.received)}`,
        )
    }
  }

  /** The answer: a result or an error. */
  answer(within_ms?: number): Promise<RpcMessage> {
    return this.until(
      'the answer',
      ({ messages }) => messages.find(({ result, error }) => result !== undefined || error !== undefined),
      within_ms,
    )
  }

  async end(within_ms = 30_000): Promise<this> {
    for (const end = Date.now() + within_ms; !this.#ended; await sleep(5))
      if (Date.now() > end) throw new Error('the response did not end')
    return this
  }
}

export class McpClient {
  readonly #url: URL
  readonly #key: string
  readonly era: 'modern' | 'legacy'
  readonly #capabilities: Json
  /** Sent with every request. */
  headers: Record<string, string> = {}
  #count = 0

  constructor(url: string, key: string, era: 'modern' | 'legacy', capabilities: Json = {}, path = '/mcp') {
    this.#url = new URL(path, url)
    this.#key = key
    this.era = era
    this.#capabilities = capabilities
  }

  get url(): URL {
    return this.#url
  }

  /** Sends these bytes with these headers and nothing else but the key. */
  async raw(body: string, headers: Readonly<Record<string, string>>): Promise<McpExchange> {
    const abort = new AbortController()
    const response = await fetch(this.#url, {
      method: 'POST',
      headers: { authorization: `Bearer ${this.#key}`, ...headers },
      body,
      signal: abort.signal,
    })
    return new McpExchange(response, abort)
  }

  /** The headers and the message of a well-formed request. */
  request(
    method: string,
    params: Json = {},
    wish: Wish = {},
  ): { headers: Record<string, string>; message: Json } {
    const { id = ++this.#count, meta = {}, capabilities = this.#capabilities, headers = {}, wait } = wish
    const named = params[NAMED[method] ?? (method.startsWith('tasks/') ? 'taskId' : '')]
    const isModern = this.era === 'modern'
    const whole = isModern
      ? {
          ...params,
          _meta: {
            'io.modelcontextprotocol/protocolVersion': '2026-07-28',
            'io.modelcontextprotocol/clientCapabilities': capabilities,
            'io.modelcontextprotocol/clientInfo': { name: 'a test', version: '1' },
            ...meta,
          },
        }
      : { ...params, ...(Object.keys(meta).length === 0 ? {} : { _meta: meta }) }
    return {
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        ...(wait === undefined ? {} : { prefer: `wait=${wait}` }),
        ...(isModern
          ? {
              'mcp-protocol-version': '2026-07-28',
              'mcp-method': method,
              ...(typeof named === 'string' ? { 'mcp-name': named } : {}),
            }
          : {}),
        ...this.headers,
        ...headers,
      },
      message: { jsonrpc: '2.0', id, method, params: whole },
    }
  }

  send(method: string, params: Json = {}, wish: Wish = {}): Promise<McpExchange> {
    const { headers, message } = this.request(method, params, wish)
    return this.raw(JSON.stringify(message), headers)
  }

  /** The result; throws for an error. */
  async result(method: string, params: Json = {}, wish: Wish = {}): Promise<Json> {
    const { result, error } = await (await this.send(method, params, wish)).answer()
    if (result === undefined) throw new Error(`${method} was answered with ${JSON.stringify(error)}`)
    return result
  }

  call(name: string, args: Json = {}, wish: Wish = {}): Promise<Json> {
    return this.result('tools/call', { name, arguments: args }, wish)
  }
}

/** All text of a tool result. */
export const textOf = ({ content }: Json): string =>
  (content as { text: string }[]).map(({ text }) => text).join('\n')
