// A call’s proxy connects only to listed hosts at checked addresses, whatever a client sends. The
// proxy is the real one on a real socket; the other side is a server of the test on loopback, which
// the operator’s configuration allows.

import { createServer as createHttp, type IncomingMessage, type Server } from 'node:http'
import {
  type AddressInfo,
  connect,
  createServer as createTcp,
  type Socket,
  type Server as TcpServer,
} from 'node:net'
import { connect as connectTls } from 'node:tls'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { EGRESS_CAPS, Egress, type EgressRules } from '../../../worker/sandbox/network/egress.ts'
import { proxyServer, serveProxy } from '../../../worker/sandbox/network/http-proxy.ts'
import { eventually } from '../../support/eventually.ts'
import { takeTlsPort } from '../arena/web-port.ts'

const TOKEN = 'token-of-this-call'
const AUTHORIZATION = `proxy-authorization: Basic ${Buffer.from(`call:${TOKEN}`).toString('base64')}`

const listening = (server: Server | TcpServer): Promise<number> =>
  new Promise((settle) => server.listen(0, '127.0.0.1', () => settle((server.address() as AddressInfo).port))) // the address of a TCP server

let web: Server
let webPort: number
let echo: TcpServer
let echoPort: number
/** The requests that the web server received, in order. */
const requestsSeen: {
  readonly method: string
  readonly url: string
  readonly headers: IncomingMessage['headers']
  readonly body: string
}[] = []
const echoed: Socket[] = []

beforeAll(async () => {
  web = createHttp((request, answer) => {
    let body = ''
    request.on('data', (chunk: Buffer) => {
      body += chunk.toString()
    })
    request.on('end', () => {
      requestsSeen.push({
        method: request.method ?? '',
        url: request.url ?? '',
        headers: request.headers,
        body,
      })
      if (request.url === '/redirect')
        answer.writeHead(302, { location: 'http://169.254.169.254/latest/meta-data' })
      answer.end(`web says ${request.url}`)
    })
  })
  webPort = await listening(web)
  echo = createTcp((socket) => {
    echoed.push(socket)
    socket.on('error', () => socket.destroy())
    socket.pipe(socket)
  })
  echoPort = await listening(echo)
})
afterAll(() => {
  web.close()
  echo.close()
})

let proxy: Server
let proxyPort: number
let egress: Egress
let hangUp: () => void

async function open(rules: Partial<EgressRules> = {}): Promise<void> {
  const privateHosts = new Set([`127.0.0.1:${webPort}`, `127.0.0.1:${echoPort}`])
  const hosts = [`127.0.0.1:${webPort}`, `127.0.0.1:${echoPort}`]
  egress = new Egress({ hosts, privateHosts, token: TOKEN, limits: {}, ...rules })
  proxy = proxyServer()
  hangUp = serveProxy(proxy, egress)
  proxyPort = await listening(proxy)
}
beforeEach(() => {
  requestsSeen.length = 0
  echoed.length = 0
  return open()
})
afterEach(() => {
  hangUp()
  proxy.close()
})

/**
 * Sends `text` to the proxy. Returns the answer once it matches `until` or the connection closes.
 */
function say(text: string, until = /$^/): Promise<string> {
  return new Promise((settle) => {
    const socket = connect(proxyPort, '127.0.0.1')
    let back = ''
    socket.on('data', (chunk: Buffer) => {
      back += chunk.toString('latin1')
      if (until.test(back)) socket.destroy()
    })
    socket.on('error', () => socket.destroy())
    socket.on('close', () => settle(back))
    socket.write(Buffer.from(text, 'latin1'))
  })
}

const lines = (...given: string[]): string => `${given.join('\r\n')}\r\n\r\n`
const tunnel = (authority: string, ...more: string[]): string =>
  lines(`CONNECT ${authority} HTTP/1.1`, `host: ${authority}`, AUTHORIZATION, ...more)
const get = (url: string, ...more: string[]): string =>
  lines(`GET ${url} HTTP/1.1`, 'host: whatever', AUTHORIZATION, 'connection: close', ...more)
const status = (answer: string): string => answer.split(' ', 2)[1] ?? answer
const verdicts = (): string[] => egress.connections.map(({ verdict }) => verdict)

test('a tool reaches a listed host by CONNECT and by absolute form, and every byte is recorded', async () => {
  expect(await say(`${tunnel(`127.0.0.1:${echoPort}`)}hello`, /hello$/)).toBe(
    'HTTP/1.1 200 Connection established\r\n\r\nhello',
  )
  const answer = await say(
    get(`http://127.0.0.1:${webPort}/path?q=1`, 'x-own: 1', 'connection: x-drop', 'x-drop: 1'),
  )
  expect(answer).toContain('web says /path?q=1')
  hangUp()
  const [first, second] = egress.connections
  expect(first).toEqual({
    host: '127.0.0.1',
    port: echoPort,
    address: '127.0.0.1',
    bytes_out: 5,
    bytes_in: 5,
    verdict: 'allowed',
  })
  expect(second).toMatchObject({ host: '127.0.0.1', port: webPort, address: '127.0.0.1', verdict: 'allowed' })
  expect(second?.bytes_in).toBeGreaterThan(20)
  expect(requestsSeen[0]?.headers).toMatchObject({ host: `127.0.0.1:${webPort}`, 'x-own': '1' })
  expect(Object.keys(requestsSeen[0]?.headers ?? {})).not.toContain('proxy-authorization')
  expect(Object.keys(requestsSeen[0]?.headers ?? {})).not.toContain('x-drop')
})

test('the proxy passes on a body with a length and a chunked one', async () => {
  const url = `http://127.0.0.1:${webPort}/post`
  const head = [`POST ${url} HTTP/1.1`, 'host: x', AUTHORIZATION, 'connection: close']
  await say(`${lines(...head, 'content-length: 5')}hello`)
  await say(`${lines(...head, 'transfer-encoding: chunked')}3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n`)
  expect(requestsSeen.map(({ method, body }) => `${method} ${body}`)).toEqual(['POST hello', 'POST hello'])
})

test('the last bytes of a long answer arrive although the host hangs up at once', async () => {
  const body = 'x'.repeat(8 * 1024 * 1024)
  const talker = createTcp((socket) =>
    socket.on('error', () => socket.destroy()).end(`HTTP/1.0 200 OK\r\n\r\n${body}`),
  )
  const port = await listening(talker)
  hangUp()
  proxy.close()
  await open({ hosts: [`127.0.0.1:${port}`], privateHosts: new Set([`127.0.0.1:${port}`]) })
  const tunnelled = await say(`${tunnel(`127.0.0.1:${port}`)}hello`)
  expect(tunnelled.length).toBe(
    lines('HTTP/1.1 200 Connection established').length + 'HTTP/1.0 200 OK\r\n\r\n'.length + body.length,
  )
  const forwarded = await say(get(`http://127.0.0.1:${port}/`))
  expect(forwarded.split('x').length - 1).toBe(body.length)
  expect(egress.connections.map(({ bytes_in }) => bytes_in > body.length)).toEqual([true, true])
  talker.close()
})

test('a malformed answer of a listed host ends its connection, never the worker', async () => {
  const answers = [
    'HTTP/1.1 000 Odd\r\n\r\n',
    'HTTP/1.1 99 Odd\r\n\r\n',
    'HTTP/1.1 200 OK\r\nx: a\0b\r\n\r\n',
    'nonsense\r\n\r\n',
    '',
    'HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n',
    'HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\nshort',
  ]
  for (const answer of answers) {
    const odd = createTcp((socket) =>
      socket.on('error', () => socket.destroy()).once('data', () => socket.end(answer)),
    )
    const port = await listening(odd)
    hangUp()
    proxy.close()
    await open({ hosts: [`127.0.0.1:${port}`], privateHosts: new Set([`127.0.0.1:${port}`]) })
    await say(get(`http://127.0.0.1:${port}/`))
    expect(egress.connections, answer).toMatchObject([{ verdict: 'allowed' }])
    odd.close()
  }
  const many = get(`http://127.0.0.1:${webPort}/`)
  hangUp()
  proxy.close()
  await open()
  expect(await say(many)).toContain('web says /')
})

test('N12 the proxy serves no client without the call’s own token', async () => {
  const wrong = `proxy-authorization: Basic ${Buffer.from('call:other').toString('base64')}`
  for (const more of [[], [wrong], ['proxy-authorization: Bearer x'], ['proxy-authorization: ']]) {
    expect(status(await say(lines(`CONNECT 127.0.0.1:${echoPort} HTTP/1.1`, 'host: x', ...more)))).toBe('407')
    expect(
      status(
        await say(
          lines(`GET http://127.0.0.1:${webPort}/ HTTP/1.1`, 'host: x', 'connection: close', ...more),
        ),
      ),
    ).toBe('407')
  }
  expect([requestsSeen, echoed]).toEqual([[], []])
  expect(egress.connections).toEqual([
    { host: '', port: 0, address: '', bytes_out: 0, bytes_in: 0, verdict: 'unknown_client', folded: 8 },
  ])
})

test('N01 N02 N03 N04 the proxy refuses a private address, listed or not', async () => {
  hangUp()
  proxy.close()
  const hosts = ['169.254.169.254', '127.0.0.1', 'localhost', 'rebind.example', '10.0.0.1:22', '0.0.0.0']
  await open({
    hosts,
    resolve: async (name) =>
      name === 'localhost' ? ['127.0.0.1', '::1'] : ['93.184.215.14', '169.254.169.254'],
  })
  for (const authority of [
    '169.254.169.254:80',
    '2852039166:80',
    '0xA9FEA9FE:443',
    '127.1:80',
    'localhost:80',
    'localhost.:443',
    'rebind.example:80',
    '10.0.0.1:22',
    '0:80',
  ]) {
    expect(status(await say(tunnel(authority))), authority).toBe('403')
    expect(egress.connections.at(-1)?.verdict, authority).toBe('address_refused')
  }
  expect(status(await say(get('http://169.254.169.254/latest/meta-data')))).toBe('403')
  expect([...new Set(verdicts())]).toEqual(['address_refused'])
})

test('N05 N06 N11 the proxy refuses a target that is not a plain host and port as malformed', async () => {
  const port = webPort
  for (const target of [
    `user@127.0.0.1:${port}`,
    `127.0.0.1\\@x:${port}`,
    `127.0.0.1%00.x:${port}`,
    '127.0.0.1',
    ':80',
    '[::1',
    `http://127.0.0.1:${port}/`,
    '*',
    '/',
  ]) {
    expect(status(await say(tunnel(target))), target).toBe('400')
  }
  for (const url of [
    `http://user:pw@127.0.0.1:${port}/`,
    `https://127.0.0.1:${port}/`,
    `ftp://127.0.0.1:${port}/`,
    '/',
    `//127.0.0.1:${port}/`,
    'http:///x',
    `http://127.0.0.1:${port}@x/`,
    `http:127.0.0.1:${port}`,
  ]) {
    expect(status(await say(get(url))), url).toBe('400')
  }
  for (const byte of ['\0', '\t', '\x01', ' x', '\x7f', '\x80'])
    expect(status(await say(tunnel(`127.0.0.1${byte}:${port}`))), byte).toBe('400')
  expect([...new Set(verdicts())]).toEqual(['malformed'])
  expect(requestsSeen).toEqual([])
})

test('N07 the proxy refuses a host that is not listed, however similar its name', async () => {
  for (const authority of [
    `127.0.0.2:${webPort}`,
    '127.0.0.1:1',
    `127.0.0.1.example:${webPort}`,
    'evil.example:443',
  ]) {
    expect(status(await say(tunnel(authority))), authority).toBe('403')
  }
  expect([...new Set(verdicts())]).toEqual(['host_not_listed'])
})

test('N08 the proxy returns a redirect to the tool, and checks the request that follows it', async () => {
  const answer = await say(get(`http://127.0.0.1:${webPort}/redirect`))
  expect(answer).toMatch(/^HTTP\/1\.1 302 /)
  expect(answer).toMatch(/location: http:\/\/169\.254\.169\.254\//)
  expect(status(await say(get('http://169.254.169.254/latest/meta-data')))).toBe('403')
  expect(verdicts()).toEqual(['allowed', 'host_not_listed'])
  expect(requestsSeen).toHaveLength(1)
})

test('N09 the proxy connects to the address that was checked, although the name has another one by then', async () => {
  hangUp()
  proxy.close()
  const answers = [['127.0.0.1'], ['127.0.0.7']]
  let questions = 0
  const name = `rebind.example:${echoPort}`
  await open({
    hosts: [name],
    privateHosts: new Set([name]),
    resolve: async () => answers[questions++] ?? [],
  })
  await say(`${tunnel(name)}hello`, /hello$/)
  expect([egress.connections[0]?.address, questions]).toEqual(['127.0.0.1', 1])
  hangUp()
  proxy.close()
  // The name is public when it is checked and private a moment later. It is resolved only once, so
  // no private server is reached.
  questions = 0
  await open({ hosts: ['moving.example'], resolve: async () => (questions++ === 0 ? [] : ['127.0.0.1']) })
  expect(status(await say(tunnel('moving.example:443')))).toBe('502')
  expect(status(await say(tunnel('moving.example:443')))).toBe('403')
  expect(verdicts()).toEqual(['unresolvable', 'address_refused'])
})

test('N11 bytes after CONNECT belong to the tunnel, two framings are refused, and the Host header is the checked one', async () => {
  const smuggled = `${tunnel(`127.0.0.1:${echoPort}`)}${get('http://169.254.169.254/')}`
  expect(await say(smuggled, /close\r\n\r\n$/)).toContain('GET http://169.254.169.254/')
  expect(verdicts()).toEqual(['allowed'])
  const both = lines(
    `POST http://127.0.0.1:${webPort}/ HTTP/1.1`,
    'host: x',
    AUTHORIZATION,
    'content-length: 4',
    'transfer-encoding: chunked',
  )
  expect(status(await say(`${both}0\r\n\r\n`))).toBe('400')
  const odd = lines(
    `POST http://127.0.0.1:${webPort}/ HTTP/1.1`,
    'host: x',
    AUTHORIZATION,
    'content-length: 4',
    'content-length: 5',
  )
  expect(status(await say(`${odd}abcde`))).toBe('400')
  await say(get(`http://127.0.0.1:${webPort}/`).replace('host: whatever', 'host: evil.example'))
  expect(requestsSeen.map(({ headers }) => headers.host)).toEqual([`127.0.0.1:${webPort}`])
  requestsSeen.length = 0
  const inner = lines('GET /smuggled HTTP/1.1', 'host: evil.example')
  const chunked = `${inner.length.toString(16)}\r\n${inner}\r\n0\r\n\r\n`
  for (const method of ['GET', 'DELETE', 'OPTIONS']) {
    const head = [`${method} http://127.0.0.1:${webPort}/one HTTP/1.1`, 'host: x', AUTHORIZATION]
    await say(`${lines(...head, 'connection: close', 'transfer-encoding: chunked')}${chunked}`)
    await say(
      `${lines(...head, 'connection: close, content-length', `content-length: ${inner.length}`)}${inner}`,
    )
  }
  const each = ['GET', 'GET', 'DELETE', 'DELETE', 'OPTIONS', 'OPTIONS'].map((method) => ({
    method,
    url: '/one',
    body: inner,
  }))
  expect(requestsSeen).toMatchObject(each)
  // Two requests on one connection are checked separately.
  const first = get(`http://127.0.0.1:${webPort}/1`).replace('connection: close', 'connection: keep-alive')
  const answer = await say(`${first}${get('http://10.0.0.1/2')}`, /host_not_listed/)
  expect(answer).toContain('web says /1')
  expect(egress.connections.map(({ host, verdict }) => `${host} ${verdict}`)).toContain(
    '10.0.0.1 host_not_listed',
  )
})

test('N11 on the TLS port only a ClientHello with the host’s server name passes', {
  timeout: 60_000,
}, async () => {
  hangUp()
  proxy.close()
  // The operator allows port 443 of two names; both are the echo server, which returns what it
  // receives.
  const names = ['good.example:443', 'other.example:443']
  await open({ hosts: names, privateHosts: new Set(names), resolve: async () => ['127.0.0.1'] })
  const reachable = await portIsOurs()
  for (const [servername, host, verdict] of [
    ['good.example', 'good.example', 'allowed'],
    ['GOOD.example', 'good.example', 'allowed'],
    ['other.example', 'good.example', 'sni_mismatch'],
    ['', 'good.example', 'sni_mismatch'],
  ] as const) {
    await helloThrough(host, servername)
    const told = egress.connections.at(-1)
    expect(told?.verdict, `${servername} for ${host}`).toBe(verdict)
    await eventually('the bytes are counted', () => (told?.bytes_in ?? 0) > 0 === (verdict === 'allowed'))
    expect((told?.bytes_out ?? 0) > 0).toBe(verdict === 'allowed')
  }
  await say(`${tunnel('good.example:443')}GET / HTTP/1.1\r\nhost: other.example\r\n\r\n`)
  expect(egress.connections.at(-1)).toMatchObject({ verdict: 'sni_mismatch', bytes_out: 0 })
  reachable.close()
})

test('N11 on a port that is not for TLS, a ClientHello with another host’s server name passes the proxy', async () => {
  hangUp()
  proxy.close()
  const name = `good.example:${echoPort}`
  await open({ hosts: [name], privateHosts: new Set([name]), resolve: async () => ['127.0.0.1'] })
  await helloThrough('good.example', 'other.example', echoPort)
  expect(egress.connections).toMatchObject([{ host: 'good.example', verdict: 'allowed' }])
  await eventually('the hello went through', () => (egress.connections[0]?.bytes_out ?? 0) > 0)
})

/**
 * Sends a ClientHello through the tunnel. Its echo is not a valid answer, so the handshake always
 * ends.
 */
function helloThrough(host: string, servername: string, port = 443): Promise<void> {
  return new Promise((settle) => {
    const socket = connect(proxyPort, '127.0.0.1')
    socket.on('error', () => socket.destroy())
    socket.on('close', () => settle())
    socket.write(tunnel(`${host}:${port}`))
    socket.once('data', () => {
      const tls = connectTls({
        socket,
        rejectUnauthorized: false,
        ...(servername === '' ? {} : { servername }),
      })
      tls.on('error', () => socket.destroy())
    })
  })
}

/** A server of the test on port 443 of loopback. */
async function portIsOurs(): Promise<TcpServer> {
  const server = createTcp((socket) => {
    socket.on('error', () => socket.destroy())
    socket.pipe(socket)
  })
  await takeTlsPort(server)
  return server
}

test('N15 the plan’s limits on attempts, connections and bytes apply', async () => {
  const reopen = async (limits: EgressRules['limits']): Promise<void> => {
    hangUp()
    proxy.close()
    await open({ limits })
  }
  await reopen({ net_connections: 5 })
  for (let n = 0; n < 7; n++) await say(tunnel('evil.example:443'))
  expect(verdicts()).toEqual([...new Array<string>(5).fill('host_not_listed'), 'cap'])
  expect(status(await say(tunnel(`127.0.0.1:${echoPort}`)))).toBe('429')

  await reopen({ net_connections: 10_000 })
  const held = Array.from({ length: EGRESS_CAPS.at_once }, () => say(tunnel(`127.0.0.1:${echoPort}`)))
  await eventually('all are through', () => echoed.length === EGRESS_CAPS.at_once)
  expect(status(await say(tunnel(`127.0.0.1:${echoPort}`)))).toBe('429')
  hangUp()
  expect(await Promise.all(held)).toHaveLength(EGRESS_CAPS.at_once)

  await reopen({ net_bytes: 1_000 })
  const begun = performance.now()
  expect(await say(`${tunnel(`127.0.0.1:${echoPort}`)}${'x'.repeat(2_000)}`)).toMatch(/^HTTP\/1.1 200 /)
  expect(performance.now() - begun).toBeLessThan(EGRESS_CAPS.idle_ms / 2) // it was cut
  expect(verdicts()).toEqual(['cap'])
  expect(status(await say(tunnel(`127.0.0.1:${echoPort}`)))).toBe('429')

  // One that is over before its bytes are counted for the first time exceeded them too.
  for (const ended of [() => undefined, () => egress.close()]) {
    await reopen({ net_bytes: 1_000 })
    await say(`${tunnel(`127.0.0.1:${echoPort}`)}${'x'.repeat(900)}`, /x{900}$/)
    ended()
    await eventually('it is over', () => (egress.connections[0]?.bytes_in ?? 0) > 0)
    expect(verdicts()).toEqual(['cap'])
  }
})

test('a malformed request of a client ends its connection, never the worker', async () => {
  for (const text of [
    '\0\0\0',
    'GET\r\n\r\n',
    'GET / HTTP/9.9\r\n\r\n',
    `CONNECT ${'x'.repeat(70_000)}:1 HTTP/1.1\r\n\r\n`,
    '\x16\x03\x01\x02\x00\x01',
  ]) {
    expect(status(await say(text)), text.slice(0, 20)).toBe('400')
  }
  const gone = connect(proxyPort, '127.0.0.1')
  gone.write(tunnel(`127.0.0.1:${echoPort}`))
  gone.destroy()
  expect(await say(`${tunnel(`127.0.0.1:${echoPort}`)}still here`, /here$/)).toContain('still here')
})
