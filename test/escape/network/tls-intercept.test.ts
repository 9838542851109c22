// If a contract asks for it, the proxy ends the TLS of one host, with an authority that only this
// sandbox trusts, and adds the credential. The host has to present a valid certificate first. The
// proxy can’t read any other tunnel.

import type { IncomingMessage } from 'node:http'
import { createServer, type Server } from 'node:https'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import type { Credential } from '../../../shared/plan/plan.ts'
import { CallAuthority } from '../../../worker/sandbox/network/call-ca.ts'
import { Arena, planOf, unique } from '../arena/arena.ts'

const ours = new CallAuthority()
const received: {
  readonly port: number
  readonly headers: IncomingMessage['headers']
  readonly body: string
}[] = []
const portOf = (server: Server): number => (server.address() as AddressInfo).port // the address of a TCP server
const at = (server: Server): string => `localhost:${portOf(server)}`

async function serve(authority: CallAuthority, name = 'localhost'): Promise<Server> {
  const server = createServer(authority.certify(name), (request, answer) => {
    let body = ''
    request.on('data', (chunk: Buffer) => {
      body += chunk.toString()
    })
    request.on('end', () => {
      received.push({ port: portOf(server), headers: request.headers, body })
      answer.end(`said ${JSON.stringify(request.headers)}`)
    })
  })
  await new Promise<void>((settle) => server.listen(0, '127.0.0.1', settle))
  return server
}

let [bound, other, stranger, misnamed]: Server[] = []
let arena: Arena
const all = (): Server[] => [bound, other, stranger, misnamed].filter((server) => server !== undefined)
const found = (server: Server | undefined): Server => server ?? fail()
function fail(): never {
  throw new Error('it was not started')
}

beforeAll(async () => {
  ;[bound, other, stranger, misnamed] = await Promise.all([
    serve(ours),
    serve(ours),
    serve(new CallAuthority()),
    serve(ours, 'elsewhere.example.com'),
  ])
  arena = await Arena.open({ privateHosts: all().map(at), authorities: ours.pem })
})
beforeEach(() => {
  received.length = 0
})
afterAll(async () => {
  await arena.close()
  for (const server of all()) server.close()
})

const KEY = `canary-${unique()}`
const limits = { timeout_ms: 30_000 }
function launch(
  argv: readonly string[],
  to: Server | undefined,
  more: Partial<Credential> = { tls: 'intercept' },
  key = KEY,
) {
  const credentials: Credential[] = [
    { secret: 'key', host: at(found(to)), header: 'authorization', format: 'Bearer {}', ...more },
  ]
  const egress = { mode: 'strict' as const, hosts: all().map(at) }
  return arena.launch({ plan: planOf(argv, { egress, credentials, limits }), secrets: { key } })
}
const curl = (server: Server | undefined, ...more: string[]): string[] => [
  ...['curl', '-sS', '--max-time', '20', '-H', 'Authorization: Basic bWluZQ==', ...more],
  `https://${at(found(server))}/path?q=1`,
]

test('V04 within TLS the bound host receives the credential instead of the tool’s header, and the record names it', async () => {
  const seen = await launch(curl(bound, '--data', 'a body'), bound)
  expect([seen.outcome, seen.err]).toEqual([{ kind: 'exit', code: 0 }, ''])
  expect(received.map(({ headers: { authorization }, body }) => [authorization, body])).toEqual([
    [`Bearer ${KEY}`, 'a body'],
  ])
  expect(Buffer.from(seen.out, 'latin1').toString()).toMatch(/^said .*Bearer «secret key»/)
  expect(seen.out).not.toContain(KEY)
  expect(seen.connections).toMatchObject([
    { port: portOf(found(bound)), verdict: 'allowed', credentials: ['key'] },
  ])
})

test('a credential that no header can hold ends its connection, never the worker', async () => {
  const seen = await launch(curl(bound), bound, { tls: 'intercept' }, `${KEY}\u2192`)
  expect(seen.outcome).not.toEqual({ kind: 'exit', code: 0 })
  expect(seen.connections[0]).not.toHaveProperty('credentials') // it was sent to nobody
  expect((await launch(curl(bound), bound)).outcome).toEqual({ kind: 'exit', code: 0 })
  expect(received).toHaveLength(1)
})

test('N11 within TLS, too, the body of a GET can’t pass as a second request', async () => {
  const smuggled = 'GET /smuggled HTTP/1.1\r\nhost: evil.example\r\n\r\n'
  await launch(curl(bound, '-X', 'GET', '-H', 'Transfer-Encoding: chunked', '--data-binary', smuggled), bound)
  expect(received.map(({ body }) => body)).toEqual([smuggled])
})

test('V04 the proxy does not end TLS to a host without a credential, and adds nothing', async () => {
  const seen = await launch(curl(other, '-v'), bound)
  expect(received.map(({ headers: { authorization } }) => authorization)).toEqual(['Basic bWluZQ=='])
  expect(seen.err).toContain('subject: CN=host of a call')
  expect(seen.connections.map(({ credentials }) => credentials)).toEqual([undefined])
})

test('V04 a host receives nothing if its certificate is by an unknown authority or for another name', async () => {
  for (const server of [stranger, misnamed]) {
    const seen = await launch(curl(server, '--insecure'), server)
    expect(seen.outcome).not.toEqual({ kind: 'exit', code: 0 })
    expect(seen.connections).toMatchObject([{ verdict: 'failed' }])
    expect(seen.connections[0]).not.toHaveProperty('credentials')
  }
  expect(received).toEqual([])
})

test('V04 a credential for TLS is not added to plain HTTP, and one for plain HTTP does not end TLS', async () => {
  await launch(
    curl(bound).map((item) => item.replace('https://', 'http://')),
    bound,
  )
  expect(received).toEqual([]) // a TLS server does not understand it
  await launch(curl(bound), bound, {})
  expect(received.map(({ headers: { authorization } }) => authorization)).toEqual(['Basic bWluZQ=='])
})

test('N11 a tunnel that is ended at the proxy is closed if its server name is not the host’s', async () => {
  const script = `
import os, socket, ssl, urllib.parse as u, base64
p = u.urlparse(os.environ['HTTPS_PROXY'])
s = socket.create_connection((p.hostname, p.port))
auth = base64.b64encode(f'{p.username}:{p.password}'.encode()).decode()
s.sendall(f'CONNECT ${at(found(bound))} HTTP/1.1\\r\\nhost: x\\r\\nproxy-authorization: Basic {auth}\\r\\n\\r\\n'.encode())
assert b'200' in s.recv(4096)
c = ssl.create_default_context(); c.check_hostname = False; c.verify_mode = ssl.CERT_NONE
try:
    t = c.wrap_socket(s, server_hostname='elsewhere.example.com')
    t.sendall(b'GET / HTTP/1.1\\r\\nhost: x\\r\\n\\r\\n')
    print('answered' if t.recv(100) else 'closed')
except OSError: print('closed')`
  const seen = await launch(['python3', '-c', script], bound)
  expect([seen.out, seen.err]).toEqual(['closed\n', ''])
  expect(seen.connections).toMatchObject([{ verdict: 'sni_mismatch' }])
  expect(received).toEqual([])
})

test('Python and git trust the call’s authority without configuration, and each call has a different one', async () => {
  const python = [
    'python3',
    '-c',
    `import urllib.request as u; print(u.urlopen('https://${at(found(bound))}/').read())`,
  ]
  const seen = await launch(python, bound)
  expect(seen.out).toContain('Bearer')
  const issuers = await Promise.all(
    [1, 2].map(async () => /issuer: (CN=.*)/.exec((await launch(curl(bound, '-v'), bound)).err)?.[1]),
  )
  expect(issuers[0]).toMatch(/^CN=Countersign, call /)
  expect(new Set(issuers).size).toBe(2)
})
