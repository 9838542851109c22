// No spelling, embedding or name leads to a private address.

import { expect, test } from 'vitest'
import { isListed } from '../../../shared/plan/egress-hosts.ts'
import { NameResolver } from '../../../worker/sandbox/network/dns.ts'
import {
  authorityOf,
  checkedAddresses,
  parseAuthority,
} from '../../../worker/sandbox/network/host-patterns.ts'
import { isPublic } from '../../../worker/sandbox/network/public-address.ts'
import { readClientHello } from '../../../worker/sandbox/network/tls-client-hello.ts'

const none: ReadonlySet<string> = new Set()
const reach = async (authority: string, answers?: readonly string[]): Promise<string> => {
  const to = parseAuthority(authority)
  if (to === undefined) return 'malformed'
  const checked = await checkedAddresses(
    to,
    none,
    answers === undefined ? new NameResolver().resolve : async () => answers,
  )
  return checked.ok ? `reached ${checked.value.join(' ')}` : checked.error
}

test('N01 metadata services and every private range are refused, from the first to the last address', () => {
  const inside = `0.0.0.0 0.255.255.255 10.0.0.0 10.255.255.255 100.64.0.0 100.100.100.200 100.127.255.255 127.0.0.1 127.255.255.255
    168.63.129.16 169.254.0.0 169.254.169.254 169.254.255.255 172.16.0.0 172.31.255.255 192.0.0.0 192.0.0.192 192.0.2.1 192.88.99.1
    192.168.0.0 192.168.255.255 198.18.0.0 198.19.255.255 198.51.100.1 203.0.113.1 224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255`
  const outside = `1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0 168.63.129.15 168.63.129.17
    169.253.255.255 169.255.0.0 172.15.255.255 172.32.0.0 192.0.1.0 192.167.255.255 192.169.0.0 198.17.255.255 198.20.0.0 223.255.255.255`
  for (const address of inside.split(/\s+/)) expect(isPublic(address), address).toBe(false)
  for (const address of outside.split(/\s+/)) expect(isPublic(address), address).toBe(true)
})

test('N02 other spellings of an IPv4 address are normalised before the check', async () => {
  const metadata = [
    '2852039166',
    '0xA9FEA9FE',
    '0xa9.0xfe.0xa9.0xfe',
    '0251.0376.0251.0376',
    '169.254.43518',
    '169.16689662',
    '169.254.169.254.',
  ]
  for (const host of metadata) {
    expect(parseAuthority(`${host}:80`), host).toEqual({ host: '169.254.169.254', port: 80 })
    expect(await reach(`${host}:80`)).toBe('address_refused')
  }
  for (const host of ['127.1', '0177.0.0.1', '0', '017700000001', '0x7f.1'])
    expect(await reach(`${host}:80`), host).toBe('address_refused')
  for (const host of ['①②⑦.0.0.1', '１２７.0.0.1', '127。0。0。1', '256.1.1.1', '1.2.3.4.5', '09.1.1.1']) {
    expect(['malformed', 'unresolvable'], host).toContain(await reach(`${host}:80`, []))
  }
})

test('N03 private IPv4 addresses within IPv6 ones, and private ranges of IPv6, are refused', async () => {
  const inside = `::ffff:a9fe:a9fe ::ffff:169.254.169.254 ::ffff:127.0.0.1 64:ff9b::a9fe:a9fe 64:ff9b::10.0.0.1 64:ff9b:1::1 64:ff9b:1:ffff::8.8.8.8
    2002:a9fe:a9fe:: 2002:808:808:: ::a9fe:a9fe ::127.0.0.1 ::8.8.8.8 ::ffff:0:8.8.8.8 fd00:ec2::254 fe80::1 fec0::1 fc00::1 ff02::1 :: ::1
    100::1 2001::1 2001:0:53aa:64c:: 2001:10::1 2001:db8::1 3fff::1 5f00::1 4000::1 e000::1`
  for (const address of inside.split(/\s+/)) {
    expect(isPublic(address), address).toBe(false)
    expect(await reach(`[${address}]:80`), address).toBe('address_refused')
  }
  for (const address of [
    '2606:4700::1111',
    '2001:4860:4860::8888',
    '2a00:1450:4001::1',
    '::ffff:8.8.8.8',
    '64:ff9b::8.8.8.8',
  ]) {
    expect(isPublic(address), address).toBe(true)
  }
  for (const zone of ['fe80::1%eth0', 'fe80::1%25eth0', '2606:4700::1111%lo']) {
    expect(isPublic(zone)).toBe(false)
    expect(await reach(`[${zone}]:80`)).toBe('malformed')
  }
})

test('N04 localhost by any name, and a name with one private answer among public ones, are refused', async () => {
  for (const name of ['localhost', 'localhost.', 'LOCALHOST'])
    expect(await reach(`${name}:80`), name).toBe('address_refused')
  expect(await reach('ok.example:80', ['93.184.215.14'])).toBe('reached 93.184.215.14')
  expect(await reach('mixed.example:80', ['93.184.215.14', '10.0.0.1'])).toBe('address_refused')
  expect(await reach('mixed.example:80', ['2606:4700::1111', '::ffff:127.0.0.1'])).toBe('address_refused')
  expect(await reach('none.example:80', [])).toBe('unresolvable')
  expect(await reach('metadata.google.internal:80', ['169.254.169.254'])).toBe('address_refused')
})

test('N05 an authority that two parsers could read differently is malformed', async () => {
  const odd = [
    'user@host:80',
    'a@b@c:80',
    'host\\@evil:80',
    'ho\tst:80',
    'ho\nst:80',
    'host%2eevil:80',
    '1.1.1.1 &@2.2.2.2#:80',
    'host/:80',
    'host?:80',
  ]
  const more = [
    'host#:80',
    'http://host:80',
    '[::1:80',
    '::1:80',
    'host:80:80',
    'host:',
    'host',
    ':80',
    'host:0',
    'host:65536',
    'host:8e1',
    'host:+80',
    '[]:80',
  ]
  for (const authority of [
    ...odd,
    ...more,
    'host: 80',
    'host :80',
    'hóst:80',
    'a..b:80',
    '.host:80',
    '-:',
    '',
  ]) {
    expect(['malformed', 'unresolvable'], authority).toContain(await reach(authority, []))
  }
  for (const authority of odd) expect(await reach(authority, ['8.8.8.8']), authority).toBe('malformed')
  expect(parseAuthority('EXAMPLE.com.:443')).toEqual({ host: 'example.com', port: 443 })
  expect(authorityOf({ host: '::1', port: 80 })).toBe('[::1]:80')
})

test('N06 a host with a control byte is malformed', async () => {
  for (let code = 0; code < 33; code++)
    expect(await reach(`ho${String.fromCharCode(code)}st:80`, ['8.8.8.8'])).toBe('malformed')
  for (const text of ['ok.com%00.evil.com:80', 'ok.com\0.evil.com:80', '\0:80', 'host\x7f:80'])
    expect(await reach(text, ['8.8.8.8'])).toBe('malformed')
})

test('N07 host patterns match whole labels, and only their ports', () => {
  const listed = (pattern: string, authority: string): boolean => {
    const to = parseAuthority(authority)
    return to !== undefined && isListed([pattern], to)
  }
  for (const [pattern, authority] of [
    ['ok.com', 'ok.com:443'],
    ['ok.com', 'ok.com:80'],
    ['ok.com', 'OK.COM.:443'],
    ['ok.com:8443', 'ok.com:8443'],
    ['.ok.com', 'a.ok.com:443'],
    ['.ok.com', 'a.b.ok.com:443'],
    ['.ok.com:99', 'a.ok.com:99'],
    ['8.8.8.8', '8.8.8.8:80'],
  ] as const)
    expect(listed(pattern, authority), `${pattern} ${authority}`).toBe(true)
  for (const [pattern, authority] of [
    ['ok.com', 'evil-ok.com:443'],
    ['ok.com', 'ok.com.evil:443'],
    ['ok.com', 'a.ok.com:443'],
    ['ok.com', 'ok.com:8443'],
    ['ok.com', 'ok.com:22'],
    ['ok.com:8443', 'ok.com:443'],
    ['.ok.com', 'ok.com:443'],
    ['.ok.com', 'evilok.com:443'],
    ['.ok.com', '.ok.com:443'],
    ['.ok.com', 'a.ok.com.evil:443'],
    ['.ok.com:99', 'a.ok.com:443'],
    ['.8.8', '8.8.8.8:80'],
    ['.254', '169.254.169.254:80'],
  ] as const)
    expect(listed(pattern, authority), `${pattern} ${authority}`).toBe(false)
})

test('a ClientHello is parsed in any fragments, and other bytes are malformed', () => {
  const hello = clientHello('example.com')
  expect(readClientHello(hello)).toEqual({ kind: 'name', name: 'example.com' })
  for (let length = 0; length < hello.length; length++)
    expect(readClientHello(hello.subarray(0, length)).kind, `${length}`).toBe('more')
  const body = hello.subarray(5)
  const inRecordsOf = (size: number): Buffer => {
    const records: Buffer[] = []
    for (let at = 0; at < body.length; at += size) records.push(record(body.subarray(at, at + size)))
    return Buffer.concat(records)
  }
  for (const size of [16, 50, body.length - 1]) {
    expect(readClientHello(inRecordsOf(size)), `${size}`).toEqual({ kind: 'name', name: 'example.com' })
  }
  for (const size of [1, 2, 7, 15])
    expect(readClientHello(inRecordsOf(size)), `${size}`).toEqual({ kind: 'malformed' }) // N15
  const endless = Buffer.concat([
    record(Buffer.from([1, 0, 0x3f, 0xff, ...Buffer.alloc(12)])),
    ...Array(8).fill(record(Buffer.alloc(16))),
  ])
  expect(readClientHello(endless)).toEqual({ kind: 'malformed' })
  let asked = 0
  for (let read = readClientHello(Buffer.alloc(0)); read.kind === 'more'; asked++)
    read = readClientHello(inRecordsOf(16).subarray(0, read.need))
  expect(asked).toBeLessThanOrEqual(2 * 8)
  expect(readClientHello(clientHello(undefined))).toEqual({ kind: 'name', name: undefined })
  expect(readClientHello(clientHello('a', { twice: true })).kind).toBe('malformed')
  expect(readClientHello(clientHello('a', { hidden: true })).kind).toBe('malformed')
  for (const text of [
    'GET / HTTP/1.1\r\n',
    '\u0015\u0003\u0003\u0000\u0002\u0001\u0000',
    '\u0016\u0003\u0001\u0000\u0000',
    'SSH-2.0-x\r\n',
  ])
    expect(readClientHello(Buffer.from(text, 'latin1')).kind).toBe('malformed')
  for (let at = 0; at < hello.length; at++) {
    for (const flip of [1, 0x80, 0xff]) {
      const bent = Buffer.from(hello)
      bent.writeUInt8(bent.readUInt8(at) ^ flip, at)
      readClientHello(bent) // any result, as long as it returns
    }
  }
})

const u16 = (value: number): Buffer => Buffer.from([value >> 8, value & 0xff])
const sized = (bytes: Buffer): Buffer => Buffer.concat([u16(bytes.length), bytes])
const record = (fragment: Buffer): Buffer => Buffer.concat([Buffer.from([22, 3, 1]), sized(fragment)])

function clientHello(name: string | undefined, { twice = false, hidden = false } = {}): Buffer {
  const host =
    name === undefined ? undefined : sized(Buffer.concat([Buffer.from([0]), sized(Buffer.from(name))]))
  const extension = (type: number, body: Buffer): Buffer => Buffer.concat([u16(type), sized(body)])
  const extensions = Buffer.concat([
    extension(43, Buffer.from([2, 3, 4])),
    ...(host === undefined ? [] : [extension(0, host)]),
    ...(twice && host !== undefined ? [extension(0, host)] : []),
    ...(hidden ? [extension(0xfe0d, Buffer.alloc(40))] : []),
  ])
  const body = Buffer.concat([
    u16(0x303),
    Buffer.alloc(32),
    Buffer.from([0]),
    sized(u16(0x1301)),
    Buffer.from([1, 0]),
    sized(extensions),
  ])
  return record(Buffer.concat([Buffer.from([1, 0]), sized(body)]))
}
