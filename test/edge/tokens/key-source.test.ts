// Promise: the keys of an issuer are fetched once for all who wait, seldom, in bounds, and used for
// an hour at most while the issuer can't be reached.

import type { ServerResponse } from 'node:http'
import { afterAll, beforeEach, expect, onTestFinished, test, vi } from 'vitest'
import { KeySource } from '../../../edge/tokens/key-source.ts'
import { LIMITS } from '../../../shared/limits.ts'
import { IssuerSpec } from '../../../shared/wire/issuers.ts'
import { newSigningKey, TokenIssuer } from '../../support/tokens/token-issuer.ts'

const NAME = 'https://idp.example.com'
const [first, second] = [await newSigningKey('ES256', 'first'), await newSigningKey('EdDSA', 'second')]
const idp = await TokenIssuer.open(NAME, first)
afterAll(() => idp.close())

const rules = [{ claims: { sub: 'a' }, agent: 'a' }]
const spec = IssuerSpec.parse({ issuer: NAME, rules })
let now = 0
/** Addresses that were requested, wherever they are. */
const sent: string[] = []
let source: KeySource

beforeEach(() => {
  idp.asked.length = 0
  idp.keys = [first]
  idp.reply = undefined
  now = 1_800_000_000_000
  sent.length = 0
  const outside = {
    fetch: async (to: string, init: RequestInit) => {
      sent.push(to)
      return to.startsWith(idp.url) ? fetch(to, init) : Response.error()
    },
  }
  source = new KeySource({ outside, standIns: { [NAME]: idp.url } }, () => now)
})

async function kids(unknown = false, of = spec): Promise<readonly (string | undefined)[] | string> {
  const fetched = await source.keysOf(of, unknown)
  return fetched.ok ? fetched.value.keys.map(({ kid }) => kid) : fetched.error
}
const NONE = 'the keys of the issuer could not be fetched'
const fails = (response: ServerResponse) => response.writeHead(500).end()

test('discovery leads to the key set, once for a hundred tokens at the same time', async () => {
  expect(new Set((await Promise.all(Array.from({ length: 100 }, () => kids()))).map(String))).toEqual(
    new Set(['first']),
  )
  expect(idp.asked).toEqual(['/.well-known/openid-configuration', '/keys'])
})

test('A05 tokens with unknown keys cause one fetch a minute', async () => {
  await kids()
  idp.keys = [first, second]
  expect(await kids()).toEqual(['first'])
  expect(await kids(true)).toEqual(['first', 'second'])
  const asked = idp.asked.length
  for (let i = 0; i < 50; i++) await kids(true)
  now += LIMITS.key_set_unknown_ms - 1
  await Promise.all(Array.from({ length: 50 }, () => kids(true)))
  expect(idp.asked).toHaveLength(asked)
  now += 1
  idp.keys = [second]
  await Promise.all(Array.from({ length: 50 }, () => kids(true)))
  expect(idp.asked).toHaveLength(asked + 2)
  expect(await kids()).toEqual(['second'])
})

test('a key that the issuer has withdrawn is dropped after five minutes', async () => {
  await kids()
  idp.keys = [second]
  now += LIMITS.key_set_fresh_ms - 1
  expect(await kids()).toEqual(['first'])
  now += 1
  expect(await kids()).toEqual(['second'])
})

test('while the issuer is down its last keys count for an hour, and it is asked every ten seconds', async () => {
  await kids()
  idp.reply = (_, response) => fails(response)
  now += LIMITS.key_set_fresh_ms
  const asked = idp.asked.length
  for (let i = 0; i < 20; i++) expect(await kids(i % 2 === 0)).toEqual(['first'])
  expect(idp.asked).toHaveLength(asked + 1)
  now += LIMITS.key_set_stale_ms - LIMITS.key_set_fresh_ms - 1
  expect(await kids()).toEqual(['first'])
  now += 1
  expect(await kids()).toBe(NONE)
  idp.reply = undefined
  expect(await kids()).toBe(NONE)
  now += LIMITS.key_set_retry_ms
  expect(await kids()).toEqual(['first'])
})

test.each<[string, (response: ServerResponse) => unknown]>([
  ['refuses', fails],
  ['redirects', (response) => response.writeHead(302, { location: `${idp.url}/keys` }).end()],
  ['answers with no JSON', (response) => response.end('<html>')],
  ['answers with another document', (response) => response.end('{"keys":"none"}')],
  ['answers with duplicate members', (response) => response.end('{"keys":[],"keys":[]}')],
  ['breaks off', (response) => response.writeHead(200, { 'content-length': 99 }).flushHeaders()],
])('no keys are read from an issuer that %s', async (_, reply) => {
  idp.reply = (request, response) => {
    if (request.url === '/keys') {
      reply(response)
      if (!response.writableEnded) response.destroy()
    } else response.end(JSON.stringify({ issuer: NAME, jwks_uri: `${idp.url}/keys` }))
  }
  expect(await kids()).toBe(NONE)
  expect(idp.asked).toHaveLength(2)
})

test('an issuer that does not answer within five seconds (`key_set_ms`) gives no keys', async () => {
  idp.reply = () => undefined
  const timeout = AbortSignal.timeout.bind(AbortSignal)
  const limits: number[] = []
  const spy = vi.spyOn(AbortSignal, 'timeout').mockImplementation((ms) => {
    limits.push(ms)
    return timeout(ms / 100)
  })
  onTestFinished(() => spy.mockRestore())
  expect(await kids()).toBe(NONE)
  expect(limits).toEqual([5_000])
})

test('A06 a key set above `key_set_bytes` is not read to its end', async () => {
  let sent = 0
  idp.reply = (_, response) => {
    const more = () => {
      sent++
      response.write(Buffer.alloc(64 * 1024, 0x20), (error) => error == null && sent < 10_000 && more())
    }
    response.on('error', () => undefined)
    more()
  }
  expect(await kids(false, { ...spec, jwks: { uri: `${NAME}/keys` } })).toBe(NONE)
  expect(sent).toBeLessThan(1_000)
})

test('N14 a discovery document that leads into our network, or describes another issuer, gives no keys', async () => {
  for (const document of [
    { issuer: NAME, jwks_uri: 'https://169.254.169.254/keys' },
    { issuer: NAME, jwks_uri: 'https://keys.internal/' },
    { issuer: 'https://other.example.com', jwks_uri: `${idp.url}/keys` },
    { jwks_uri: `${idp.url}/keys` },
  ]) {
    idp.reply = (_, response) => response.end(JSON.stringify(document))
    expect(await kids()).toBe(NONE)
    now += LIMITS.key_set_retry_ms
  }
  expect(new Set(sent)).toEqual(new Set([`${idp.url}/.well-known/openid-configuration`]))
})

test('private, symmetric and unknown keys in a key set are skipped', async () => {
  const odd = [
    { kty: 'oct', k: 'AAAA' },
    { ...second.jwk, d: 'AAAA' },
    { kty: 'EC', crv: 'secp256k1' },
    null,
    7,
  ]
  idp.reply = (request, response) =>
    response.end(
      JSON.stringify(
        request.url === '/keys'
          ? { keys: [...odd, first.jwk] }
          : { issuer: NAME, jwks_uri: `${idp.url}/keys` },
      ),
    )
  expect(await kids()).toEqual(['first'])
})

test('an issuer with other settings is fetched separately, and all are fetched again when an operator changes one', async () => {
  await kids()
  const elsewhere = { ...spec, jwks: { uri: `${NAME}/keys` } }
  expect(await kids(false, elsewhere)).toEqual(['first'])
  expect(idp.asked).toHaveLength(3)
  await kids()
  await kids(false, elsewhere)
  expect(idp.asked).toHaveLength(3)
  source.forget()
  await kids()
  expect(idp.asked).toHaveLength(5)
})
