// Refusals cost the worker little, however many requests a call makes: clients without the token
// count too, a connection is refused once, and after too many refusals the proxy hangs up without
// an answer (N15). The proxy is the real one on a real socket.

import type { Server } from 'node:http'
import { type AddressInfo, connect, createServer, type Server as TcpServer } from 'node:net'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { EGRESS_CAPS, Egress } from '../../../worker/sandbox/network/egress.ts'
import { proxyServer, serveProxy } from '../../../worker/sandbox/network/http-proxy.ts'

const AUTHORIZATION = `proxy-authorization: Basic ${Buffer.from('call:token').toString('base64')}`
const MOST = 20

let echo: TcpServer
let proxy: Server
let egress: Egress
let hangUp: () => void

const portOf = (server: TcpServer): number => (server.address() as AddressInfo).port // the address of a TCP server
const listening = (server: TcpServer): Promise<void> =>
  new Promise((settle) => server.listen(0, '127.0.0.1', settle))
const lines = (...given: string[]): string => `${given.join('\r\n')}\r\n\r\n`

beforeAll(() => {
  echo = createServer((socket) => socket.on('error', () => socket.destroy()).pipe(socket))
  return listening(echo)
})
afterAll(() => echo.close())
afterEach(() => {
  hangUp()
  proxy.close()
})

async function open(net_connections = MOST): Promise<void> {
  const to = `127.0.0.1:${portOf(echo)}`
  egress = new Egress({
    hosts: [to],
    privateHosts: new Set([to]),
    token: 'token',
    limits: { net_connections },
  })
  proxy = proxyServer()
  hangUp = serveProxy(proxy, egress)
  await listening(proxy)
}

/** Everything that the proxy answers until it closes. */
function say(text: string): Promise<string> {
  return new Promise((settle) => {
    const socket = connect(portOf(proxy), '127.0.0.1')
    let back = ''
    socket.on('data', (chunk: Buffer) => {
      back += chunk.toString('latin1')
    })
    socket.on('error', () => socket.destroy()).on('close', () => settle(back))
    socket.write(text)
  })
}

const tunnel = (): string => lines(`CONNECT 127.0.0.1:${portOf(echo)} HTTP/1.1`, 'host: x', AUTHORIZATION)

test.each([
  [lines('GET / HTTP/1.1'), '407', 'unknown_client'],
  [lines('GET / HTTP/1.1', 'host: x', 'expect: odd'), '407', 'unknown_client'],
  [lines('GET http://10.0.0.1/ HTTP/1.1', 'host: x', AUTHORIZATION), '403', 'host_not_listed'],
  [lines('GET http://10.0.0.1/ HTTP/1.1', AUTHORIZATION), '400', 'malformed'],
])(
  'N15 the request %j is refused and counted on each connection until the proxy hangs up; an open tunnel stays',
  async (request, status, verdict) => {
    await open()
    const kept = connect(portOf(proxy), '127.0.0.1').on('error', () => undefined)
    const heard = (): Promise<string> =>
      new Promise((settle) => kept.once('data', (chunk: Buffer) => settle(chunk.toString())))
    kept.write(tunnel())
    expect(await heard()).toMatch(/^HTTP\/1.1 200 /)

    expect((await say(request.repeat(2))).match(/HTTP\/1.1 [0-9]+/g)).toEqual([`HTTP/1.1 ${status}`])
    await say(request.repeat(1_000))
    expect(await say(request)).toBe('')
    const those = egress.connections.filter((connection) => connection.verdict === verdict)
    const count = those.reduce((sum, { folded = 1 }) => sum + folded, 0)
    expect(count).toBeGreaterThanOrEqual(MOST - 1)
    expect(count).toBeLessThanOrEqual(MOST + EGRESS_CAPS.refused_beyond)

    kept.write('still here')
    expect(await heard()).toBe('still here')
    kept.destroy()
  },
)

test('N15 a client that is refused for lack of the token counts as an attempt', async () => {
  await open(2)
  for (let n = 0; n < 2; n++) await say(lines('CONNECT 10.0.0.1:80 HTTP/1.1', 'host: x'))
  expect(await say(tunnel())).toMatch(/^HTTP\/1.1 429 /)
  expect(egress.connections).toMatchObject([{ verdict: 'cap' }, { verdict: 'unknown_client', folded: 2 }])
})
