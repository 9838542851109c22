// A sandbox has no network but its own loopback, and reaches hosts only through its call’s proxy.
// The servers are the test’s, on the host’s loopback; nothing else is contacted.

import { chmodSync, readdirSync } from 'node:fs'
import { createServer as createHttp } from 'node:http'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { ProcessPlan as Plan } from '../../../shared/plan/plan.ts'
import { Arena, attack, attackReport, planOf, UID, unique } from '../arena/arena.ts'
import type { Swap } from '../arena/orders.ts'

const NO_SECCOMP: Swap = [['--seccomp', '4'], []]
const NO_NETNS: Swap = [
  ['--unshare-all'],
  ['--unshare-ipc', '--unshare-pid', '--unshare-uts', '--unshare-cgroup'],
]

let arena: Arena
let web: Server
let port: number
const abstractName = `countersign-${unique()}`
/** Sends one word; the client may be gone by then. */
const greet = (socket: Socket): void => void socket.on('error', () => socket.destroy()).end('host')
const abstract = createServer(greet)

beforeAll(async () => {
  web = createHttp((request, answer) => answer.end(`web says ${request.url}`))
  await new Promise<void>((settle) => web.listen(0, '127.0.0.1', settle))
  port = (web.address() as AddressInfo).port // the address of a TCP server
  await new Promise<void>((settle) => abstract.listen(`\0${abstractName}`, settle))
  arena = await Arena.open({ privateHosts: [`127.0.0.1:${port}`] })
})
afterAll(async () => {
  await arena.close()
  web.close()
  abstract.close()
})

const allowed = () => ({ mode: 'strict' as const, hosts: [`127.0.0.1:${port}`] })

/** Tries to reach each address; without sockets `socket` itself fails. */
const REACH = (targets: readonly (readonly [string, number])[]) => `
import socket
for host, port in ${JSON.stringify(targets)}:
    def go(kind):
        with socket.socket(socket.AF_INET6 if ':' in host else socket.AF_INET, kind) as s:
            s.settimeout(2)
            s.connect((host, port))
            if kind == socket.SOCK_DGRAM: s.send(b'x')
    tell[host] = [attempt(go, kind) for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM)]`

describe('without hosts', () => {
  test('N01 a tool without hosts reaches neither the metadata address nor the host', async () => {
    const source = REACH([
      ['169.254.169.254', 80],
      ['127.0.0.1', port],
      ['::1', port],
    ])
    const seen = attackReport(await arena.launch({ plan: planOf(attack(source)) }))
    expect([...new Set(Object.values(seen).flat())]).toEqual(['EAFNOSUPPORT'])
    const noFilter = attackReport(await arena.bare({ plan: planOf(attack(source)), swaps: [NO_SECCOMP] }))
    expect(noFilter['169.254.169.254']).toEqual(['ENETUNREACH', 'ENETUNREACH'])
    expect((noFilter['127.0.0.1'] as string[])[0]).toBe('ECONNREFUSED')
    const bitten = attackReport(
      await arena.bare({ plan: planOf(attack(REACH([['127.0.0.1', port]]))), swaps: [NO_SECCOMP, NO_NETNS] }),
    )
    expect((bitten['127.0.0.1'] as string[])[0]).toBe('ok')
  })

  const ABSTRACT = `
import socket
tell['abstract'] = attempt(lambda: socket.socket(socket.AF_UNIX).connect('\\0${abstractName}'))`

  test('S25 a tool can’t connect to abstract unix sockets of the host', async () => {
    const plan = planOf(attack(ABSTRACT))
    expect(attackReport(await arena.launch({ plan }))).toEqual({ abstract: 'EAFNOSUPPORT' })
    expect(attackReport(await arena.bare({ plan, swaps: [NO_SECCOMP] }))).toEqual({
      abstract: 'ECONNREFUSED',
    })
  })

  test('S25 without seccomp and a network namespace: a tool connects to an abstract unix socket of the host', async () => {
    const seen = await arena.bare({ plan: planOf(attack(ABSTRACT)), swaps: [NO_SECCOMP, NO_NETNS] })
    expect(attackReport(seen)).toEqual({ abstract: 'ok' })
  })

  /** A socket of the host in a folder that the sandbox has. */
  async function withSocket(play: (plan: Plan, runFolder: string) => Promise<void>): Promise<void> {
    const { here, there } = arena.runFolder()
    const server = createServer(greet)
    await new Promise<void>((settle) => server.listen(join(here, 'host.sock'), settle))
    chmodSync(join(here, 'host.sock'), 0o777)
    const source = `
import socket
tell['stream'] = attempt(lambda: socket.socket(socket.AF_UNIX).connect('/workspace/host.sock'))
def by_pair():
    a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    a.connect('/workspace/host.sock')
tell['pair'] = attempt(by_pair)`
    await play(planOf(attack(source), { workspace: 'run' }), there)
    server.close()
  }

  test('S26 a tool can’t connect to a unix socket in its workspace', () =>
    withSocket(async (plan, runFolder) => {
      expect(attackReport(await arena.launch({ plan, runFolder }))).toEqual({
        stream: 'EAFNOSUPPORT',
        pair: 'EISCONN',
      })
    }))

  test('S26 without seccomp: a tool without a network connects to a unix socket in its workspace', () =>
    withSocket(async (plan, runFolder) => {
      expect(attackReport(await arena.bare({ plan, runFolder, swaps: [NO_SECCOMP] }))['stream']).toBe('ok')
    }))

  test('N10 a tool without hosts can resolve no name', async () => {
    const source = `
import socket
for name in ('example.com', 'aaaa.bbbb.example.com', 'canary.invalid'):
    try: tell[name] = str(socket.getaddrinfo(name, 80))
    except OSError as e: tell[name] = 'no'
tell['resolver'] = os.path.exists('/etc/resolv.conf')`
    for (const egress of [{ mode: 'strict' as const, hosts: [] }, allowed()]) {
      const seen = attackReport(await arena.launch({ plan: planOf(attack(source), { egress }) }))
      expect(seen).toEqual({
        'example.com': 'no',
        'aaaa.bbbb.example.com': 'no',
        'canary.invalid': 'no',
        resolver: false,
      })
    }
  })
})

describe('with hosts', () => {
  const curl = (url: string, ...more: string[]) =>
    planOf(['curl', '--silent', '--show-error', '--max-time', '8', ...more, url], { egress: allowed() })

  test('a tool reaches a listed host through the proxy, and the connection is recorded', async () => {
    for (const more of [[], ['--proxytunnel']]) {
      const seen = await arena.launch({ plan: curl(`http://127.0.0.1:${port}/hello`, ...more) })
      expect([seen.outcome, seen.out]).toEqual([{ kind: 'exit', code: 0 }, 'web says /hello'])
      expect(seen.connections).toHaveLength(1)
      expect(seen.connections[0]).toMatchObject({
        host: '127.0.0.1',
        port,
        address: '127.0.0.1',
        verdict: 'allowed',
      })
      expect(seen.connections[0]?.bytes_in).toBeGreaterThan(20)
    }
  })

  test('N01 N07 an unlisted host is refused and recorded, and a listed private one is refused too', async () => {
    const seen = await arena.launch({ plan: curl('http://169.254.169.254/latest/meta-data') })
    expect(seen.out).toBe('host_not_listed\n')
    expect(seen.connections).toMatchObject([
      { host: '169.254.169.254', port: 80, verdict: 'host_not_listed' },
    ])
    const listed = planOf(['curl', '-s', 'http://169.254.169.254/'], {
      egress: { mode: 'strict', hosts: ['169.254.169.254'] },
    })
    expect((await arena.launch({ plan: listed })).connections).toMatchObject([{ verdict: 'address_refused' }])
    const closed = planOf(['curl', '-s', 'http://127.0.0.1:1/'], {
      egress: { mode: 'strict', hosts: ['127.0.0.1:1'] },
    })
    expect((await arena.launch({ plan: closed })).connections).toMatchObject([{ verdict: 'address_refused' }])
  })

  test('N01 N13 a sandbox with hosts has only its own loopback, and no route leads out', async () => {
    const source = `${REACH([
      ['169.254.169.254', 80],
      ['127.0.0.1', port],
      ['192.0.2.1', 53],
      ['2001:db8::1', 53],
    ])}
tell['devices'] = [line.split(':')[0].strip() for line in open('/proc/net/dev') if ':' in line]
tell['listening'] = sorted(line.split()[1] for line in open('/proc/net/tcp') if line.split()[3] == '0A')`
    const seen = attackReport(await arena.launch({ plan: planOf(attack(source), { egress: allowed() }) }))
    expect(seen['devices']).toEqual(['lo'])
    expect(seen['listening']).toEqual(['00000000:0C38'])
    for (const host of ['169.254.169.254', '192.0.2.1', '2001:db8::1']) {
      for (const answer of seen[host] as string[]) expect(['ENETUNREACH', 'EADDRNOTAVAIL']).toContain(answer)
    }
    expect((seen['127.0.0.1'] as string[])[0]).toBe('ECONNREFUSED')
  })

  test('N12 a tool can’t use the proxy of another call, nor its own without the token', async () => {
    const other = unique()
    let running: Promise<unknown> | undefined
    const ready = new Promise<void>((settle) => {
      running = arena.launch(
        { plan: planOf(['sh', '-c', `echo ${other}; sleep 1`], { egress: allowed() }) },
        () => settle(),
      )
    })
    await ready
    const source = `
import socket, urllib.parse
url = urllib.parse.urlsplit(os.environ['http_proxy'])
tell['credentials'] = bool(url.username and url.password)
s = socket.create_connection((url.hostname, url.port)); s.send(b'CONNECT 127.0.0.1:${port} HTTP/1.1\\r\\nhost: x\\r\\n\\r\\n')
tell['without token'] = s.recv(99).decode().split(' ')[1]
tell['sockets'] = [name for top in ('/workspace', '/tmp', '/dev', '/etc') for _, _, names in os.walk(top) for name in names if name == 'proxy']
tell['processes'] = len([name for name in os.listdir('/proc') if name.isdigit()])`
    const seen = await arena.launch({ plan: planOf(attack(source), { egress: allowed() }) })
    expect(attackReport(seen)).toEqual({
      credentials: true,
      'without token': '407',
      sockets: [],
      processes: 2,
    })
    expect(seen.connections).toMatchObject([{ verdict: 'unknown_client', folded: 1 }])
    await running
  })

  test('S06 S24 S17 the relay’s user namespace gives a tool no privilege', async () => {
    const source = `
tell['unshare'] = call('unshare', 0x10000000)
tell['caps'] = [line.split()[1] for line in open('/proc/self/status') if line.startswith(('CapEff', 'CapBnd', 'NoNewPrivs', 'Seccomp:'))]
tell['map'] = open('/proc/self/uid_map').read().split()[::2]
tell['route'] = attempt(lambda: __import__('socket').socket(16, 3, 0))
tell['core'] = attempt(os.open, '/proc/sys/kernel/core_pattern', os.O_WRONLY) in ('EACCES', 'EROFS')`
    const seen = attackReport(await arena.launch({ plan: planOf(attack(source), { egress: allowed() }) }))
    expect(seen).toEqual({
      unshare: 'EPERM',
      caps: ['0000000000000000', '0000000000000000', '1', '2'],
      map: ['65534', '1'],
      route: 'EAFNOSUPPORT',
      core: true,
    })
  })

  test('no process or file of a relay is left after its call', async () => {
    await Promise.all(
      Array.from({ length: 4 }, () => arena.launch({ plan: curl(`http://127.0.0.1:${port}/`) })),
    )
    const folders = readdirSync(join(arena.home, 'worker')).filter((name) => name.startsWith('relay-'))
    expect(folders.length).toBeLessThanOrEqual(2) // the relays in the pool
    expect(UID).not.toBe(0)
  })
})

describe('tier B', () => {
  test('preflight of tier B refuses a listed host with a private address, and enforces nothing else', async () => {
    const run = async (...hosts: string[]) =>
      (await arena.launch({ plan: planOf(['true'], { tier: 'B', egress: { mode: 'preflight', hosts } }) }))
        .outcome
    expect(await run('169.254.169.254')).toMatchObject({ kind: 'refused', code: 'egress_denied' })
    expect(await run('localhost')).toMatchObject({ kind: 'refused', code: 'egress_denied' })
    expect(await run('1.1.1.1', 'localhost')).toMatchObject({ kind: 'refused', code: 'egress_denied' })
    expect(await run('1.1.1.1')).toEqual({ kind: 'exit', code: 0 })
    expect(await run(`127.0.0.1:${port}`)).toEqual({ kind: 'exit', code: 0 })
    expect(await run()).toEqual({ kind: 'exit', code: 0 })
  })
})
