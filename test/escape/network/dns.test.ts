// Name resolution of one call delays no other call and ends with the call. The resolver queries a
// DNS server of this test, which answers some names and is silent about others.

import { createSocket, type Socket } from 'node:dgram'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { NAMES_AT_ONCE, NameResolver } from '../../../worker/sandbox/network/dns.ts'
import { checkedAddresses } from '../../../worker/sandbox/network/host-patterns.ts'
import { eventually } from '../../support/eventually.ts'

const [A, AAAA] = [1, 28]
/** Answers by type. The server is silent about other names, and about types that are null. */
const ZONE: Readonly<Record<string, Readonly<Record<number, readonly number[] | null>>>> = {
  'fast.example': { [A]: [93, 184, 215, 14] },
  'mixed.example': { [A]: [93, 184, 215, 14], [AAAA]: [0xfd, ...Array<number>(14).fill(0), 1] },
  'half.example': { [A]: [93, 184, 215, 14], [AAAA]: null },
  'nothing.example': {},
}

let server: Socket
const queriedNames = new Set<string>()
const opened: NameResolver[] = []
const folder = mkdtempSync(join(tmpdir(), 'names-'))
const hosts = join(folder, 'hosts')

beforeAll(async () => {
  writeFileSync(
    hosts,
    '# ours\n127.0.0.1 localhost\n10.1.2.3\tInside.Example inside # there\n::1 inside.example\nno address.example\n',
  )
  server = createSocket('udp4', (question, { port, address }) => {
    const labels: string[] = []
    let at = 12
    for (let length = question.readUInt8(at); length > 0; length = question.readUInt8(at)) {
      labels.push(question.toString('latin1', at + 1, at + 1 + length))
      at += 1 + length
    }
    const name = labels.join('.').toLowerCase()
    const type = question.readUInt16BE(at + 1)
    queriedNames.add(name)
    const known = ZONE[name]
    if (known === undefined) return
    const data = known[type]
    if (data === null) return
    const head = Buffer.from(question.subarray(0, at + 5))
    head.writeUInt16BE(0x8180, 2)
    for (const [index, count] of [1, data === undefined ? 0 : 1, 0, 0].entries())
      head.writeUInt16BE(count, 4 + 2 * index)
    const record = data === undefined ? [] : [0xc0, 12, 0, type, 0, 1, 0, 0, 0, 60, 0, data.length, ...data]
    server.send(Buffer.concat([head, Buffer.from(record)]), port, address)
  })
  await new Promise<void>((settle) => server.bind(0, '127.0.0.1', settle))
})
afterAll(() => {
  server.close()
  rmSync(folder, { recursive: true })
})
beforeEach(() => queriedNames.clear())
afterEach(() => {
  for (const names of opened.splice(0)) names.close()
})

function ofACall(): NameResolver {
  const names = new NameResolver({ hosts, servers: [`127.0.0.1:${server.address().port}`] })
  opened.push(names)
  return names
}

test('/etc/hosts takes precedence over DNS servers, and all addresses of a name are returned', async () => {
  const { resolve } = ofACall()
  expect(await resolve('inside.example')).toEqual(['10.1.2.3', '::1'])
  expect(await resolve('localhost')).toEqual(['127.0.0.1'])
  expect(queriedNames.size).toBe(0)
  expect(await resolve('fast.example')).toEqual(['93.184.215.14'])
  expect(await resolve('mixed.example')).toEqual(['93.184.215.14', 'fd00::1'])
  expect(await resolve('nothing.example')).toEqual([])
  expect(
    await new NameResolver({ hosts: join(folder, 'none'), servers: ['127.0.0.1:1'] }).resolve('fast.example'),
  ).toEqual([])
})

test('a DNS server that answers only for one kind of address delays resolution by a moment at most', async () => {
  const since = performance.now()
  expect(await ofACall().resolve('half.example')).toEqual(['93.184.215.14'])
  expect(performance.now() - since).toBeLessThan(1_300)
})

test('N04 a name with one private and one public address is not connected to', async () => {
  expect(await checkedAddresses({ host: 'mixed.example', port: 443 }, new Set(), ofACall().resolve)).toEqual({
    ok: false,
    error: 'address_refused',
  })
})

test('N15 a call that resolves names without an answer delays no other call, and has few queries at a time', async () => {
  const [slow, other] = [ofACall(), ofACall()]
  const waiting = Array.from({ length: 40 }, (_, n) => slow.resolve(`slow-${n}.example`))
  await eventually('as many are asked for as may be', () => queriedNames.size === NAMES_AT_ONCE, 20_000)
  let over = 0
  for (const one of waiting) void one.then(() => over++)
  expect(await other.resolve('fast.example')).toEqual(['93.184.215.14'])
  expect(over).toBe(0)
  expect([...queriedNames].filter((name) => name.startsWith('slow'))).toHaveLength(NAMES_AT_ONCE)
  const since = performance.now()
  slow.close()
  expect(await Promise.all(waiting)).toEqual(waiting.map(() => []))
  expect(performance.now() - since).toBeLessThan(1_000) // an uncancelled query takes longer
  expect([...queriedNames].filter((name) => name.startsWith('slow'))).toHaveLength(NAMES_AT_ONCE) // waiting names were never queried
  expect(await slow.resolve('fast.example')).toEqual([])
})
