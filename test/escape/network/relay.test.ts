// No call receives a relay that ended in the pool. Bytes through a relay arrive whole, whichever
// side ends first.

import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { Relay } from '../../../worker/sandbox/network/relay.ts'
import { findHost } from '../../../worker/sandbox/plan/host-programs.ts'
import { eventually } from '../../support/eventually.ts'
import { Arena, attack, attackReport, planOf } from '../arena/arena.ts'
import { descendantsOf, parentOf } from '../arena/census.ts'

const relaysBelow = (pid: number): number[] =>
  descendantsOf(pid).filter((one) => {
    try {
      return readFileSync(`/proc/${one}/cmdline`, 'latin1').includes('TCP-LISTEN')
    } catch {
      return false // it has ended
    }
  })

test('no call receives a relay that was killed in the pool', async () => {
  const arena = await Arena.open()
  const { pid } = await arena.facts()
  const plan = planOf(['true'], { egress: { mode: 'strict', hosts: ['example.com:443'] } })
  expect((await arena.launch({ plan })).outcome).toEqual({ kind: 'exit', code: 0 })
  await eventually('relays wait', () => relaysBelow(pid).length >= 2)
  const waiting = relaysBelow(pid)
  for (const one of waiting) process.kill(one, 'SIGKILL')
  await eventually('they are gone', () => waiting.every((one) => parentOf(`${one}`) === 0))
  for (let i = 0; i < 3; i++)
    expect((await arena.launch({ plan })).outcome).toEqual({ kind: 'exit', code: 0 })
  await arena.close()
})

test('a relay counts as dead as soon as the kernel has ended it, before Node reports its end', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'csr-'))
  const relay = await Relay.prepare((await findHost()).programs, folder)
  onTestFinished(async () => {
    await relay.close()
    rmSync(folder, { recursive: true })
  })
  expect(relay.isAlive).toBe(true)
  process.kill(relay.pid, 'SIGKILL')
  const until = Date.now() + 5_000
  while (parentOf(`${relay.pid}`) !== 0 && Date.now() < until); // without a turn of the event loop
  expect([parentOf(`${relay.pid}`), relay.isAlive]).toEqual([0, false])
})

/** Sends everything, half-closes, and reads on. */
const ASK = (to: string) => `
import base64, socket, urllib.parse
proxy = urllib.parse.urlsplit(os.environ['HTTP_PROXY'])
known = base64.b64encode(f'{proxy.username}:{proxy.password}'.encode()).decode()
peer = socket.create_connection((proxy.hostname, proxy.port))
peer.sendall(f'CONNECT ${to} HTTP/1.1\\r\\nhost: ${to}\\r\\nproxy-authorization: Basic {known}\\r\\n\\r\\n'.encode())
tell['granted'] = peer.recv(4096).startswith(b'HTTP/1.1 200')
peer.sendall(b'asked')
peer.shutdown(socket.SHUT_WR)
tell['heard'] = peer.recv(4096).decode()`

test('a client that half-closes its connection receives the answer, even a slow one', async () => {
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    socket
      .on('error', () => socket.destroy())
      .once('data', () => void setTimeout(() => socket.end('late'), 2_000))
  })
  await new Promise<void>((settle) => server.listen(0, '127.0.0.1', settle))
  const to = `127.0.0.1:${(server.address() as AddressInfo).port}` // the address of a TCP server
  const arena = await Arena.open({ privateHosts: [to] })
  const plan = planOf(attack(ASK(to)), { egress: { mode: 'strict', hosts: [to] } })
  expect(attackReport(await arena.launch({ plan }))).toEqual({ granted: true, heard: 'late' })
  await arena.close()
  server.close()
})
