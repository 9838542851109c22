// Passes messages between an MCP client, which starts us and uses our standard input and output, and
// the edge's MCP endpoint. It adds the agent's key to each message and leaves it unchanged. The client
// sees only the tools of one upstream. Nothing is decided here.

import { EVIDENCE_BOUNDS, type Json, parseJson } from '../../shared/bytes/json.ts'
import { LIMITS } from '../../shared/limits.ts'
import { isObject, type JsonObject } from '../../shared/mcp/messages.ts'

export type BridgeEnds = {
  readonly input: AsyncIterable<Uint8Array>
  /** Writes one message, without its line end. */
  readonly write: (text: string) => void
  readonly endpoint: string
  readonly key: string
  /** Whether the client sees a tool. */
  readonly shows: (tool: string) => boolean
}

const META = 'io.modelcontextprotocol/protocolVersion'
/** JSON-RPC: the text is not JSON; the server could not answer. */
const [NOT_JSON, NO_ANSWER] = [-32700, -32603]

export class McpBridge {
  readonly #ends: BridgeEnds
  readonly #underWay = new Map<string, AbortController>()
  readonly #pending = new Set<Promise<void>>()
  /** Headers of a client of an older revision, once it has initialized. */
  #session: Readonly<Record<string, string>> = {}

  constructor(ends: BridgeEnds) {
    this.#ends = ends
  }

  /** Resolves when the input has ended and every request is answered, or `until` aborts them. */
  async run(until: AbortSignal): Promise<void> {
    const abort = () => {
      for (const request of this.#underWay.values()) request.abort()
    }
    until.addEventListener('abort', abort, { once: true })
    for await (const line of linesIn(this.#ends.input, until)) {
      const message = messageIn(line)
      if (message === undefined) this.#fail(null, NOT_JSON, 'send one JSON-RPC message per line')
      // A client sends `initialize` alone, so the next message finds its session.
      else if (message['method'] === 'initialize') await this.#forward(message)
      else this.#start(message)
    }
    await Promise.all(this.#pending)
    until.removeEventListener('abort', abort)
  }

  #start(message: JsonObject): void {
    const answered = this.#forward(message).finally(() => this.#pending.delete(answered))
    this.#pending.add(answered)
  }

  async #forward(message: JsonObject): Promise<void> {
    const { id, method, params } = message
    const key = JSON.stringify(id ?? null)
    if (method === 'notifications/cancelled' && isObject(params) && isModern(message))
      return this.#underWay.get(JSON.stringify(params['requestId'] ?? null))?.abort() // the edge sees that it closes
    const aborting = new AbortController()
    if (id !== undefined) this.#underWay.set(key, aborting)
    try {
      await this.#exchange(message, aborting.signal)
    } catch {
      if (!aborting.signal.aborted && id !== undefined)
        this.#fail(
          id,
          NO_ANSWER,
          `no answer from ${this.#ends.endpoint}; whether it received this is unknown`,
        )
    } finally {
      this.#underWay.delete(key)
    }
  }

  async #exchange(message: JsonObject, signal: AbortSignal): Promise<void> {
    const { endpoint, key } = this.#ends
    const answer = await fetch(endpoint, {
      method: 'POST',
      redirect: 'error',
      signal,
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        authorization: `Bearer ${key}`,
        ...(isModern(message) ? modernHeaders(message) : this.#session),
      },
      body: JSON.stringify(message),
    })
    const streams = (answer.headers.get('content-type') ?? '').startsWith('text/event-stream')
    if (streams && answer.body !== null) {
      for await (const text of eventsIn(answer.body)) this.#pass(message, text, answer)
      return
    }
    const text = await answer.text()
    if (message['id'] !== undefined || text !== '') this.#pass(message, text, answer)
  }

  /** Writes a message of the edge. An answer outside the protocol becomes an error. */
  #pass(request: JsonObject, text: string, { status, headers }: Response): void {
    const parsed = parseJson(Buffer.from(text), EVIDENCE_BOUNDS)
    const message = parsed.ok && isObject(parsed.value) ? parsed.value : {}
    if (message['jsonrpc'] !== '2.0') {
      if (request['id'] === undefined) return
      const { detail = `HTTP ${status}` } = message
      this.#fail(request['id'], NO_ANSWER, `the edge refused the request: ${String(detail)}`)
      return
    }
    const { result } = message
    if (request['method'] === 'initialize' && isObject(result))
      this.#session = {
        'mcp-protocol-version': String(result['protocolVersion']),
        'mcp-session-id': headers.get('mcp-session-id') ?? '',
      }
    const lists = request['method'] === 'tools/list' && isObject(result)
    this.#ends.write(lists ? JSON.stringify({ ...message, result: this.#own(result) }) : text.trim())
  }

  /** A page of the list of tools, without the tools of other upstreams. */
  #own(page: JsonObject): JsonObject {
    const { tools } = page
    return Array.isArray(tools) ? { ...page, tools: tools.filter((tool) => this.#isShown(tool)) } : page
  }

  #isShown(tool: Json): boolean {
    return isObject(tool) && typeof tool['name'] === 'string' && this.#ends.shows(tool['name'])
  }

  #fail(id: Json, code: number, message: string): void {
    this.#ends.write(JSON.stringify({ jsonrpc: '2.0', id, error: { code, message } }))
  }
}

/** A request of the revision 2026-07-28 describes itself; older clients have a session. */
const isModern = ({ params }: JsonObject): boolean =>
  isObject(params) && isObject(params['_meta']) && META in params['_meta']

/** The edge compares these headers with the body. */
function modernHeaders({ method, params }: JsonObject): Record<string, string> {
  const { _meta: meta, name, uri, taskId } = isObject(params) ? params : {}
  const named = [name, uri, taskId].find((value) => typeof value === 'string')
  return {
    'mcp-protocol-version': isObject(meta) ? String(meta[META]) : '',
    'mcp-method': String(method),
    ...(typeof named === 'string' ? { 'mcp-name': headerText(named) } : {}),
  }
}

const PLAIN = /^(?!=\?base64\?)[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/
const headerText = (text: string): string =>
  PLAIN.test(text) ? text : `=?base64?${Buffer.from(text).toString('base64')}?=`

function messageIn(line: Uint8Array): JsonObject | undefined {
  const parsed = parseJson(line)
  return parsed.ok && isObject(parsed.value) ? parsed.value : undefined
}

/** Lines of the input. A line longer than the edge accepts is cut, so that it no longer parses. */
async function* linesIn(input: AsyncIterable<Uint8Array>, until: AbortSignal): AsyncGenerator<Uint8Array> {
  let rest = Buffer.alloc(0)
  for await (const chunk of input) {
    if (until.aborted) return
    rest = Buffer.concat([rest, chunk])
    for (let end = rest.indexOf(10); end >= 0; end = rest.indexOf(10)) {
      const line = rest.subarray(0, end)
      rest = rest.subarray(end + 1)
      if (line.some((byte) => byte > 32)) yield line
    }
    if (rest.byteLength > LIMITS.body_bytes) rest = rest.subarray(0, LIMITS.body_bytes)
  }
}

/** The data of each event of a stream. */
async function* eventsIn(body: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder()
  let rest = ''
  for await (const chunk of body) {
    const blocks = (rest + decoder.decode(chunk, { stream: true })).split('\n\n')
    rest = blocks.pop() ?? ''
    for (const block of blocks) {
      const data = block.split('\n').flatMap((line) => (line.startsWith('data: ') ? line.slice(6) : []))
      if (data.length > 0) yield data.join('\n')
    }
  }
}
