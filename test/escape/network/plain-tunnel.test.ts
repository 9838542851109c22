// A pattern without a port allows the web and no other protocol. A tunnel to its port 80, by
// CONNECT or SOCKS, is one HTTP request to the checked host; other protocols need a pattern that
// names the port.

import { createServer as createHttp, type Server } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { Egress } from '../../../worker/sandbox/network/egress.ts'
import { proxyServer, serveProxy } from '../../../worker/sandbox/network/http-proxy.ts'

/** Used only in this file. */
const ADDRESS = '127.0.0.80'
const TOKEN = 'token-of-this-call'
const SAYS = 'Bearer of-this-call'

const received: string[] = []
let web: Server
let proxy: Server
let egress: Egress
let hangUp: () => void

beforeAll(async () => {
  web = createHttp((request, answer) => {
    received.push(
      `${request.method} ${request.headers.host}${request.url} ${request.headers.authorization ?? '-'}`,
    )
    answer.end(`web says ${request.url}`)
  })
  await new Promise<void>((settle) => web.listen(80, ADDRESS, settle))
})
afterAll(() => void web.close())
beforeEach(() => open(['good.example']))
afterEach(() => {
  hangUp()
  proxy.close()
})

async function open(hosts: readonly string[]): Promise<void> {
  received.length = 0
  egress = new Egress({
    hosts,
    privateHosts: new Set(['good.example:80']),
    token: TOKEN,
    limits: {},
    additions: [
      {
        secret: 'token',
        host: 'good.example:80',
        header: 'authorization',
        text: SAYS,
        value: 'of-this-call',
        over: 'plain',
      },
    ],
    resolve: async () => [ADDRESS],
  })
  proxy = proxyServer()
  hangUp = serveProxy(proxy, egress)
  await new Promise<void>((settle) => proxy.listen(0, '127.0.0.1', settle))
}

/** Everything that the proxy answers until it hangs up. */
function say(...parts: (string | readonly number[])[]): Promise<string> {
  return new Promise((settle) => {
    const socket = connect((proxy.address() as AddressInfo).port, '127.0.0.1') // the address of a TCP server
    let back = ''
    socket.on('data', (chunk: Buffer) => {
      back += chunk.toString('latin1')
    })
    socket.on('error', () => socket.destroy()).on('close', () => settle(back))
    for (const part of parts) socket.write(Buffer.from(part as string, 'latin1')) // or bytes
  })
}

const lines = (...given: string[]): string => `${given.join('\r\n')}\r\n\r\n`
const basic = `proxy-authorization: Basic ${Buffer.from(`call:${TOKEN}`).toString('base64')}`
const byConnect = [lines('CONNECT good.example:80 HTTP/1.1', 'host: good.example:80', basic)]
const counted = (text: string): number[] => [text.length, ...Buffer.from(text)]
const bySocks = [
  [5, 1, 2],
  [1, ...counted('call'), ...counted(TOKEN)],
  [5, 1, 0, 3, ...counted('good.example'), 0, 80],
]
const get = (target: string, ...more: string[]): string =>
  lines(`GET ${target} HTTP/1.1`, 'host: other.example', ...more)

test.each([
  ['CONNECT', byConnect],
  ['SOCKS', bySocks],
])(
  'N11 V04 a tunnel to port 80 by %s carries one request, to the checked host, with that host’s credential',
  async (_by, opening) => {
    const first = get('/first', 'authorization: Bearer of-the-tool', 'connection: keep-alive')
    expect(await say(...opening, first)).toContain('web says /first')
    expect(received).toEqual([`GET good.example/first ${SAYS}`])
    const others = [
      `${get('/first')}${get('/second')}`,
      'SSH-2.0-client\r\n\r\n',
      get('http://other.example/'),
      lines('TRACE / HTTP/1.1', 'host: x'),
    ]
    for (const other of others) expect(await say(...opening, other)).not.toMatch(/web says (?!\/first)/)
    expect(received.filter((one) => !one.includes('/first'))).toEqual([])
    hangUp()
    expect(egress.connections.map(({ verdict }) => verdict)).toEqual(Array(5).fill('allowed'))
  },
)

test('N11 V04 without parsing, because the pattern names the port: the bytes of a tunnel pass unchanged, for any host', async () => {
  hangUp()
  proxy.close()
  await open(['good.example:80'])
  expect(await say(...byConnect, get('/any', 'connection: close'))).toContain('web says /any')
  expect(received).toEqual(['GET other.example/any -'])
})
