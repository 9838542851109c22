// D11: the proxy forwards no hop-by-hop headers. A host that receives `upgrade` could change
// protocols, and the proxy would no longer check what follows (RFC 9110 §7.6.1).

import { createServer, type IncomingHttpHeaders } from 'node:http'
import { type AddressInfo, connect, type Server } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { Egress } from '../../../worker/sandbox/network/egress.ts'
import { proxyServer, serveProxy } from '../../../worker/sandbox/network/http-proxy.ts'

const TOKEN = 'token-of-this-call'

function listening(server: Server): Promise<number> {
  onTestFinished(() => void server.close())
  return new Promise((settle) =>
    server.listen(0, '127.0.0.1', () => settle((server.address() as AddressInfo).port)),
  ) // the address of a TCP server
}

test.each([
  'upgrade: h2c',
  'keep-alive: timeout=5',
  'te: trailers',
  'trailer: expires',
  'proxy-connection: keep-alive',
  'proxy-authenticate: Basic',
  'expect: 200-ok',
])('D11 N11 the proxy does not forward the header `%s` of a tool to the host', async (header) => {
  const received: IncomingHttpHeaders[] = []
  const port = await listening(
    createServer((request, answer) => {
      received.push(request.headers)
      answer.end('received')
    }),
  )
  const host = `127.0.0.1:${port}`
  const egress = new Egress({ hosts: [host], privateHosts: new Set([host]), token: TOKEN, limits: {} })
  const proxy = proxyServer()
  onTestFinished(serveProxy(proxy, egress))
  const lines = [
    `GET http://${host}/ HTTP/1.1`,
    `host: ${host}`,
    `proxy-authorization: Basic ${Buffer.from(`call:${TOKEN}`).toString('base64')}`,
    'connection: close',
    'x-own: stays',
    header,
  ]
  const answer = await answerTo(await listening(proxy), `${lines.join('\r\n')}\r\n\r\n`)
  expect(answer).toContain('received')
  expect(received).toEqual([{ host, connection: 'close', 'x-own': 'stays' }])
})

/** Everything that the proxy answers until it closes. */
const answerTo = (port: number, text: string): Promise<string> =>
  new Promise((settle) => {
    let back = ''
    const socket = connect(port, '127.0.0.1', () => socket.write(text))
    socket.on('data', (chunk: Buffer) => {
      back += chunk.toString('latin1')
    })
    socket.on('error', () => socket.destroy()).on('close', () => settle(back))
  })
