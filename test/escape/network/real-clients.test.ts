// The egress rules hold for real programs in the real sandbox, and a call has no more connections
// and bytes than its plan allows. The servers are the test’s, on the host’s loopback; nothing else
// is contacted.

import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { covers } from '../../../edge/tools/planner.ts'
import type { Limits } from '../../../shared/plan/plan.ts'
import { checkedAddresses } from '../../../worker/sandbox/network/host-patterns.ts'
import { isPublic } from '../../../worker/sandbox/network/public-address.ts'
import { Arena, attack, attackReport, planOf } from '../arena/arena.ts'
import type { LaunchSeen } from '../arena/orders.ts'

let arena: Arena
let web: Server
/** Reachable by the worker, and listed by no plan. */
let other: Server
let here: string
let there: string
const received: string[] = []

const opened = (server: Server): Promise<string> =>
  new Promise((settle) =>
    server.listen(0, '127.0.0.1', () => settle(`127.0.0.1:${(server.address() as AddressInfo).port}`)),
  ) // the address of a TCP server

beforeAll(async () => {
  web = createServer((request, answer) => {
    const redirects: Readonly<Record<string, string>> = {
      '/inside': 'http://169.254.169.254/latest/meta-data',
      '/user': 'http://user:secret@169.254.169.254/',
      '/loop': '/loop',
      '/other': `http://${there}/taken`,
    }
    const location = redirects[request.url ?? '']
    if (location !== undefined) answer.writeHead(307, { location }).end()
    else if (request.url === '/endless') endless(answer)
    else answer.end('web')
  })
  other = createServer((request, answer) => {
    received.push(`${request.method} ${request.url} ${request.headers.authorization}`)
    answer.end('other')
  })
  ;[here, there] = [await opened(web), await opened(other)]
  arena = await Arena.open({ privateHosts: [here, there] })
})
afterAll(async () => {
  await arena.close()
  for (const server of [web, other]) {
    server.closeAllConnections()
    server.close()
  }
})
beforeEach(() => {
  received.length = 0
})

function endless(answer: {
  write: (chunk: Buffer) => boolean
  once: (event: 'drain', go: () => void) => unknown
}): void {
  const chunk = Buffer.alloc(64 * 1024)
  const go = (): void => {
    while (answer.write(chunk));
    answer.once('drain', go)
  }
  go()
}

const limits = { timeout_ms: 30_000 }
type Changes = { readonly hosts?: readonly string[]; readonly limits?: Partial<Limits> }
const run = (
  argv: readonly string[],
  { hosts = [here], limits: more = {} }: Changes = {},
): Promise<LaunchSeen> =>
  arena.launch({
    plan: planOf(argv, { egress: { mode: 'strict', hosts: [...hosts] }, limits: { ...limits, ...more } }),
  })
const curl = (...args: string[]): string[] => [
  'curl',
  '--silent',
  '--show-error',
  '--fail',
  '--max-time',
  '20',
  ...args,
]
const verdictsOf = ({ connections }: LaunchSeen): string[] =>
  connections.map(({ host, port, verdict }) => `${host}:${port} ${verdict}`)
const failed = ({ outcome }: LaunchSeen): boolean => outcome.kind !== 'exit' || outcome.code !== 0

/** Sends each request to the proxy and prints its answer. */
const CONNECTS = (authorities: readonly string[]): string[] =>
  attack(`
import socket, urllib.parse, base64
url = urllib.parse.urlsplit(os.environ['http_proxy'])
token = base64.b64encode(f'{url.username}:{url.password}'.encode()).decode()
for authority in ${JSON.stringify(authorities)}:
    with socket.create_connection((url.hostname, url.port)) as s:
        s.sendall(f'CONNECT {authority} HTTP/1.1\\r\\nhost: x\\r\\nproxy-authorization: Basic {token}\\r\\n\\r\\n'.encode())
        tell[authority] = s.recv(99).decode().split(' ')[1]`)

describe('hosts', () => {
  test('curl and git can’t reach an unlisted host, however their command line names it', async () => {
    for (const [argv, host] of [
      [curl('http://unlisted.example/'), 'unlisted.example:80'],
      [curl('--connect-to', `::${there}`, `http://${here}/`), there],
      [curl('--header', `host: ${here}`, `http://${there}/`), there],
      [CONNECTS(['unlisted.example:443']), 'unlisted.example:443'],
      [CONNECTS([there]), there],
    ] as const) {
      const seen = await run(argv)
      expect(verdictsOf(seen), argv.join(' ').slice(-80)).toContain(`${host} host_not_listed`)
      expect(verdictsOf(seen).every((text) => text.endsWith(' host_not_listed'))).toBe(true)
    }
    expect(received).toEqual([])
  })

  test('N07 `example.com` and `.example.com` do not allow `evilexample.com`, in the plan and in the proxy', async () => {
    for (const pattern of ['example.com', '.example.com'])
      expect(covers(pattern, 'evilexample.com:443')).toBe(false)
    const seen = await run(CONNECTS(['evilexample.com:443', 'example.com.evil:443']), {
      hosts: ['example.com', '.example.com'],
    })
    expect(verdictsOf(seen)).toEqual([
      'evilexample.com:443 host_not_listed',
      'example.com.evil:443 host_not_listed',
    ])
  })

  test('a plan whose egress its tier can’t enforce is refused, and tier C records the list that it enforces', async () => {
    for (const hosts of [[], [here]]) {
      const plan = planOf(['true'], { tier: 'B', egress: { mode: 'strict', hosts } })
      expect((await arena.launch({ plan })).outcome).toMatchObject({
        kind: 'refused',
        code: 'sandbox_unavailable',
      })
    }
    for (const mode of ['none', 'preflight'] as const) {
      const { outcome } = await arena.launch({ plan: planOf(['true'], { egress: { mode, hosts: [here] } }) })
      expect(outcome).toMatchObject({ kind: 'refused', code: 'sandbox_unavailable' })
    }
    const seen = await run(curl(`http://${here}/`))
    expect([seen.out, seen.enforcement, verdictsOf(seen)]).toEqual(['web', 'strict', [`${here} allowed`]])
  })

  test('an unlisted host is refused even if the argv names it bare or in ssh’s syntax', async () => {
    for (const argv of [
      curl('unlisted.example'),
      ['git', 'ls-remote', 'http://unlisted.example/it'],
      ['git', 'ls-remote', 'git@unlisted.example:it'],
      ['git', 'ls-remote', 'git://unlisted.example/it'],
      ['sh', '-c', 'ssh -o BatchMode=yes user@unlisted.example true'],
      ['python3', '-c', 'import socket; socket.create_connection(("192.0.2.1", 22), 5)'],
    ]) {
      const seen = await run(argv)
      expect(failed(seen), argv.join(' ')).toBe(true)
      expect(seen.outcome, 'the program is there').not.toEqual({ kind: 'exit', code: 127 })
      expect(verdictsOf(seen).filter((text) => !/ (host_not_listed|unknown_client)$/.test(text))).toEqual([]) // git first sends a request without the token
    }
  })
})

describe('addresses', () => {
  const inside = [
    '127.0.0.1',
    '10.1.2.3',
    '172.16.0.1',
    '192.168.1.1',
    '100.64.0.1',
    '192.0.2.1',
    '198.18.0.1',
    '224.0.0.1',
    '169.254.169.254',
  ]
  const inside6 = [
    'fc00::1',
    '2002:a00:1::',
    '2001:0:53aa:64c::',
    '::ffff:10.0.0.1',
    '::ffff:7f00:1',
    'fe80::1',
    'ff02::1',
    '::1',
  ]

  test('private addresses are refused although they are listed', async () => {
    for (const address of [...inside, ...inside6]) expect(isPublic(address), address).toBe(false)
    const authorities = inside.map((address) => `${address}:80`)
    const seen = await run(CONNECTS(authorities), { hosts: authorities })
    expect(verdictsOf(seen)).toEqual(authorities.map((authority) => `${authority} address_refused`))
  })

  test('N02 other spellings of an IPv4 address count as that address', async () => {
    const spellings = ['2130706433', '0x7f000001', '0177.0.0.1', '127.1', '127.000.0.1']
    const seen = await run(CONNECTS(spellings.map((spelling) => `${spelling}:80`)), {
      hosts: ['127.0.0.1', ...spellings],
    })
    expect(verdictsOf(seen)).toEqual(spellings.map(() => '127.0.0.1:80 address_refused'))
  })

  test('N04 one private answer among public ones refuses the name', async () => {
    const answers = async (): Promise<string[]> => ['93.184.215.14', '10.0.0.1']
    expect(await checkedAddresses({ host: 'mixed.example', port: 443 }, new Set(), answers)).toEqual({
      ok: false,
      error: 'address_refused',
    })
  })

  test('N03 an IPv4 address within an IPv6 one is checked, or its range is refused', () => {
    for (const address of [
      '64:ff9b::10.0.0.1',
      '64:ff9b::169.254.169.254',
      '64:ff9b:1::1',
      '64:ff9b:1:ffff::8.8.8.8',
      '::8.8.8.8',
      '::127.0.0.1',
    ])
      expect(isPublic(address), address).toBe(false)
  })
})

describe('requests', () => {
  test('N08 redirects lead a tool to no unlisted host, and a loop ends at the limit of connections', async () => {
    for (const path of ['/inside', '/user']) {
      const seen = await run(curl('--location', `http://${here}${path}`))
      expect(failed(seen)).toBe(true)
      expect(verdictsOf(seen)).toEqual([`${here} allowed`, '169.254.169.254:80 host_not_listed'])
    }
    const looping = await run(curl('--location', '--max-redirs', '-1', `http://${here}/loop`), {
      limits: { net_connections: 10 },
    })
    expect(failed(looping)).toBe(true)
    expect(verdictsOf(looping)).toEqual([...new Array<string>(10).fill(`${here} allowed`), `${here} cap`])
  })

  test('the proxy follows no redirect, so credentials and body go to no other host', async () => {
    const secret = ['--header', 'authorization: Bearer secret', '--data', 'body']
    const seen = await run(curl('--location', ...secret, `http://${here}/other`))
    expect([failed(seen), verdictsOf(seen), received]).toEqual([
      true,
      [`${here} allowed`, `${there} host_not_listed`],
      [],
    ])
    const bitten = await run(curl('--location-trusted', ...secret, `http://${here}/other`), {
      hosts: [here, there],
    })
    expect([bitten.out, received]).toEqual(['other', ['POST /taken Bearer secret']])
  })

  test('a repeated request reaches its host twice and is checked twice, because the proxy caches nothing', async () => {
    for (const hosts of [[there], [there], [here]]) {
      const seen = await run(curl(`http://${there}/once`), { hosts })
      expect(failed(seen)).toBe(hosts[0] !== there)
    }
    expect(received).toEqual(['GET /once undefined', 'GET /once undefined'])
  })

  test('the proxy refuses other schemes, and credentials in a URL', async () => {
    expect(failed(await run(curl('file:///etc/shadow')))).toBe(true)
    const source = `
import socket, urllib.parse, base64
url = urllib.parse.urlsplit(os.environ['http_proxy'])
token = base64.b64encode(f'{url.username}:{url.password}'.encode()).decode()
for target in ('file:///etc/passwd', 'ftp://${here}/', 'https://${here}/', 'http://user:pass@${here}/', 'http://user@${here}/'):
    with socket.create_connection((url.hostname, url.port)) as s:
        s.sendall(f'GET {target} HTTP/1.1\\r\\nhost: x\\r\\nproxy-authorization: Basic {token}\\r\\n\\r\\n'.encode())
        tell[target] = s.recv(99).decode().split(' ')[1]`
    const seen = await run(attack(source))
    expect(new Set(Object.values(attackReport(seen)))).toEqual(new Set(['400']))
    expect(new Set(seen.connections.map(({ verdict }) => verdict))).toEqual(new Set(['malformed']))
  })
})

describe('traffic', () => {
  const MiB = 1024 * 1024

  test('N15 an endless body ends at the plan’s limit of bytes with the verdict `cap`', async () => {
    const seen = await run(curl('--output', '/dev/null', `http://${here}/endless`), {
      limits: { net_bytes: 4 * MiB },
    })
    expect(failed(seen)).toBe(true)
    expect(seen.connections).toMatchObject([{ verdict: 'cap' }])
    expect(seen.connections[0]?.bytes_in).toBeGreaterThan(MiB)
  })

  test('N15 without the limit of bytes: an endless body goes on until the call ends', async () => {
    const plan = { limits: { net_bytes: 64 * 1024 * MiB, timeout_ms: 2_000 } }
    const seen = await run(curl('--output', '/dev/null', `http://${here}/endless`), plan)
    expect([seen.outcome, seen.connections.map(({ verdict }) => verdict)]).toEqual([
      { kind: 'timeout' },
      ['allowed'],
    ])
    expect(seen.connections[0]?.bytes_in).toBeGreaterThan(4 * MiB)
  })

  test('N15 a call can make a thousand connections, three hundred at once, and they are recorded as sums', async () => {
    const source = `
import socket, urllib.parse, base64, concurrent.futures, threading
threading.stack_size(256 * 1024)
url = urllib.parse.urlsplit(os.environ['http_proxy'])
token = base64.b64encode(f'{url.username}:{url.password}'.encode()).decode()
def go(_):
    with socket.create_connection((url.hostname, url.port)) as s:
        s.sendall(f'CONNECT ${here} HTTP/1.1\\r\\nhost: x\\r\\nproxy-authorization: Basic {token}\\r\\n\\r\\n'.encode())
        if b' 200 ' not in s.recv(99): return 'refused'
        s.sendall(b'GET / HTTP/1.1\\r\\nhost: x\\r\\nconnection: close\\r\\n\\r\\n')
        said = b''
        while more := s.recv(4096): said += more
        return said[-3:].decode()
with concurrent.futures.ThreadPoolExecutor(300) as pool:
    answers = list(pool.map(go, range(1000)))
tell['answers'] = {answer: answers.count(answer) for answer in answers}`
    const more = { net_connections: 1_000, pids: 400, open_files: 1_024, timeout_ms: 120_000, cpu_ms: 60_000 }
    const seen = await run(attack(source), { limits: more })
    expect(attackReport(seen)).toEqual({ answers: { web: 1_000 } })
    expect(seen.connections.length).toBeLessThan(200)
    expect(seen.connections.reduce((sum, { folded = 1 }) => sum + folded, 0)).toBe(1_000)
    expect(new Set(seen.connections.map(({ verdict }) => verdict))).toEqual(new Set(['allowed']))
  })
})
