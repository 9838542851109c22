// The MCP client: finds out which generation of the protocol a server speaks, lists its tools, and
// calls one. Modern servers (2026-07-28) take single requests; legacy ones get a session for each
// use. It authenticates with the upstream's own secret; nothing of the agent is sent except the
// arguments (U06).

import { canonical, type Json } from '../../shared/bytes/json.ts'
import { LIMITS } from '../../shared/limits.ts'
import { isObject, type Response, type Unreadable } from '../../shared/mcp/messages.ts'
import type { UpstreamExecutor } from '../../shared/plan/plan.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import { type Notification, readResponse } from './messages.ts'
import type { HttpAnswer, Unanswered, UpstreamRequests } from './requests.ts'
import { accessToken } from './tokens.ts'

export type Era = 'modern' | 'legacy'
type JsonObject = { readonly [member: string]: Json }

const MODERN = '2026-07-28'
const LEGACY = '2025-11-25'
const LEGACY_VERSIONS: readonly unknown[] = [LEGACY, '2025-06-18', '2025-03-26']
const CLIENT = { name: 'countersign', version: '1' }
/** Errors that only a modern server gives. */
const MODERN_ERRORS: readonly number[] = [-32020, -32021, -32022]
/** Statuses that say nothing about the generation of the protocol. */
const INCONCLUSIVE: readonly number[] = [401, 403, 408, 429]
const VISIBLE_ASCII = /^[\x21-\x7e]{1,512}$/

/**
 * Why a request has no usable answer. `sent`: the server may have acted on it. `refused`: it was
 * sent, and the server said by its status that it does not take it.
 */
export type Fault = Unreadable & { readonly sent: boolean; readonly refused?: true; readonly status?: number }

export type Peer = Pick<UpstreamExecutor, 'url' | 'auth'> & {
  /** The value of the secret that `auth` names. */
  readonly secret: string | null
}

type Message = { readonly method: string; readonly id?: string; readonly params: JsonObject }
type Session = { readonly version: string; readonly id: string | null }

const ignore = async (): Promise<void> => undefined
const meta = {
  ['io.modelcontextprotocol/protocolVersion']: MODERN,
  'io.modelcontextprotocol/clientCapabilities': {},
  'io.modelcontextprotocol/clientInfo': CLIENT,
}

export class UpstreamClient {
  readonly #requests: UpstreamRequests
  readonly #peer: Peer
  /** The access token in use, which is masked in what the server returns. */
  token: string | null = null

  constructor(requests: UpstreamRequests, peer: Peer) {
    this.#requests = requests
    this.#peer = peer
  }

  /** Asks with the modern protocol, and judges the answer. A failure proves neither generation. */
  async probe(): Promise<Result<Era, Fault>> {
    const id = 'discover'
    const sent = await this.#post(
      { method: 'server/discover', id, params: { _meta: meta } },
      modernHeaders('server/discover'),
    )
    if (!sent.ok) return sent
    const { status } = sent.value
    if (INCONCLUSIVE.includes(status) || status >= 500 || (status >= 300 && status < 400))
      return err(refusedWith(status))
    const answer = await readResponse(sent.value, id, ignore)
    if (!answer.ok && answer.error.kind === 'too_large') return err({ ...answer.error, sent: true })
    if (!answer.ok) return status < 300 ? err({ ...answer.error, sent: true }) : ok('legacy')
    if (answer.value.kind === 'error')
      return ok(MODERN_ERRORS.includes(answer.value.error.code) ? 'modern' : 'legacy')
    const versions = answer.value.result['supportedVersions']
    return ok(Array.isArray(versions) && versions.includes(MODERN) ? 'modern' : 'legacy')
  }

  /** All tools, page by page. */
  async listTools(era: Era): Promise<Result<readonly Json[], Fault>> {
    const session = era === 'modern' ? ok(null) : await this.#open()
    if (!session.ok) return session
    const tools: Json[] = []
    let cursor: string | undefined
    for (let page = 0; page < LIMITS.upstream_pages; page += 1) {
      const listed = await this.#request(
        'tools/list',
        `list-${page}`,
        cursor === undefined ? {} : { cursor },
        session.value,
      )
      if (!listed.ok) return listed
      if (listed.value.kind === 'error')
        return err(unreadable(`the server does not list its tools: ${listed.value.error.code}`))
      const { tools: found, nextCursor: next } = listed.value.result
      if (!Array.isArray(found)) return err(unreadable('the list of tools has no `tools`'))
      tools.push(...found)
      if (tools.length > LIMITS.upstream_tools)
        return err(unreadable(`the server lists more than ${LIMITS.upstream_tools} tools`))
      if (typeof next !== 'string' || next === '') {
        this.#close(session.value)
        return ok(tools)
      }
      cursor = next
    }
    return err(unreadable(`the list of tools has more than ${LIMITS.upstream_pages} pages`))
  }

  /** Opens a session if the server needs one. Nothing is executed yet. */
  async prepare(era: Era): Promise<Result<Session | null, Fault>> {
    return era === 'modern' ? ok(null) : this.#open()
  }

  /** The bytes of the request that calls the tool; they are attested. */
  callBody(id: string, tool: string, args: JsonObject, session: Session | null): string {
    const own = session === null ? { ...meta, progressToken: id } : { progressToken: id }
    return bodyOf({ method: 'tools/call', id, params: { name: tool, arguments: args, _meta: own } })
  }

  /**
   * Sends the call. Sends it again only if the server answered 401, which it decides before it
   * reads the call, and there is a new token.
   */
  async call(
    {
      id,
      tool,
      body,
      mirrored,
    }: { id: string; tool: string; body: string; mirrored: Readonly<Record<string, string>> },
    session: Session | null,
    heard: (notification: Notification) => Promise<void>,
  ): Promise<Result<Response, Fault>> {
    const headers =
      session === null ? { ...modernHeaders('tools/call', tool), ...mirrored } : sessionHeaders(session)
    const sent = await this.#send(body, headers)
    const answer = sent.ok ? await read(sent.value, id, heard) : sent
    this.#close(session)
    return answer
  }

  async #request(
    method: string,
    id: string,
    params: JsonObject,
    session: Session | null,
  ): Promise<Result<Response, Fault>> {
    const message = { method, id, params: session === null ? { ...params, _meta: meta } : params }
    const sent = await this.#post(message, session === null ? modernHeaders(method) : sessionHeaders(session))
    return sent.ok ? read(sent.value, id, ignore) : sent
  }

  async #open(): Promise<Result<Session, Fault>> {
    const params = { protocolVersion: LEGACY, capabilities: {}, clientInfo: CLIENT }
    const sent = await this.#post({ method: 'initialize', id: 'initialize', params }, {})
    if (!sent.ok) return sent
    const answer = await read(sent.value, 'initialize', ignore)
    if (!answer.ok) return answer
    if (answer.value.kind === 'error')
      return err(unreadable(`the server refused to initialize: ${answer.value.error.code}`))
    const version = answer.value.result['protocolVersion']
    const id = sent.value.headers.get('mcp-session-id')
    if (typeof version !== 'string' || !LEGACY_VERSIONS.includes(version))
      return err(unreadable('the server speaks no version of the protocol that we know'))
    if (id !== null && !VISIBLE_ASCII.test(id)) return err(unreadable('the server’s session id is malformed'))
    const session = { version, id }
    const ready = await this.#post(
      { method: 'notifications/initialized', params: {} },
      sessionHeaders(session),
    )
    if (!ready.ok) return ready
    await discard(ready.value)
    return ready.value.status < 300 ? ok(session) : err(refusedWith(ready.value.status))
  }

  /** Ends a session. Nobody waits for the answer. */
  #close(session: Session | null): void {
    if (session?.id == null) return
    const headers = { ...sessionHeaders(session), ...this.#authorization() }
    const ended = this.#requests.send({
      method: 'DELETE',
      url: this.#peer.url,
      headers,
      body: null,
      credentials: this.#credentials(),
    })
    void ended.then((answer) => (answer.ok ? discard(answer.value) : undefined)).catch(() => undefined)
  }

  #post(message: Message, headers: Readonly<Record<string, string>>): Promise<Result<HttpAnswer, Fault>> {
    return this.#send(bodyOf(message), headers)
  }

  async #send(body: string, headers: Readonly<Record<string, string>>): Promise<Result<HttpAnswer, Fault>> {
    const authenticated = await this.#authenticate(null)
    if (!authenticated.ok) return authenticated
    const first = await this.#sendOnce(body, headers)
    if (!first.ok || first.value.status !== 401 || this.#peer.auth?.kind !== 'client_credentials')
      return first
    await discard(first.value)
    const renewed = await this.#authenticate(this.token)
    return renewed.ok ? this.#sendOnce(body, headers) : renewed
  }

  async #sendOnce(
    body: string,
    headers: Readonly<Record<string, string>>,
  ): Promise<Result<HttpAnswer, Fault>> {
    const sent = await this.#requests.send({
      method: 'POST',
      url: this.#peer.url,
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'user-agent': CLIENT.name,
        ...headers,
        ...this.#authorization(),
      },
      body,
      credentials: this.#credentials(),
    })
    return sent.ok ? sent : err(notAnswered(sent.error))
  }

  async #authenticate(refused: string | null): Promise<Result<true, Fault>> {
    const { auth, url, secret } = this.#peer
    if (auth?.kind !== 'client_credentials') return ok(true)
    if (this.token !== null && refused === null) return ok(true)
    const token = await accessToken(this.#requests, auth, { url, secret: secret ?? '', refused })
    if (!token.ok) return err({ kind: 'unreadable', why: token.error, sent: false })
    this.token = token.value
    return ok(true)
  }

  #authorization(): Readonly<Record<string, string>> {
    const { auth, secret } = this.#peer
    if (auth === undefined) return {}
    if (auth.kind === 'client_credentials') return { authorization: `Bearer ${this.token ?? ''}` }
    const { header, format = '{}' } = auth
    return { [header]: format.replace('{}', () => (secret ?? '').trim()) }
  }

  /** The secret that the server itself receives: none if it receives an access token. */
  #credentials(): string[] {
    const { auth } = this.#peer
    return auth?.kind === 'header' ? [auth.secret] : []
  }
}

const bodyOf = ({ method, id, params }: Message): string =>
  canonical({ jsonrpc: '2.0', ...(id === undefined ? {} : { id }), method, params })

const modernHeaders = (method: string, name?: string): Record<string, string> => ({
  'mcp-protocol-version': MODERN,
  'mcp-method': method,
  ...(name === undefined ? {} : { 'mcp-name': headerText(name) }),
})

/** A legacy server learns the version after it has chosen one. */
const sessionHeaders = ({ version, id }: Session): Record<string, string> => ({
  'mcp-protocol-version': version,
  ...(id === null ? {} : { 'mcp-session-id': id }),
})

const PLAIN_HEADER = /^(?!=\?base64\?)[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/

/** A text as the value of a header: encoded if it is not plain ASCII. */
const headerText = (text: string): string =>
  PLAIN_HEADER.test(text) ? text : `=?base64?${Buffer.from(text).toString('base64')}?=`

/** The arguments that the server wants repeated in headers. An absent one has no header. */
export function mirroredHeaders(
  { mirrored = [] }: Pick<UpstreamExecutor, 'mirrored'>,
  args: JsonObject,
): Record<string, string> {
  return Object.fromEntries(
    mirrored.flatMap(({ header, path }) => {
      const value = path.reduce<Json | undefined>((at, name) => (isObject(at) ? at[name] : undefined), args)
      const isPlain = typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
      return isPlain ? [[`mcp-param-${header.toLowerCase()}`, headerText(String(value))]] : []
    }),
  )
}

async function read(
  answer: HttpAnswer,
  id: string,
  heard: (notification: Notification) => Promise<void>,
): Promise<Result<Response, Fault>> {
  const { status } = answer
  const response = await readResponse(answer, id, heard)
  if (response.ok && (status < 300 || response.value.kind === 'error')) return response
  if (status >= 300) return err(refusedWith(status))
  return response.ok ? response : err({ ...response.error, sent: true })
}

/** A redirect or a client error: the server did not take the request. After a 5xx it may have. */
const refusedWith = (status: number): Fault => ({
  kind: 'unreadable',
  why:
    status < 400
      ? `the server answered HTTP ${status}; redirects are not followed`
      : `the server answered HTTP ${status}`,
  sent: true,
  status,
  ...(status < 500 ? { refused: true } : {}),
})

const unreadable = (why: string): Fault => ({ kind: 'unreadable', why, sent: true })
const notAnswered = ({ sent, why }: Unanswered): Fault => ({ kind: 'unreadable', why, sent })

async function discard({ body }: HttpAnswer): Promise<void> {
  for await (const _ of body) break // leaving the loop closes the body
}
