// Requests by SOCKS are checked and recorded like those by HTTP. The worker resolves names, and
// addresses are checked as addresses. The proxy is the real one on a real socket.

import type { Server } from 'node:http'
import { type AddressInfo, connect, createServer, type Server as TcpServer } from 'node:net'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { EGRESS_CAPS, Egress } from '../../../worker/sandbox/network/egress.ts'
import { proxyServer, serveProxy } from '../../../worker/sandbox/network/http-proxy.ts'

const TOKEN = 'token-of-this-call'

let echo: TcpServer
let port: number
let proxy: Server
let egress: Egress
let hangUp: () => void

const listening = (server: TcpServer): Promise<number> =>
  new Promise((settle) => server.listen(0, '127.0.0.1', () => settle((server.address() as AddressInfo).port))) // the address of a TCP server

beforeAll(async () => {
  echo = createServer((socket) => socket.on('error', () => socket.destroy()).pipe(socket))
  port = await listening(echo)
})
afterAll(() => echo.close())
beforeEach(() => {
  const opened = ['named.example', '127.0.0.1', 'moved.example'].map((host) => `${host}:${port}`)
  egress = new Egress({
    hosts: [...opened, '169.254.169.254:80', 'inside.example:80', '64:ff9b::a9fe:a9fe', 'nowhere.example:80'],
    privateHosts: new Set(opened),
    token: TOKEN,
    limits: {},
    resolve: async (name) =>
      name === 'inside.example'
        ? ['93.184.215.14', '10.0.0.1']
        : name === 'nowhere.example'
          ? []
          : ['127.0.0.1'],
  })
  proxy = proxyServer()
  hangUp = serveProxy(proxy, egress)
  return listening(proxy)
})
afterEach(() => {
  hangUp()
  proxy.close()
})

const bytes = (...parts: (number | string | readonly number[])[]): Buffer =>
  Buffer.concat(
    parts.map((part) =>
      typeof part === 'number'
        ? Buffer.from([part])
        : typeof part === 'string'
          ? Buffer.from(part, 'latin1')
          : Buffer.from(part),
    ),
  )
const counted = (text: string): Buffer => bytes(Buffer.byteLength(text, 'latin1'), text)
const credentials = (token: string): Buffer => bytes(1, [...counted('call')], [...counted(token)])
const GREETING = bytes(5, 1, 2)
const portOf = (number: number): number[] => [number >> 8, number & 0xff]
const byName = (name: string, to: number): Buffer => bytes(5, 1, 0, 3, [...counted(name)], portOf(to))
const byIpv4 = (address: readonly number[], to: number): Buffer => bytes(5, 1, 0, 1, address, portOf(to))

/**
 * Sends it at once or byte by byte. Returns the answer in hex once it ends with `until` or the
 * connection closes.
 */
function say(parts: readonly Buffer[], { until = 'never', slowly = false } = {}): Promise<string> {
  const at = (proxy.address() as AddressInfo).port // the address of a TCP server
  return new Promise((settle) => {
    const socket = connect({ port: at, host: '127.0.0.1', noDelay: true })
    let back = ''
    socket.on('data', (chunk: Buffer) => {
      back += chunk.toString('hex')
      if (back.endsWith(until)) socket.destroy()
    })
    socket.on('error', () => socket.destroy())
    socket.on('close', () => settle(back))
    const all = Buffer.concat([...parts])
    const next = (index: number): void => {
      if (index < all.length && !socket.destroyed)
        socket.write(all.subarray(index, index + 1), () => setImmediate(next, index + 1))
    }
    if (slowly) next(0)
    else socket.write(all)
  })
}

const WELCOME = '05020100'
const reply = (code: number): string => `050${code}0001000000000000`
const exchange = (request: Buffer) => say([GREETING, credentials(TOKEN), request])
const verdicts = (): string[] => egress.connections.map(({ host, verdict }) => `${host} ${verdict}`)
const hello = Buffer.from('hello')

test('a listed host is reached through SOCKS by name and address, in any fragments, and every byte is recorded', async () => {
  const until = hello.toString('hex')
  for (const request of [
    byName('named.example', port),
    byName('NAMED.example.', port),
    byIpv4([127, 0, 0, 1], port),
  ]) {
    for (const slowly of [false, true]) {
      expect(await say([GREETING, credentials(TOKEN), request, hello], { until, slowly })).toBe(
        WELCOME + reply(0) + until,
      )
    }
  }
  hangUp()
  const told = { port, address: '127.0.0.1', bytes_out: 5, bytes_in: 5, verdict: 'allowed' }
  expect(egress.connections).toMatchObject(
    ['named.example', 'named.example', 'named.example', 'named.example', '127.0.0.1', '127.0.0.1'].map(
      (host) => ({ host, ...told }),
    ),
  )
})

test('N12 SOCKS serves no client without the call’s own token, or without a method to send it', async () => {
  expect(await say([GREETING, credentials('other'), byName('named.example', port)])).toBe('05020101')
  expect(await say([bytes(5, 1, 0), byName('named.example', port)])).toBe('05ff')
  expect(await say([bytes(5, 0)])).toBe('05ff')
  expect(egress.connections).toMatchObject([{ verdict: 'unknown_client', folded: 3 }])
})

test('N01 N03 N04 SOCKS refuses a private address, listed or not', async () => {
  expect(await exchange(byIpv4([169, 254, 169, 254], 80))).toBe(WELCOME + reply(2))
  expect(await exchange(byName('169.254.169.254', 80))).toBe(WELCOME + reply(2))
  expect(await exchange(byName('inside.example', 80))).toBe(WELCOME + reply(2))
  expect(verdicts()).toEqual([
    '169.254.169.254 address_refused',
    '169.254.169.254 address_refused',
    'inside.example address_refused',
  ])
  expect(
    await exchange(bytes(5, 1, 0, 4, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1], portOf(port))),
  ).toBe(WELCOME + reply(2))
  expect(verdicts().at(-1)).toBe('::ffff:7f00:1 host_not_listed')
})

test('N02 N05 N06 a SOCKS name that spells an address counts as that address, and any other odd name is malformed', async () => {
  for (const name of ['2852039166', '0xA9FEA9FE', '169.254.43518']) {
    expect(await exchange(byName(name, 80)), name).toBe(WELCOME + reply(2))
    expect(verdicts().at(-1)).toBe('169.254.169.254 address_refused')
  }
  for (const name of [
    '',
    'a\0.example',
    'user@named.example',
    'named.example:1',
    'named.example/',
    'n\xe4med.example',
    ' named.example',
  ]) {
    expect(await exchange(byName(name, port)), name).toBe(WELCOME + reply(1))
    expect(verdicts().at(-1)).toMatch(/^[^\0]* malformed$/)
  }
})

test('N07 SOCKS refuses an unlisted host, and reports a name without an address as not found', async () => {
  expect(await exchange(byName('evil-named.example', port))).toBe(WELCOME + reply(2))
  expect(await exchange(byName('named.example', port + 1))).toBe(WELCOME + reply(2))
  expect(await exchange(byName('nowhere.example', 80))).toBe(WELCOME + reply(4))
  expect(verdicts()).toEqual([
    'evil-named.example host_not_listed',
    'named.example host_not_listed',
    'nowhere.example unresolvable',
  ])
})

test('SOCKS refuses commands other than CONNECT, and a client that ends in the middle affects only itself', async () => {
  for (const command of [0, 2, 3, 9])
    expect(await exchange(bytes(5, command, 0, 1, [127, 0, 0, 1], portOf(port)))).toBe(WELCOME + reply(7))
  for (const kind of [0, 2, 5])
    expect(await exchange(bytes(5, 1, 0, kind, [127, 0, 0, 1], portOf(port)))).toBe(WELCOME + reply(8))
  const whole = Buffer.concat([GREETING, credentials(TOKEN), byName('named.example', port)])
  for (let length = 1; length < whole.length; length += 3) {
    await new Promise<void>((settle) => {
      const socket = connect((proxy.address() as AddressInfo).port, '127.0.0.1', () =>
        socket.end(whole.subarray(0, length)),
      )
      socket
        .on('error', () => socket.destroy())
        .on('close', () => settle())
        .resume()
    })
  }
  expect(
    await say([GREETING, credentials(TOKEN), byName('named.example', port), hello], {
      until: hello.toString('hex'),
    }),
  ).toContain(reply(0))
})

test('N11 on the TLS port a SOCKS client’s server name has to be the host', async () => {
  hangUp()
  proxy.close()
  const web = createServer((socket) => socket.on('error', () => socket.destroy()).pipe(socket))
  await new Promise<void>((settle) => web.listen(443, '127.0.0.7', settle))
  egress = new Egress({
    hosts: ['good.example:443'],
    privateHosts: new Set(['good.example:443']),
    token: TOKEN,
    limits: {},
    resolve: async () => ['127.0.0.7'],
  })
  proxy = proxyServer()
  hangUp = serveProxy(proxy, egress)
  await listening(proxy)
  expect(
    await say([
      GREETING,
      credentials(TOKEN),
      byName('good.example', 443),
      Buffer.from('GET / HTTP/1.1\r\n\r\n'),
    ]),
  ).toBe(WELCOME + reply(0))
  expect(egress.connections).toMatchObject([{ verdict: 'sni_mismatch', bytes_out: 0 }])
  web.close()
})

test('N15 a client that is silent or never finishes its request is cut off in time, by HTTP and by SOCKS', async () => {
  const head = `GET http://127.0.0.1:${port}/ HTTP/1.1\r\nhost: x\r\nx-slow: `
  const began = performance.now()
  const back = await Promise.all([
    say([]),
    say([Buffer.from(head)]),
    say([GREETING]),
    say([GREETING, credentials(TOKEN), byName('named.example', port).subarray(0, 9)]),
  ])
  expect(performance.now() - began).toBeLessThan(3 * EGRESS_CAPS.hello_ms)
  expect(back.map((hex) => hex.slice(0, 8))).toEqual([
    '',
    Buffer.from('HTTP').toString('hex'),
    '0502',
    '05020100',
  ])
})
