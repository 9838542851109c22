// The call’s proxy adds a secret that is bound to a host to requests to exactly that host and port,
// instead of the tool’s own header. The tool never holds it, even if the host repeats it, and the
// record names it.

import { createServer, type IncomingMessage, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import type { Credential } from '../../../shared/plan/plan.ts'
import { Arena, attack, attackReport, planOf, unique } from '../arena/arena.ts'

const received: { readonly port: number; readonly headers: IncomingMessage['headers'] }[] = []
let bound: Server
let other: Server
let arena: Arena
const portOf = (server: Server): number => (server.address() as AddressInfo).port // the address of a TCP server
const at = (server: Server, host = 'localhost'): string => `${host}:${portOf(server)}`

/** A host that repeats the request, as some do in error messages, or redirects. */
const serve = async (): Promise<Server> => {
  const server = createServer(({ headers, url }, answer) => {
    received.push({ port: portOf(server), headers })
    if (url === '/elsewhere')
      answer.writeHead(302, { location: `http://${at(other)}/`, 'x-said': headers['x-api-key'] ?? '' }).end()
    else answer.setHeader('x-said', headers['x-api-key'] ?? '').end(JSON.stringify(headers))
  })
  await new Promise<void>((settle) => server.listen(0, '127.0.0.1', settle))
  return server
}
beforeAll(async () => {
  ;[bound, other] = await Promise.all([serve(), serve()])
  arena = await Arena.open({
    privateHosts: [bound, other].flatMap((server) => [at(server), at(server, '127.0.0.1')]),
  })
})
beforeEach(() => {
  received.length = 0
})
afterAll(async () => {
  await arena.close()
  bound.close()
  other.close()
})

const KEY = `canary-${unique()}`
const credential = (change: Partial<Credential> = {}): Credential => ({
  secret: 'key',
  host: at(bound),
  header: 'x-api-key',
  ...change,
})
function launch(
  argv: readonly string[],
  credentials: Credential[] = [credential()],
  secrets: readonly string[] = [],
) {
  const hosts = [bound, other].flatMap((server) => [at(server), at(server, '127.0.0.1')])
  const plan = planOf(argv, { egress: { mode: 'strict', hosts }, credentials, secrets: [...secrets] })
  return arena.launch({ plan, secrets: { key: KEY } })
}
const curl = (url: string, ...more: string[]): string[] => [
  'curl',
  '-sS',
  '-i',
  '--max-time',
  '10',
  ...more,
  `http://${url}`,
]
const keys = (): unknown[] => received.map(({ headers }) => headers['x-api-key'])

test('V04 only the bound host receives the credential; another host, name or port does not', async () => {
  await launch(curl(`${at(bound)}/`))
  await launch(curl(`${at(bound).toUpperCase()}/`))
  for (const url of [at(other), at(bound, '127.0.0.1')]) await launch(curl(`${url}/`))
  expect(keys()).toEqual([KEY, KEY, undefined, undefined])
})

test('V04 the request that follows a redirect has no credential', async () => {
  const seen = await launch(curl(`${at(bound)}/elsewhere`, '--location'))
  expect(received.map(({ port }) => port)).toEqual([portOf(bound), portOf(other)])
  expect(keys()).toEqual([KEY, undefined])
  expect(seen.connections.map(({ host, port, credentials }) => [`${host}:${port}`, credentials])).toEqual([
    [at(bound), ['key']],
    [at(other), undefined],
  ])
})

test('the credential replaces the tool’s own header, however often and in whichever case, in the given format', async () => {
  const format = { header: 'authorization', format: 'Bearer {}' }
  const own = ['-H', 'X-API-Key: mine', '-H', 'x-api-key: mine too', '-H', 'Authorization: Basic bWluZQ==']
  await launch(curl(`${at(bound)}/`, ...own), [credential(), credential(format)])
  expect(received.map(({ headers: { authorization, 'x-api-key': key } }) => [authorization, key])).toEqual([
    [`Bearer ${KEY}`, KEY],
  ])
})

test('V04 a sandbox finds the credential in no file, variable or answer of the host', async () => {
  const seen = attackReport(
    await launch(
      attack(`
import urllib.request
answer = urllib.request.urlopen('http://${at(bound)}/')
body = answer.read().decode('latin1')
tell['said'] = any(c in body + str(answer.headers) for c in ('${KEY.slice(0, 10)}', '${KEY.slice(-10)}'))
tell['marked'] = 'secret key' in body and 'secret key' in answer.headers['x-said']
tell['environment'] = 'anary' in open('/proc/self/environ').read()
tell['files'] = os.path.exists('/run/secrets')`),
    ),
  )
  expect(seen).toEqual({ said: false, marked: true, environment: false, files: false })
  expect(keys()).toEqual([KEY])
})

test('V04 control: a host repeats a value that the tool itself sent', async () => {
  const seen = await launch(curl(`${at(other)}/`, '-H', 'x-api-key: hello-hello'))
  expect(seen.out).toContain('"x-api-key":"hello-hello"')
})

test('V04 the proxy does not pass on TRACE, whose answer would repeat the credential', async () => {
  const seen = await launch(curl(`${at(bound)}/`, '-X', 'TRACE'))
  expect([seen.out.split('\r\n')[0], received]).toEqual(['HTTP/1.1 400 Bad Request', []])
})

test('a plan of tier B with credentials is refused, because tier B has no proxy', async () => {
  const plan = planOf(['true'], { tier: 'B', credentials: [credential()] })
  expect((await arena.launch({ plan, secrets: { key: KEY } })).outcome).toMatchObject({
    kind: 'refused',
    code: 'sandbox_unavailable',
  })
})
