// A session with an MCP server over standard input and output: one message a line, requests one after
// the other. The server is untrusted: every byte is counted before it is parsed, an answer must name
// our request, and a request of the server ends the session (U08).

import { canonical, type Json } from '../../shared/bytes/json.ts'
import { LIMITS } from '../../shared/limits.ts'
import {
  parseMessage,
  type Response,
  responseOf,
  serverRequest,
  type Unreadable,
  unreadable,
  wantsInput,
} from '../../shared/mcp/messages.ts'
import { err, ok, type Result } from '../../shared/result.ts'
import { MAX_UPSTREAM_LIMITS } from '../../shared/upstream-limits.ts'

/** Standard input and output of the server. The output ends with the server. */
export type ServerPipes = {
  readonly write: (text: string) => void
  readonly output: AsyncIterable<Uint8Array>
}

const VERSION = '2025-11-25'
const VERSIONS: readonly unknown[] = [VERSION, '2025-06-18', '2025-03-26', '2024-11-05']
const CLIENT = { name: 'countersign', version: '1' }
const GONE = 'the server ended without an answer'

/** The text of a request. Without an id it is a notification. */
export const requestText = (method: string, id: string | null, params: Record<string, Json>): string =>
  canonical({ jsonrpc: '2.0', ...(id === null ? {} : { id }), method, params })

export class ServerSession {
  readonly #pipes: ServerPipes
  readonly #lines: AsyncGenerator<Result<Uint8Array, Unreadable>, void>

  constructor(pipes: ServerPipes) {
    this.#pipes = pipes
    this.#lines = linesIn(pipes.output)
  }

  /** Agrees on the protocol. We declare no capabilities. */
  async open(): Promise<Result<true, Unreadable>> {
    const params = { protocolVersion: VERSION, capabilities: {}, clientInfo: CLIENT }
    const answer = await this.request('initialize', requestText('initialize', 'initialize', params))
    if (!answer.ok) return answer
    if (answer.value.kind === 'error')
      return unreadable(`the server refused to initialize: ${answer.value.error.code}`)
    if (!VERSIONS.includes(answer.value.result['protocolVersion']))
      return unreadable('the server speaks no version of the protocol that we know')
    this.#pipes.write(`${requestText('notifications/initialized', null, {})}\n`)
    return ok(true)
  }

  /** All tools, page by page. */
  async listTools(): Promise<Result<readonly Json[], Unreadable>> {
    const tools: Json[] = []
    let params: Record<string, Json> = {}
    for (let page = 0; page < LIMITS.upstream_pages; page += 1) {
      const id = `list-${page}`
      const listed = await this.request(id, requestText('tools/list', id, params))
      if (!listed.ok) return listed
      if (listed.value.kind === 'error')
        return unreadable(`the server does not list its tools: ${listed.value.error.code}`)
      const { tools: found, nextCursor: next } = listed.value.result
      if (!Array.isArray(found)) return unreadable('the list of tools has no `tools`')
      tools.push(...found)
      if (tools.length > LIMITS.upstream_tools)
        return unreadable(`the server lists more than ${LIMITS.upstream_tools} tools`)
      if (typeof next !== 'string' || next === '') return ok(tools)
      params = { cursor: next }
    }
    return unreadable(`the list of tools has more than ${LIMITS.upstream_pages} pages`)
  }

  /** Sends a request and waits for its answer. Notifications of the server are dropped. */
  async request(id: string, text: string): Promise<Result<Response, Unreadable>> {
    this.#pipes.write(`${text}\n`)
    for (;;) {
      const line = await this.#lines.next()
      if (line.done === true) return unreadable(GONE)
      if (!line.value.ok) return line.value
      const message = parseMessage(line.value.value)
      if (!message.ok) return message
      if (typeof message.value['method'] !== 'string') return responseOf(message.value, id, line.value.value)
      const wanted = serverRequest(message.value)
      if (wanted !== undefined) return wantsInput(wanted)
    }
  }

  /** Stops reading. A server that writes more is blocked until it is ended. */
  async close(): Promise<void> {
    await this.#lines.return()
  }
}

const LINE_FEED = 10

/** The lines of the output. It ends early, with the reason, if a line or all of it is too long. */
async function* linesIn(
  output: AsyncIterable<Uint8Array>,
): AsyncGenerator<Result<Uint8Array, Unreadable>, void> {
  let parts: Uint8Array[] = []
  let [inLine, inAll] = [0, 0]
  try {
    for await (const chunk of output) {
      inAll += chunk.byteLength
      for (let from = 0; from < chunk.byteLength; ) {
        const end = chunk.indexOf(LINE_FEED, from)
        const part = chunk.subarray(from, end < 0 ? undefined : end)
        inLine += part.byteLength
        if (inLine > MAX_UPSTREAM_LIMITS.net_bytes || inAll > LIMITS.stdio_bytes) {
          yield err({ kind: 'too_large', why: 'the server wrote more than a call may' })
          return
        }
        parts.push(end < 0 ? Buffer.from(part) : part)
        if (end < 0) break
        yield ok(Buffer.concat(parts))
        parts = []
        inLine = 0
        from = end + 1
      }
    }
  } catch {
    // The pipe broke with the server, which ends the lines like its exit.
  }
}
