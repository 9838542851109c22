// Owns the HTTP that a sandbox speaks to its call's proxy: CONNECT, and plain HTTP in absolute form; whoever speaks SOCKS is handed to
// socks.ts. Every request is judged by egress.ts, also the second on one connection. It follows no redirect: the tool asks again, and is
// judged again (N08).

import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  request,
  type Server,
  type ServerResponse,
} from 'node:http'
import type { Socket } from 'node:net'
import { type Duplex, Transform } from 'node:stream'
import { Veil, type VeiledStream } from '../streams/secret-mask.ts'
import { type Addition, headersOf, type Over } from './credentials.ts'
import { EGRESS_CAPS, type Egress, type Upstream } from './egress.ts'
import { authorityOf, type Refused } from './host-patterns.ts'
import { SOCKS_VERSION, serveSocks } from './socks5.ts'
import { type Interception, intercept } from './tls-intercept.ts'
import { type Carry, carry, serveOne } from './tunnel.ts'

const STATUS = {
  allowed: 200,
  malformed: 400,
  unknown_client: 407,
  host_not_listed: 403,
  address_refused: 403,
  sni_mismatch: 403,
  cap: 429,
  unresolvable: 502,
  failed: 502,
} as const satisfies Record<Refused, number>
const ESTABLISHED = 'HTTP/1.1 200 Connection established\r\n\r\n'
const DEFAULT_PORTS = { plain: 80, tls: 443 } as const satisfies Record<Over, number>

/** RFC 9110 §7.6.1, and what is for this proxy alone. `host` is written anew. */
const HOP_BY_HOP = [
  'connection',
  'expect',
  'host',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]

/** Who says half a request, or none, is not waited for long; a whole one may take as long as its call (N15). */
export const proxyServer = (): Server =>
  createServer({
    headersTimeout: EGRESS_CAPS.hello_ms,
    keepAliveTimeout: EGRESS_CAPS.idle_ms,
    requestTimeout: 0,
    connectionsCheckingInterval: EGRESS_CAPS.hello_ms / 4,
    requireHostHeader: false, // Node would answer by itself, and nobody would count it
  })

/** Makes a listening server the proxy of this one call. Returns what ends all its connections. */
export function serveProxy(server: Server, egress: Egress, interception?: Interception): () => void {
  const clients = new Set<Duplex>()
  const hold = (client: Duplex): void => {
    if (clients.has(client)) return
    clients.add(client)
    client.on('close', () => clients.delete(client)).on('error', () => client.destroy())
  }
  const [speakHttp] = server.listeners('connection') as ((client: Socket) => void)[] // Node's own, as its documentation has them
  server.removeAllListeners('connection')
  server.on('connection', (client: Socket) => {
    if (egress.exhausted) return void client.destroy()
    hold(client)
    firstByte(client, (byte) => {
      if (byte !== SOCKS_VERSION) speakHttp?.call(server, client)
      else serveSocks(egress, client, carryOn(egress)).catch(() => client.destroy())
    })
  })
  server.on('connect', (asked: IncomingMessage, client: Duplex, head: Buffer) => {
    if (egress.exhausted) return void client.destroy()
    tunnel(egress, interception, asked, client, head).catch(() => client.destroy())
  })
  const judge = (asked: IncomingMessage, answer: ServerResponse): void => {
    if (asked.socket.destroyed) return // what came with it is still being parsed
    if (egress.exhausted)
      server.closeAllConnections() // tunnels are not among them
    else forward(egress, asked, answer).catch(() => asked.socket.destroy())
  }
  server.on('request', judge).on('checkExpectation', judge)
  server.on('clientError', (error: NodeJS.ErrnoException, client: Duplex) => {
    if (error.syscall !== undefined) return void client.destroy() // it said nothing wrong: it is gone, killed perhaps
    egress.refuse('malformed')
    turnAway(client, STATUS.malformed, 'malformed')
  })
  return () => {
    egress.close()
    for (const client of clients) client.destroy()
  }
}

/** Both protocols are spoken on one port: no method of HTTP begins with the version of SOCKS. */
function firstByte(client: Socket, tell: (byte: number | undefined) => void): void {
  const late = setTimeout(() => client.destroy(), EGRESS_CAPS.hello_ms)
  client.once('close', () => clearTimeout(late))
  client.once('readable', () => {
    clearTimeout(late)
    const chunk: Buffer | null = client.read()
    if (chunk !== null) client.unshift(chunk)
    tell(chunk?.[0])
  })
}

async function tunnel(
  egress: Egress,
  interception: Interception | undefined,
  asked: IncomingMessage,
  client: Duplex,
  head: Buffer,
): Promise<void> {
  if (!egress.knows(asked.headers['proxy-authorization'])) {
    egress.refuseUnknown()
    return turnAway(client, STATUS.unknown_client, 'unknown client')
  }
  const reached = await egress.reach(asked.url ?? '')
  if (!reached.ok) return turnAway(client, STATUS[reached.error], reached.error)
  if (head.length > 0) client.unshift(head) // what came along is the tunnel's, never another request (N11)
  const { to, failed } = reached.value
  if (interception === undefined || !egress.intercepts(to))
    return carryOn(egress)(client, reached.value, ESTABLISHED)
  if (await intercept(client, reached.value, interception, ESTABLISHED, passOnInside(reached.value, 'tls')))
    return
  failed()
  turnAway(client, STATUS.failed, 'failed')
}

/**
 * Port 80 of a host whose pattern names no port is for HTTP, whichever way it was asked for: Node's `fetch` asks for a tunnel there. Bytes
 * that nobody reads could be a request for another host behind the same address (N11).
 */
const carryOn =
  (egress: Egress): Carry =>
  async (client, upstream, granted) => {
    const { socket, to } = upstream
    if (!egress.speaksHttp(to)) return carry(client, upstream, granted)
    client.on('close', () => socket.destroy())
    if (client.destroyed) return void socket.destroy() // gone while we connected
    client.write(granted)
    const served = serveOne(client, (asked, answer) => passOnInside(upstream, 'plain')(asked, answer, socket))
    socket.once('close', () => served() || client.destroy())
  }

async function forward(egress: Egress, asked: IncomingMessage, answer: ServerResponse): Promise<void> {
  const turn = (status: number, why: string): void => {
    answer
      .writeHead(status, { connection: 'close', 'content-type': 'text/plain', ...challenge(status) })
      .end(`${why}\n`)
  }
  if (!egress.knows(asked.headers['proxy-authorization'])) {
    egress.refuseUnknown()
    return turn(STATUS.unknown_client, 'unknown client')
  }
  const url = isMalformed(asked) ? undefined : absoluteForm(asked.url ?? '')
  const reached = url === undefined ? egress.refuse('malformed') : await egress.reach(url.authority)
  if (!reached.ok) return turn(STATUS[reached.error], reached.error)
  const { socket, additions, told } = reached.value
  passOn(asked, answer, {
    path: url?.path ?? '/',
    host: url?.host ?? '',
    over: socket,
    added: additions('plain'),
    told,
  })
}

/** TRACE would say again what it was told. */
const isMalformed = ({ method, httpVersion, headers }: IncomingMessage): boolean =>
  method === 'TRACE' || (httpVersion === '1.1' && headers.host === undefined)

/** The one request of a tunnel that ends here. What is no path is no request for its host. */
const passOnInside =
  ({ to, additions, told }: Upstream, by: Over) =>
  (asked: IncomingMessage, answer: ServerResponse, over: Duplex): void => {
    const { method, url: path = '' } = asked
    if (method === 'TRACE' || !path.startsWith('/')) return void answer.writeHead(STATUS.malformed).end()
    const host = to.port === DEFAULT_PORTS[by] ? authorityOf(to).replace(/:[0-9]+$/, '') : authorityOf(to)
    passOn(asked, answer, { path, host, over, added: additions(by), told })
  }

type Passage = {
  readonly path: string
  readonly host: string
  readonly over: Duplex
  readonly added: readonly Addition[]
  readonly told: Upstream['told']
}

function passOn(
  asked: IncomingMessage,
  answer: ServerResponse,
  { path, host, over, added, told }: Passage,
): void {
  // The host that was judged is the one asked for, whatever header came along (N11); a header that is added takes the place of the tool's.
  const headers = {
    ...endToEnd(asked.headers),
    ...readably(added),
    ...headersOf(added),
    ...framing(asked.headers),
    host,
    connection: 'close',
  }
  answer.on('close', () => over.destroy())
  const passed = request({
    method: asked.method,
    path,
    headers,
    setHost: false,
    createConnection: () => over,
  })
  told(added) // not before: what Node will not write it throws at
  passed.on('error', () => asked.socket.destroy())
  passed.on('close', () => {
    if (!answer.headersSent) asked.socket.destroy() // it changed protocols, which nobody asked for
  })
  passed.on('response', (got) => passBack(got, answer, added))
  asked.pipe(passed)
}

/**
 * A body ends for the host where it ended for us, whatever the method and whatever `connection` names: left to choose, Node writes that
 * of a GET bare, to be read as a second request that nobody judged (N11).
 */
function framing({
  'transfer-encoding': coding,
  'content-length': length,
}: IncomingHttpHeaders): IncomingHttpHeaders {
  if (coding !== undefined) return { 'transfer-encoding': 'chunked' }
  return length === undefined ? {} : { 'content-length': length }
}

/** A host may say again what it was told: what it says is to be in the clear, for it is searched. */
const readably = (added: readonly Addition[]): IncomingHttpHeaders =>
  added.length === 0 ? {} : { 'accept-encoding': 'identity' }

function passBack(got: IncomingMessage, answer: ServerResponse, added: readonly Addition[]): void {
  const veil = new Veil(Object.fromEntries(added.map(({ secret, value }) => [secret, value])))
  try {
    answer.writeHead(
      got.statusCode ?? STATUS.failed,
      added.length === 0 ? endToEnd(got.headers) : veiled(endToEnd(got.headers), veil),
    )
  } catch {
    answer.destroy() // a status or header that HTTP does not have, from a host that is listed but need not be friendly
    return
  }
  got.on('error', () => answer.destroy())
  if (added.length === 0) got.pipe(answer)
  else got.pipe(searched(veil.stream())).pipe(answer)
}

const searched = (stream: VeiledStream): Transform =>
  new Transform({
    transform: (chunk: Buffer, _encoding, pass) => pass(null, stream.take(chunk)),
    flush: (pass) => pass(null, stream.end()),
  })

/** As long as it was it may not be any more. */
function veiled({ 'content-length': _, ...headers }: IncomingHttpHeaders, veil: Veil): IncomingHttpHeaders {
  const text = (value: string): string => veil.text(value)
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [
      name,
      Array.isArray(value) ? value.map(text) : value === undefined ? value : text(value),
    ]),
  )
}

/** `http://host[:port]/path`; anything else is not for a proxy. The authority is parsed once, by egress. */
function absoluteForm(url: string): { authority: string; host: string; path: string } | undefined {
  const [, host, rest = ''] = /^http:\/\/([^/?#]+)([/?][^#]*)?$/i.exec(url) ?? []
  if (host === undefined) return undefined
  return {
    host,
    authority: /:[0-9]+$/.test(host) ? host : `${host}:80`,
    path: rest.startsWith('/') ? rest : `/${rest}`,
  }
}

function endToEnd(headers: IncomingHttpHeaders): IncomingHttpHeaders {
  const named = headers.connection?.split(',').map((name) => name.trim().toLowerCase()) ?? []
  return Object.fromEntries(
    Object.entries(headers).filter(([name]) => !HOP_BY_HOP.includes(name) && !named.includes(name)),
  )
}

const challenge = (status: number): { 'proxy-authenticate'?: string } =>
  status === STATUS.unknown_client ? { 'proxy-authenticate': 'Basic realm="call"' } : {}

function turnAway(client: Duplex, status: number, why: string): void {
  const lines = [`HTTP/1.1 ${status} Refused`, 'connection: close', 'content-type: text/plain']
  for (const [name, value] of Object.entries(challenge(status))) lines.push(`${name}: ${value}`)
  client.end(`${lines.join('\r\n')}\r\n\r\n${why}\n`, () => client.destroy())
}
