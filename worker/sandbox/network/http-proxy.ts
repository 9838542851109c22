// Owns the HTTP that a sandbox speaks to its call's proxy: CONNECT, and plain HTTP in absolute
// form. Clients that speak SOCKS are passed to socks5.ts. egress.ts checks every request, including
// later ones on the same connection. The proxy follows no redirect: the tool has to make a new
// request, which is checked again (N08).

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
import { type MaskedStream, SecretMask } from '../streams/secret-mask.ts'
import { type Addition, headersOf, type Transport } from './credentials.ts'
import { EGRESS_CAPS, type Egress, type Upstream } from './egress.ts'
import { authorityOf, type ConnectionVerdict } from './host-patterns.ts'
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
} as const satisfies Record<ConnectionVerdict, number>
const ESTABLISHED = 'HTTP/1.1 200 Connection established\r\n\r\n'
const DEFAULT_PORTS = { plain: 80, tls: 443 } as const satisfies Record<Transport, number>

/**
 * The headers of RFC 9110 §7.6.1 and those that are addressed to this proxy. `host` is here because
 * we write our own.
 */
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

/**
 * A client that sends no request, or half of one, is timed out. A whole one has as long as its call
 * (N15).
 */
export const proxyServer = (): Server =>
  createServer({
    headersTimeout: EGRESS_CAPS.hello_ms,
    keepAliveTimeout: EGRESS_CAPS.idle_ms,
    requestTimeout: 0,
    connectionsCheckingInterval: EGRESS_CAPS.hello_ms / 4,
    requireHostHeader: false, // or Node answers such a request itself, and egress does not count it
  })

/**
 * Turns a listening server into the proxy of one call. Returns a function that ends all its
 * connections.
 */
export function serveProxy(server: Server, egress: Egress, interception?: Interception): () => void {
  const clients = new Set<Duplex>()
  const track = (client: Duplex): void => {
    if (clients.has(client)) return
    clients.add(client)
    client.on('close', () => clients.delete(client)).on('error', () => client.destroy())
  }
  // Node's documentation gives its own listener this signature.
  const [speakHttp] = server.listeners('connection') as ((client: Socket) => void)[]
  server.removeAllListeners('connection')
  server.on('connection', (client: Socket) => {
    if (egress.exhausted) return void client.destroy()
    track(client)
    peekFirstByte(client, (byte) => {
      if (byte !== SOCKS_VERSION) speakHttp?.call(server, client)
      else serveSocks(egress, client, carryOrServeHttp(egress)).catch(() => client.destroy())
    })
  })
  server.on('connect', (incoming: IncomingMessage, client: Duplex, head: Buffer) => {
    if (egress.exhausted) return void client.destroy()
    tunnel(egress, interception, incoming, client, head).catch(() => client.destroy())
  })
  const onRequest = (incoming: IncomingMessage, response: ServerResponse): void => {
    if (incoming.socket.destroyed) return // the parser still emits pipelined requests
    if (egress.exhausted)
      server.closeAllConnections() // leaves tunnels open
    else forward(egress, incoming, response).catch(() => incoming.socket.destroy())
  }
  server.on('request', onRequest).on('checkExpectation', onRequest)
  server.on('clientError', (error: NodeJS.ErrnoException, client: Duplex) => {
    // A failed system call is not a malformed request: the client is gone, perhaps killed.
    if (error.syscall !== undefined) return void client.destroy()
    egress.refuse('malformed')
    turnAway(client, STATUS.malformed, 'malformed')
  })
  return () => {
    egress.close()
    for (const client of clients) client.destroy()
  }
}

/**
 * HTTP and SOCKS share one port: no HTTP method begins with the byte that is the version of SOCKS.
 */
function peekFirstByte(client: Socket, onByte: (byte: number | undefined) => void): void {
  const late = setTimeout(() => client.destroy(), EGRESS_CAPS.hello_ms)
  client.once('close', () => clearTimeout(late))
  client.once('readable', () => {
    clearTimeout(late)
    const chunk: Buffer | null = client.read()
    if (chunk !== null) client.unshift(chunk)
    onByte(chunk?.[0])
  })
}

async function tunnel(
  egress: Egress,
  interception: Interception | undefined,
  incoming: IncomingMessage,
  client: Duplex,
  head: Buffer,
): Promise<void> {
  if (!egress.authenticates(incoming.headers['proxy-authorization'])) {
    egress.refuseUnknown()
    return turnAway(client, STATUS.unknown_client, 'unknown client')
  }
  const reached = await egress.reach(incoming.url ?? '')
  if (!reached.ok) return turnAway(client, STATUS[reached.error], reached.error)
  // Bytes after CONNECT belong to the tunnel: never parse them as a request (N11).
  if (head.length > 0) client.unshift(head)
  const { to, failed } = reached.value
  if (interception === undefined || !egress.intercepts(to))
    return carryOrServeHttp(egress)(client, reached.value, ESTABLISHED)
  if (await intercept(client, reached.value, interception, ESTABLISHED, passOnInTunnel(reached.value, 'tls')))
    return
  failed()
  turnAway(client, STATUS.failed, 'failed')
}

/**
 * Port 80 of a host whose pattern names no port carries HTTP only, even if the client asks for a
 * tunnel, as Node's `fetch` does. Unparsed bytes could be a request for another host behind the
 * same address (N11).
 */
const carryOrServeHttp =
  (egress: Egress): Carry =>
  async (client, upstream, granted) => {
    const { socket, to } = upstream
    if (!egress.speaksHttp(to)) return carry(client, upstream, granted)
    client.on('close', () => socket.destroy())
    if (client.destroyed) return void socket.destroy() // the client left while we connected
    client.write(granted)
    const served = serveOne(client, (incoming, response) =>
      passOnInTunnel(upstream, 'plain')(incoming, response, socket),
    )
    socket.once('close', () => served() || client.destroy())
  }

async function forward(egress: Egress, incoming: IncomingMessage, response: ServerResponse): Promise<void> {
  const refuse = (status: number, reason: string): void => {
    response
      .writeHead(status, { connection: 'close', 'content-type': 'text/plain', ...challenge(status) })
      .end(`${reason}\n`)
  }
  if (!egress.authenticates(incoming.headers['proxy-authorization'])) {
    egress.refuseUnknown()
    return refuse(STATUS.unknown_client, 'unknown client')
  }
  const url = isMalformed(incoming) ? undefined : absoluteForm(incoming.url ?? '')
  const reached = url === undefined ? egress.refuse('malformed') : await egress.reach(url.authority)
  if (!reached.ok) return refuse(STATUS[reached.error], reached.error)
  const { socket, additions, recordCredentials } = reached.value
  passOn(incoming, response, {
    path: url?.path ?? '/',
    host: url?.host ?? '',
    over: socket,
    added: additions('plain'),
    recordCredentials,
  })
}

/** TRACE is refused because its response repeats the request, with the credentials in it. */
const isMalformed = ({ method, httpVersion, headers }: IncomingMessage): boolean =>
  method === 'TRACE' || (httpVersion === '1.1' && headers.host === undefined)

/**
 * Passes on the one request of a tunnel that ends here. A target that is not a path is refused: it
 * could name another host.
 */
const passOnInTunnel =
  ({ to, additions, recordCredentials }: Upstream, by: Transport) =>
  (incoming: IncomingMessage, response: ServerResponse, over: Duplex): void => {
    const { method, url: path = '' } = incoming
    if (method === 'TRACE' || !path.startsWith('/')) return void response.writeHead(STATUS.malformed).end()
    const host = to.port === DEFAULT_PORTS[by] ? authorityOf(to).replace(/:[0-9]+$/, '') : authorityOf(to)
    passOn(incoming, response, { path, host, over, added: additions(by), recordCredentials })
  }

type Forwarding = {
  readonly path: string
  readonly host: string
  readonly over: Duplex
  readonly added: readonly Addition[]
  readonly recordCredentials: Upstream['recordCredentials']
}

function passOn(
  incoming: IncomingMessage,
  response: ServerResponse,
  { path, host, over, added, recordCredentials }: Forwarding,
): void {
  // `host` is the one that was checked, whatever header the tool sent (N11). An added header
  // overrides the tool's own.
  const headers = {
    ...endToEnd(incoming.headers),
    ...uncompressed(added),
    ...headersOf(added),
    ...framing(incoming.headers),
    host,
    connection: 'close',
  }
  response.on('close', () => over.destroy())
  const passed = request({
    method: incoming.method,
    path,
    headers,
    setHost: false,
    createConnection: () => over,
  })
  recordCredentials(added) // after request(), which throws on a header that Node refuses to write
  passed.on('error', () => incoming.socket.destroy())
  passed.on('close', () => {
    if (!response.headersSent) incoming.socket.destroy() // the host changed protocols, unasked
  })
  passed.on('response', (upstreamResponse) => passBack(upstreamResponse, response, added))
  incoming.pipe(passed)
}

/**
 * The host must see the body end where we saw it end, whatever the method and whatever `connection`
 * names. By default Node writes the body of a GET without framing, and the host would read it as a
 * second request that nobody checked (N11).
 */
function framing({
  'transfer-encoding': coding,
  'content-length': length,
}: IncomingHttpHeaders): IncomingHttpHeaders {
  if (coding !== undefined) return { 'transfer-encoding': 'chunked' }
  return length === undefined ? {} : { 'content-length': length }
}

/**
 * A host may repeat the credential that it received, so its response is searched. That needs a
 * response without compression.
 */
const uncompressed = (added: readonly Addition[]): IncomingHttpHeaders =>
  added.length === 0 ? {} : { 'accept-encoding': 'identity' }

function passBack(
  upstreamResponse: IncomingMessage,
  response: ServerResponse,
  added: readonly Addition[],
): void {
  const veil = new SecretMask(Object.fromEntries(added.map(({ secret, value }) => [secret, value])))
  try {
    response.writeHead(
      upstreamResponse.statusCode ?? STATUS.failed,
      added.length === 0
        ? endToEnd(upstreamResponse.headers)
        : maskHeaders(endToEnd(upstreamResponse.headers), veil),
    )
  } catch {
    response.destroy() // the host is listed but may be hostile: it sent a status or header that HTTP lacks
    return
  }
  upstreamResponse.on('error', () => response.destroy())
  if (added.length === 0) upstreamResponse.pipe(response)
  else upstreamResponse.pipe(maskingTransform(veil.stream())).pipe(response)
}

const maskingTransform = (stream: MaskedStream): Transform =>
  new Transform({
    transform: (chunk: Buffer, _encoding, pass) => pass(null, stream.take(chunk)),
    flush: (pass) => pass(null, stream.end()),
  })

/** Drops `content-length` because masking changes the length of the body. */
function maskHeaders(
  { 'content-length': _, ...headers }: IncomingHttpHeaders,
  veil: SecretMask,
): IncomingHttpHeaders {
  const text = (value: string): string => veil.text(value)
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [
      name,
      Array.isArray(value) ? value.map(text) : value === undefined ? value : text(value),
    ]),
  )
}

/**
 * Splits `http://host[:port]/path`, the only form that a proxy accepts. egress.ts parses the
 * authority.
 */
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

function turnAway(client: Duplex, status: number, reason: string): void {
  const lines = [`HTTP/1.1 ${status} Refused`, 'connection: close', 'content-type: text/plain']
  for (const [name, value] of Object.entries(challenge(status))) lines.push(`${name}: ${value}`)
  client.end(`${lines.join('\r\n')}\r\n\r\n${reason}\n`, () => client.destroy())
}
