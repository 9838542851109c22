// Promise: a token is refused before its signature is checked unless its header is plain and names
// an asymmetric algorithm; and a token with a valid signature is refused unless audience, times and
// claims are as its issuer was configured.

import { expect, test } from 'vitest'
import type { LoadedDirectory } from '../../../edge/directory/loaded-directory.ts'
import { audiencesFor } from '../../../edge/directory/trusted-issuer.ts'
import { checkClaims } from '../../../edge/tokens/claims.ts'
import { faultsIn } from '../../../edge/tokens/issuer-faults.ts'
import { keysIn } from '../../../edge/tokens/key-documents.ts'
import { type Claims, parseToken, tenantOf } from '../../../edge/tokens/token.ts'
import {
  cachedTenant,
  cachedToken,
  cacheKey,
  cacheToken,
  type VerifiedToken,
} from '../../../edge/tokens/token-cache.ts'
import { LIMITS } from '../../../shared/limits.ts'
import { IssuerSpec } from '../../../shared/wire/issuers.ts'

const part = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url')
const tokenOf = (header: unknown, claims: unknown = { iss: 'x' }): string =>
  `${part(header)}.${part(claims)}.c2ln`
const faultOf = (text: string): string => {
  const parsed = parseToken(text)
  return parsed.ok ? 'parsed' : parsed.error.fault
}
const ES256 = { alg: 'ES256', kid: 'a' }

test.each([
  ['malformed', 'two parts', 'e30.e30'],
  ['malformed', 'five parts, as an encrypted token has', 'e30.e30.e30.e30.e30'],
  ['malformed', 'an empty signature', `${part(ES256)}.${part({})}.`],
  ['malformed', 'padding', `${part(ES256)}.${part({})}.c2ln=`],
  ['malformed', 'a header that is no object', tokenOf(['ES256'])],
  ['malformed', 'claims that are no object', tokenOf(ES256, 'x')],
  [
    'malformed',
    'a repeated claim',
    `${part(ES256)}.${Buffer.from('{"aud":"a","aud":"b"}').toString('base64url')}.c2ln`,
  ],
  [
    'malformed',
    '`__proto__`',
    `${part(ES256)}.${Buffer.from('{"__proto__":{}}').toString('base64url')}.c2ln`,
  ],
  ['too_long', 'more than 8 KiB (`token_bytes`)', tokenOf(ES256, { iss: 'x'.repeat(8 * 1024) })],
  ['parsed', 'a plain header', tokenOf(ES256)],
  ['parsed', 'a plain header without a key id', tokenOf({ alg: 'RS256', typ: 'at+jwt' })],
  ['parsed', 'a type in capitals', tokenOf({ alg: 'RS256', typ: 'application/AT+JWT' })],
])('a token is %s if it has %s', (fault, _, text) => expect(faultOf(text)).toBe(fault))

test.each(['none', 'None', 'NONE', '', 'HS256', 'HS512', 'RSA-OAEP', 'ES256K', 'es256', 7, null, undefined])(
  'A01 a token with the algorithm %s is refused before anything else of it is read',
  (alg) => expect(faultOf(tokenOf({ alg, kid: 'a' }))).toBe('algorithm'),
)

test.each([
  { jwk: { kty: 'EC' } },
  { jku: 'https://evil.example/keys' },
  { x5u: 'https://evil.example/cert' },
  { x5c: ['MII'] },
  { crit: ['exp'] },
  { crit: ['b64'], b64: false },
  { kid: 7 },
  { kid: ['a'] },
  { typ: 'logout+jwt' },
  { typ: 'secevent+jwt' },
  { typ: 7 },
])('A02 a token whose header has %j is refused', (more) =>
  expect(faultOf(tokenOf({ ...ES256, ...more }))).toBe('header'),
)

const URL = 'https://cs.example.com'
const NOW = 1_800_000_000_000
const now = NOW / 1000
const spec = (change: object = {}) =>
  IssuerSpec.parse({
    issuer: 'https://idp.example.com',
    rules: [{ claims: { sub: 'app' }, agent: 'clerk' }],
    ...change,
  })
const judged = (change: Claims, settings: object = {}) => {
  const parsed = spec(settings)
  const issuer = {
    name: 'idp',
    spec: parsed,
    agents: {},
    audiences: new Set(audiencesFor(URL, 'acme', parsed)),
  }
  const matched = checkClaims(
    { iss: 'i', sub: 'app', aud: URL, iat: now, exp: now + 300, ...change },
    issuer,
    NOW,
  )
  return matched.ok ? matched.value.agent : matched.error.fault
}
const without = (name: string) => ({ [name]: undefined }) as unknown as Claims // as if it were absent

test.each<[string, string, Claims]>([
  ['clerk', 'the address of the edge', {}],
  ['clerk', 'the MCP endpoint', { aud: `${URL}/mcp` }],
  ['clerk', 'its own tenant', { aud: `${URL}/t/acme` }],
  ['clerk', 'us among others', { aud: ['https://other.example', URL] }],
  ['audience', 'another tenant', { aud: `${URL}/t/other` }],
  ['audience', 'a longer address', { aud: `${URL}.evil.example` }],
  ['audience', 'the address with a slash', { aud: `${URL}/` }],
  ['audience', 'nobody', without('aud')],
  ['audience', 'an empty list', { aud: [] }],
  ['audience', 'an object', { aud: { [URL]: true } }],
])('A03 a token gives %s if its audience is %s', (result, _, claims) => expect(judged(claims)).toBe(result))

test('audiences of an issuer replace the default ones', () => {
  expect(judged({ aud: 'api://app' }, { audiences: ['api://app'] })).toBe('clerk')
  expect(judged({}, { audiences: ['api://app'] })).toBe('audience')
})

test.each<[string, string, Claims]>([
  ['clerk', 'expired 59 s ago (`token_skew_s` is 60)', { iat: now - 300, exp: now - 59 }],
  ['expired', 'expired 60 s ago', { iat: now - 300, exp: now - 60 }],
  ['missing_claim', 'has no end', without('exp')],
  ['missing_claim', 'ends at a text', { exp: `${now + 300}` }],
  ['clerk', 'begins in 60 s', { nbf: now + 60 }],
  ['not_yet_valid', 'begins in 61 s', { nbf: now + 61 }],
  ['clerk', 'was issued 60 s in the future', { iat: now + 60, exp: now + 300 }],
  ['not_yet_valid', 'was issued 61 s in the future', { iat: now + 61 }],
  ['clerk', 'lives for 24 h', { exp: now + 86_400 }],
  ['lives_too_long', 'lives for 24 h and a second', { exp: now + 86_401 }],
  ['lives_too_long', 'lives for ever', { exp: 9_007_199_254_740_991 }],
  ['malformed', 'begins at a text', { nbf: 'now' }],
  ['malformed', 'was issued at null', { iat: null }],
  ['missing_claim', 'does not say when it was issued', without('iat')],
  ['missing_claim', 'names no subject', without('sub')],
  ['missing_claim', 'has an empty subject', { sub: '' }],
  ['bound', 'is bound to a key', { cnf: { jkt: 'x' } }],
])('A04 a token gives %s if it %s', (result, _, claims) => expect(judged(claims)).toBe(result))

test('an issuer may require younger tokens and more claims, and need not require `iat`', () => {
  expect(judged({ iat: now - 359 }, { max_age_s: 300 })).toBe('clerk')
  expect(judged({ iat: now - 360 }, { max_age_s: 300 })).toBe('too_old')
  expect(judged(without('iat'), { max_age_s: 300, require: [] })).toBe('missing_claim')
  expect(judged(without('iat'), { require: [] })).toBe('clerk')
  expect(judged({}, { require: ['iat', 'jti'] })).toBe('missing_claim')
  expect(judged({ jti: '1' }, { require: ['iat', 'jti'] })).toBe('clerk')
})

test('the actor behind a token is its issuer and subject, with client, acting party and the digest of its id', () => {
  const matched = (change: Claims) => {
    const parsed = spec()
    const issuer = { name: 'idp', spec: parsed, agents: {}, audiences: new Set([URL]) }
    const claims = {
      iss: 'https://idp.example.com',
      sub: 'app',
      aud: URL,
      iat: now,
      exp: now + 300,
      ...change,
    }
    const result = checkClaims(claims, issuer, NOW)
    return result.ok ? result.value.actor : result.error.fault
  }
  const known = { issuer: 'https://idp.example.com', subject: 'app' }
  expect(matched({})).toEqual(known)
  expect(matched({ client_id: 'c' })).toEqual({ ...known, client: 'c' })
  expect(matched({ azp: 'a', client_id: 'c' })).toEqual({ ...known, client: 'a' })
  expect(matched({ act: { sub: 'bot', act: { sub: 'earlier' } } })).toEqual({ ...known, acting: 'bot' })
  expect(matched({ jti: 'abc' })).toEqual({
    ...known,
    jti_sha256: 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad',
  })
  for (const odd of [{ act: {} }, { act: ['bot'] }, { act: null }, { jti: 7 }])
    expect(matched(odd)).toBe('malformed')
  for (const odd of [{ azp: 7 }, { azp: 'x'.repeat(513) }, { act: { sub: '' } }])
    expect(matched(odd)).toBe('missing_claim')
})

test('the first rule whose claims all match names the agent, and no rule means no agent', () => {
  const rules = [
    { claims: { sub: 'app', env: 'prod' }, agent: 'prod' },
    { claims: { sub: { prefix: 'repo:acme/' } }, agent: 'builder' },
    { claims: { groups: 'ops' }, agent: 'operator' },
    { claims: { sub: 'app' }, agent: 'rest' },
  ]
  const by = (claims: Claims) => judged(claims, { rules })
  expect(by({ env: 'prod' })).toBe('prod')
  expect(by({ env: 'test' })).toBe('rest')
  expect(by({ sub: 'repo:acme/app:ref:refs/heads/main' })).toBe('builder')
  expect(by({ sub: 'repo:acme-evil/app' })).toBe('no_rule')
  expect(by({ sub: 'x', groups: ['dev', 'ops'] })).toBe('operator')
  expect(by({ sub: 'x', groups: 'dev ops' })).toBe('no_rule')
  expect(by({ sub: 'x', groups: { ops: 'ops' } })).toBe('no_rule')
  expect(by({ sub: 'APP' })).toBe('no_rule')
  expect(by({ sub: 'app/other' })).toBe('no_rule')
  expect(judged({}, { rules: [{ claims: { toString: { prefix: 'function ' } }, agent: 'x' }] })).toBe(
    'no_rule',
  )
})

test('a rule without a claim, or with a prefix that ends without a separator, is refused', () => {
  const parses = (claims: object) =>
    IssuerSpec.safeParse({ issuer: 'x', rules: [{ claims, agent: 'a' }] }).success
  expect(parses({})).toBe(false)
  expect(parses({ sub: { prefix: '' } })).toBe(false)
  expect(parses({ sub: { prefix: 'repo:acme' } })).toBe(false)
  expect(parses({ sub: { prefix: 'repo:acme/' } })).toBe(true)
})

test('an issuer with a private or symmetric static key is refused', () => {
  const key = { kty: 'EC', crv: 'P-256', x: 'AAAA', y: 'AAAA' }
  const parses = (one: object) =>
    IssuerSpec.safeParse({
      issuer: 'x',
      jwks: { keys: [one] },
      rules: [{ claims: { sub: 'a' }, agent: 'a' }],
    }).success
  expect(parses(key)).toBe(true)
  expect(parses({ ...key, d: 'AAAA' })).toBe(false)
  expect(parses({ kty: 'oct', k: 'AAAA' })).toBe(false)
  expect(parses({ ...key, crv: 'secp256k1' })).toBe(false)
})

test('at most `issuer_keys` keys of an issuer are used, static or fetched', () => {
  const key = { kty: 'EC', crv: 'P-256', x: 'AAAA', y: 'AAAA' }
  const keys = (count: number) => Array.from({ length: count }, (_, n) => ({ ...key, kid: `${n}` }))
  const fetched = (count: number) => keysIn(Buffer.from(JSON.stringify({ keys: keys(count) })))
  const isStored = (count: number) =>
    IssuerSpec.safeParse({
      issuer: 'x',
      jwks: { keys: keys(count) },
      rules: [{ claims: { sub: 'a' }, agent: 'a' }],
    }).success
  expect(LIMITS.issuer_keys).toBe(32)
  expect([isStored(32), isStored(33)]).toEqual([true, false])
  expect([fetched(32)?.length, fetched(33)?.length]).toEqual([32, 32])
  expect(fetched(33)?.some(({ kid }) => kid === '32')).toBe(false)
})

test('the tenant of a token is the one that its request names, else the one in its audience, else the default', () => {
  const of = (named: string | null, aud: Claims['aud']) => {
    const tenant = tenantOf(named, aud === undefined ? {} : { aud }, URL, 'default')
    return tenant.ok ? tenant.value : tenant.error.fault
  }
  expect(of(null, URL)).toBe('default')
  expect(of(null, `${URL}/t/acme`)).toBe('acme')
  expect(of(null, ['x', `${URL}/t/acme`])).toBe('acme')
  expect(of('other', `${URL}/t/acme`)).toBe('other')
  expect(of('../x', URL)).toBe('tenant')
  expect(of(null, `${URL}/t/../x`)).toBe('default')
  expect(of(null, 'https://evil.example/t/acme')).toBe('default')
})

test('N14 an issuer inside our network, or an audience of another tenant, is refused when it is stored', () => {
  const faults = (change: object) =>
    faultsIn(spec(change), { tenant: 'acme', publicUrl: URL, loopback: false }).map(({ at }) => at)
  expect(faults({})).toEqual([])
  expect(faults({ issuer: 'https://idp.internal' })).toEqual(['/issuer'])
  expect(faults({ issuer: 'http://idp.example.com' })).toEqual(['/issuer'])
  expect(faults({ jwks: { uri: 'https://169.254.169.254/keys' } })).toEqual(['/jwks/uri'])
  expect(
    faults({ issuer: 'kubernetes/serviceaccount', jwks: { keys: [{ kty: 'RSA', n: 'AA', e: 'AQAB' }] } }),
  ).toEqual([])
  expect(faults({ audiences: [`${URL}/t/acme`, `${URL}/t/other`, 'api://x'] })).toEqual(['/audiences/1'])
})

test('an isolate caches at most `tokens_cached` verified tokens, and drops the one that was stored first', () => {
  // Only its tenant and version are read.
  const directory = { tenant: 'acme', version: 1 } as LoadedDirectory
  const verified = { expiresAt: NOW, until: NOW } as VerifiedToken
  const keys = Array.from({ length: LIMITS.tokens_cached + 1 }, (_, n) => cacheKey(null, `token ${n}`))
  const cached = () => keys.filter((key) => cachedToken(key, directory, NOW - 1) !== undefined).length
  for (const key of keys.slice(0, -1)) cacheToken(key, directory, verified)
  expect([cached(), cachedTenant(keys[0] ?? '')]).toEqual([10_000, 'acme'])
  cacheToken(keys.at(-1) ?? '', directory, verified)
  expect([cached(), cachedTenant(keys[0] ?? '')]).toEqual([10_000, undefined])
  expect([cachedTenant(keys[1] ?? ''), cachedTenant(keys.at(-1) ?? '')]).toEqual(['acme', 'acme'])
})
