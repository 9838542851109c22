// Promise: an agent can authenticate with a token of an issuer that its tenant trusts, and with no
// other token. Removing the issuer or the agent ends that on the next request, even on open
// streams.

import { createSecretKey } from 'node:crypto'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { CryptoKey } from 'jose'
import { exportJWK, exportSPKI, importJWK, type JWTPayload, SignJWT } from 'jose'
import { Provider } from 'oidc-provider'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import type { Stack } from '../../../infra/stack.ts'
import { LIMITS } from '../../../shared/limits.ts'
import { bearer, type Client, client } from '../../../shared/routes/client.ts'
import type { IssuerSpec } from '../../../shared/wire/issuers.ts'
import { countersign } from '../../support/countersign.ts'
import { eventually } from '../../support/eventually.ts'
import { Fixtures, refusalOf, unwrap } from '../../support/fixtures.ts'
import { ended, followCall } from '../../support/http/followed-call.ts'
import { startTestStack } from '../../support/stack/stack.ts'
import { installation, newTenant } from '../../support/tenants.ts'
import { newSigningKey, sign, TokenIssuer } from '../../support/tokens/token-issuer.ts'

const [NAME, OTHER, OIDC] = [
  'https://idp.example.test',
  'https://other.example.test',
  'https://oidc.example.test',
] as const
const [ec, ed, rsa, stranger] = await Promise.all([
  newSigningKey('ES256', 'ec'),
  newSigningKey('EdDSA', 'ed'),
  newSigningKey('RS256', 'rsa'),
  newSigningKey('ES256', 'ec'),
])
const REFUSED = '401 unauthenticated'

let idp: TokenIssuer
let other: TokenIssuer
let oidc: Server
let stack: Stack
let fixtures: Fixtures
let agent: Awaited<ReturnType<Fixtures['agent']>>
let tool: string

/** A published OpenID provider, which gives tokens to one client that knows a secret. */
async function openProvider(): Promise<Server> {
  const provider = new Provider(OIDC, {
    clients: [
      {
        client_id: 'workload',
        client_secret: 'the secret of the workload at its own provider',
        grant_types: ['client_credentials'],
        redirect_uris: [],
        response_types: [],
      },
    ],
    jwks: { keys: [{ ...(await exportJWK(rsa.key)), kid: 'provider', alg: 'RS256', use: 'sig' }] },
    scopes: ['calls'],
    features: {
      clientCredentials: { enabled: true },
      devInteractions: { enabled: false },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: (_context, resource) => ({
          scope: 'calls',
          audience: resource,
          accessTokenFormat: 'jwt',
          accessTokenTTL: 300,
          jwt: { sign: { alg: 'RS256' } },
        }),
      },
    },
  })
  const server = createServer(provider.callback())
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return server
}
const urlOf = (server: Server): string => `http://127.0.0.1:${(server.address() as AddressInfo).port}` // it listens on TCP

beforeAll(async () => {
  idp = await TokenIssuer.open(NAME, ec, ed, rsa)
  other = await TokenIssuer.open(OTHER, await newSigningKey('ES256', 'other'))
  oidc = await openProvider()
  stack = await startTestStack({
    worker: 'idle',
    loopbackChannels: { [NAME]: idp.url, [OTHER]: other.url, [OIDC]: urlOf(oidc) },
  })
  fixtures = new Fixtures('tokens', stack.dev)
  agent = await fixtures.agent()
  tool = await fixtures.tool()
})
afterAll(async () => {
  await stack?.stop()
  idp.close()
  other.close()
  oidc.closeAllConnections()
  oidc.close()
})

const ruleFor = (name: string): IssuerSpec['rules'] => [{ claims: { sub: 'workload' }, agent: name }]
const spec = (change: object) => ({ issuer: NAME, rules: ruleFor(agent.name), ...change })
const put = (change: object = {}, name = 'idp', root = fixtures.root) =>
  root('putIssuer', { params: { name }, body: spec(change) })

beforeEach(async () => {
  idp.keys = [ec, ed, rsa]
  idp.reply = undefined
  for (const { name } of unwrap(await fixtures.root('listIssuers', {})).items)
    unwrap(await fixtures.root('deleteIssuer', { params: { name } }))
})

const as = (token: string): Client => client(stack.url, bearer(token))
const uses = async (token: string) => {
  const listed = await as(token)('listTools', {})
  return listed.ok ? 'accepted' : refusalOf(listed)
}
const judge = async (token: string, root = fixtures.root) => {
  const verdict = unwrap(await root('testToken', { body: { token } }))
  return verdict.accepted ? verdict.agent : verdict.fault
}
/** Refused for the caller without a reason, which an operator learns. */
const expectRefused = async (token: string, fault: string) =>
  expect([await uses(token), await judge(token)]).toEqual([REFUSED, fault])
const token = (change: JWTPayload = {}, header = {}) => idp.token(stack.url, change, header)

test('a token of a trusted issuer proposes a call as the agent that its rule names', async () => {
  unwrap(await put())
  const call = unwrap(await as(await token())('proposeCallInNewRun', { body: { tool, args: {} } }))
  expect(unwrap(await agent.client('readCall', { params: { run: call.run, call: call.id } })).id).toBe(
    call.id,
  )
})

test('a token of a published OpenID provider is accepted, with discovery, client credentials and a resource', async () => {
  unwrap(await put({ issuer: OIDC, rules: [{ claims: { client_id: 'workload' }, agent: agent.name }] }))
  const answer = await fetch(`${urlOf(oidc)}/token`, {
    method: 'POST',
    headers: {
      authorization: `Basic ${Buffer.from(`workload:${encodeURIComponent('the secret of the workload at its own provider').replaceAll('%20', '+')}`).toString('base64')}`,
      'x-forwarded-proto': 'https',
    },
    body: new URLSearchParams({
      grant_type: 'client_credentials',
      resource: `${stack.url}/mcp`,
      scope: 'calls',
    }),
  })
  const granted = (await answer.json()) as { access_token?: string } // of the provider
  expect(granted).toHaveProperty('access_token')
  expect(await judge(granted.access_token ?? '')).toBe(agent.name)
  expect(await uses(granted.access_token ?? '')).toBe('accepted')
})

test('each default algorithm is accepted with a key of its kind', async () => {
  unwrap(await put())
  for (const key of [ec, ed, rsa]) {
    const signed = await sign(key, idp.claims(stack.url))
    expect([key.alg, await uses(signed), await uses(signed)]).toEqual([key.alg, 'accepted', 'accepted'])
  }
  unwrap(await put({ algorithms: ['RS256'] }))
  await expectRefused(await sign(ec, idp.claims(stack.url)), 'algorithm')
})

test('A01 an unsigned token, and one signed with the public key as a secret, are refused', async () => {
  unwrap(await put())
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const claims = idp.claims(stack.url)
  await expectRefused(`${part({ alg: 'none' })}.${part(claims)}.AA`, 'algorithm')
  expect(await uses(`${part({ alg: 'none' })}.${part(claims)}.`)).toBe(REFUSED)
  const pem = await exportSPKI((await importJWK(rsa.jwk, 'RS256', { extractable: true })) as CryptoKey) // no symmetric key
  for (const secret of [pem, rsa.jwk.n ?? '', JSON.stringify(rsa.jwk)]) {
    const forged = await new SignJWT(claims)
      .setProtectedHeader({ alg: 'HS256', kid: 'rsa' })
      .sign(createSecretKey(Buffer.from(secret)))
    await expectRefused(forged, 'algorithm')
  }
})

test('A02 a token that brings its own key is refused, though its signature is valid under that key', async () => {
  unwrap(await put())
  for (const header of [{ jwk: stranger.jwk }, { jku: `${idp.url}/keys` }, { x5u: idp.url }])
    await expectRefused(await sign(stranger, idp.claims(stack.url), header), 'header')
  await expectRefused(await sign(stranger, idp.claims(stack.url)), 'signature') // it has the key id of a key of the issuer
})

test('A01 a token whose issuer is not a text is refused like one of an unknown issuer', async () => {
  unwrap(await put())
  for (const iss of [undefined, 5, [NAME], { toString: 5, valueOf: 5 }] as unknown[])
    await expectRefused(await sign(ec, { ...idp.claims(stack.url), iss: iss as string }), 'issuer') // no text
})

test('A01 a key is used only with its own algorithm', async () => {
  unwrap(await put())
  const wrong = await sign({ ...rsa, kid: 'ec' }, idp.claims(stack.url))
  await expectRefused(wrong, 'key')
})

test('A03 A04 a token that is for somebody else, has expired, is from the future or was altered is refused', async () => {
  unwrap(await put())
  const now = Math.floor(Date.now() / 1000)
  await expectRefused(await idp.token('https://api.example.com'), 'audience')
  await expectRefused(await idp.token(`${stack.url}/t/other`), 'tenant')
  await expectRefused(await token({ iat: now - 600, exp: now - 61 }), 'expired')
  await expectRefused(await token({ iat: now + 120, exp: now + 300 }), 'not_yet_valid')
  await expectRefused(await token({ nbf: now + 120 }), 'not_yet_valid')
  await expectRefused(await token({ exp: now + 90_000 }), 'lives_too_long')
  await expectRefused(await token({ sub: 'somebody' }), 'no_rule')
  const [header, , signature] = (await token({ sub: 'somebody' })).split('.')
  const [, claims] = (await token()).split('.')
  await expectRefused([header, claims, signature].join('.'), 'signature')
})

test('a verified token is refused as soon as it has expired', async () => {
  unwrap(await put())
  const now = Math.floor(Date.now() / 1000)
  const short = await token({ iat: now - 90, exp: now - 58 }) // with the tolerated difference it is good for two seconds
  expect(await uses(short)).toBe('accepted')
  await expect.poll(() => uses(short), { timeout: 10_000, interval: 100 }).toBe(REFUSED)
})

test('A07 an issuer of one tenant authenticates nobody in another, whatever tenant a request names', async () => {
  const acme = await newTenant(stack.dev, 'tokens-acme')
  const clerk = await acme.agent()
  unwrap(await put())
  unwrap(await put({ issuer: OTHER, rules: ruleFor(clerk.name) }, 'idp', acme.root))
  const asTenant = async (text: string, tenant?: string) => {
    const answer = await fetch(new URL('/v1/tools', stack.url), {
      headers: {
        authorization: `Bearer ${text}`,
        ...(tenant === undefined ? {} : { 'countersign-tenant': tenant }),
      },
    })
    return answer.status
  }
  const theirs = await other.token(`${stack.url}/t/tokens-acme`)
  expect(await asTenant(theirs)).toBe(200)
  expect(await asTenant(theirs, 'tokens-acme')).toBe(200)
  expect(await asTenant(theirs, 'default')).toBe(401)
  const ours = await token()
  expect(await asTenant(ours)).toBe(200)
  for (const tenant of ['tokens-acme', 'tokens-none', '..'])
    expect([tenant, await asTenant(ours, tenant)]).toEqual([tenant, 401])
  expect(await asTenant(await other.token(stack.url))).toBe(401)
  expect(await asTenant(await other.token(stack.url), 'tokens-acme')).toBe(200)
  expect(await judge(theirs)).toBe('tenant')
  expect(await judge(ours, acme.root)).toBe('issuer')
  expect(refusalOf(await put({ audiences: [`${stack.url}/t/tokens-acme`] }))).toBe('400 invalid_request')
})

test('A05 a new key of the issuer is found at once, and a storm of unknown keys causes one fetch', async () => {
  unwrap(await put())
  expect(await uses(await token())).toBe('accepted')
  const fresh = await newSigningKey('ES256', 'fresh')
  idp.keys = [fresh]
  const before = idp.asked.length
  expect(await uses(await token())).toBe('accepted')
  const tokens = await Promise.all(
    Array.from({ length: 40 }, (_, i) => sign({ ...stranger, kid: `unknown-${i}` }, idp.claims(stack.url))),
  )
  expect(new Set(await Promise.all(tokens.map(uses)))).toEqual(new Set([REFUSED]))
  expect(await judge(tokens[0] ?? '')).toBe('key')
  expect(idp.asked.slice(before).filter((path) => path === '/keys')).toHaveLength(1)
})

test('while an issuer is down its cached keys still verify, and a token with an unknown key gets 503', async () => {
  unwrap(await put())
  expect(await uses(await token())).toBe('accepted')
  idp.reply = (_, response) => response.destroy()
  expect(await uses(await token({ jti: 'another' }))).toBe('accepted')
  unwrap(await put({ jwks: { uri: `${NAME}/elsewhere` } }))
  expect(await uses(await token())).toBe('503 unavailable')
})

test('A06 an issuer with an oversized key set is treated like an issuer that is down', async () => {
  idp.reply = (_, response) => response.end(Buffer.alloc(1024 * 1024, 0x20))
  unwrap(await put())
  expect(await uses(await token())).toBe('503 unavailable')
})

test('A08 a token for a removed agent is refused, even after another agent got its name', async () => {
  const gone = await fixtures.agent()
  unwrap(await put({ rules: ruleFor(gone.name) }))
  const held = await token()
  expect(await uses(held)).toBe('accepted')
  unwrap(await fixtures.root('deleteAgent', { params: { name: gone.name } }))
  await expectRefused(held, 'agent_gone')
  unwrap(await fixtures.root('putAgent', { params: { name: gone.name }, body: { tools: ['*'] } }))
  await expectRefused(held, 'agent_gone')
  unwrap(await put({ rules: ruleFor(gone.name) }))
  expect(await uses(held)).toBe('accepted')
})

test('A08 removing an issuer ends its tokens at once, even on a stream that is open', async () => {
  unwrap(await put())
  const held = await token()
  const call = unwrap(await as(held)('proposeCallInNewRun', { body: { tool, args: {} } }))
  const stream = await followCall(stack.url, held, call)
  await stream.take(1)
  unwrap(await fixtures.root('deleteIssuer', { params: { name: 'idp' } }))
  unwrap(await fixtures.root('cancelRun', { params: { run: call.run } }))
  await ended(stream)
  expect(stream.events.filter(({ data }) => data.includes('cancelled'))).toEqual([])
  await expectRefused(held, 'issuer')
})

test('D18 a token of a suspended tenant is refused like its keys', async () => {
  const acme = await newTenant(stack.dev, 'tokens-suspended')
  const clerk = await acme.agent()
  unwrap(await put({ rules: ruleFor(clerk.name) }, 'idp', acme.root))
  const held = await idp.token(`${stack.url}/t/tokens-suspended`)
  expect(await uses(held)).toBe('accepted')
  const governor = installation(stack.dev)
  const params = { tenant: 'tokens-suspended' }
  unwrap(await governor('suspendTenant', { params, body: { reason: 'unpaid' } }))
  expect(await uses(held)).toBe('403 tenant_suspended')
  unwrap(await governor('resumeTenant', { params, body: {} }))
  expect(await uses(held)).toBe('accepted')
})

test('a token authenticates only agents: routes of operators and of the installation refuse it', async () => {
  unwrap(await put())
  const held = as(await token())
  expect(refusalOf(await held('listAgents', {}))).toBe('403 forbidden')
  expect(refusalOf(await held('listTenants', {}))).toBe(REFUSED)
  expect(refusalOf(await held('listIssuers', {}))).toBe('403 forbidden')
})

test('static keys need no network, and a key without an id counts if it is the only one', async () => {
  const { kid: _, ...anonymous } = stranger.jwk
  unwrap(await put({ jwks: { keys: [anonymous] } }))
  const asked = idp.asked.length
  expect(await uses(await sign(stranger, idp.claims(stack.url), { kid: undefined }))).toBe('accepted')
  await expectRefused(await sign(ec, idp.claims(stack.url), { kid: undefined }), 'signature')
  expect(idp.asked).toHaveLength(asked)
})

test('an issuer that is a duplicate, names an unknown agent, or is one more than the 32 of `LIMITS.issuers` is refused', async () => {
  unwrap(await put())
  expect(refusalOf(await put({}, 'idp-2'))).toBe('409 conflict')
  expect(refusalOf(await put({ rules: ruleFor('nobody') }))).toBe('400 invalid_request')
  expect(refusalOf(await put({ issuer: 'https://127.0.0.1' }, 'idp-2'))).toBe('400 invalid_request')
  for (let i = 1; i < 32; i++) unwrap(await put({ issuer: `${OTHER}/${i}` }, `more-${i}`))
  expect(refusalOf(await put({ issuer: `${OTHER}/32` }, 'more-32'))).toBe('409 limit_reached')
  expect(refusalOf(await fixtures.root('readIssuer', { params: { name: 'idp-2' } }))).toBe('404 not_found')
})

const metadata = (query = '', path = '') =>
  fetch(new URL(`/.well-known/oauth-protected-resource${path}${query}`, stack.url))
const challenge = async (headers: Record<string, string> = {}) =>
  (await fetch(new URL('/v1/tools', stack.url), { headers })).headers.get('www-authenticate')

test('the metadata of RFC 9728 and its challenge exist only where an advertised issuer does', async () => {
  const plain = 'Bearer realm="countersign"'
  const isPlain = async () => (await challenge()) === plain // a 401 repeats what was known a moment ago
  await eventually('no issuer is announced', isPlain)
  expect([(await metadata()).status, (await metadata('', '/mcp')).status]).toEqual([404, 404])
  unwrap(await put({ advertise: false }))
  expect([(await metadata()).status, await challenge()]).toEqual([404, plain])
  unwrap(await put())
  expect(await (await metadata()).json()).toEqual({
    resource: stack.url,
    authorization_servers: [NAME],
    bearer_methods_supported: ['header'],
    resource_name: 'Countersign',
  })
  expect(await (await metadata('', '/mcp')).json()).toMatchObject({ resource: `${stack.url}/mcp` })
  const announced = (headers: Record<string, string>) =>
    eventually(
      'the challenge leads to the metadata',
      async () => /resource_metadata="([^"]+)"/.exec((await challenge(headers)) ?? '')?.[1],
    )
  const found = await announced({ authorization: 'Bearer x.y.z' })
  expect(await (await fetch(found)).json()).toMatchObject({ authorization_servers: [NAME] })
  const acme = await newTenant(stack.dev, 'tokens-metadata')
  const named = { 'countersign-tenant': 'tokens-metadata' }
  expect([(await metadata('?tenant=tokens-metadata')).status, await challenge(named)]).toEqual([404, plain])
  unwrap(await put({ issuer: OTHER, rules: ruleFor((await acme.agent()).name) }, 'idp', acme.root))
  const theirs = await announced(named)
  expect(await (await fetch(theirs)).json()).toMatchObject({ authorization_servers: [OTHER] })
  for (const tenant of ['none', '..%2f', '%22'])
    expect((await metadata(`?tenant=${tenant}`)).status).toBeGreaterThanOrEqual(400)
  expect(await challenge({ 'countersign-tenant': '"' })).toBe(plain)
})

test('a 401 repeats what it said of a tenant for 2 s (`challenge_ms`), and looks up at most 256 tenants in that time (`challenge_tenants`)', async () => {
  expect([LIMITS.challenge_ms, LIMITS.challenge_tenants]).toEqual([2_000, 256])
  const crowded = await newTenant(stack.dev, 'tokens-crowded')
  const rules = ruleFor((await crowded.agent()).name)
  const mine = { 'countersign-tenant': 'tokens-crowded' }
  const leads = async () => (await challenge(mine))?.includes('resource_metadata=')
  unwrap(await put({ issuer: OTHER, rules }, 'idp', crowded.root))
  let round = 0
  await eventually('nothing more is looked up', async () => {
    round += 1
    const unknown = Array.from({ length: 256 }, (_, n) => `crowd-${round}-${n}`)
    await Promise.all(unknown.map((tenant) => challenge({ 'countersign-tenant': tenant })))
    return !(await leads())
  })
  await eventually('it is looked up after the others', leads)
  unwrap(await crowded.root('deleteIssuer', { params: { name: 'idp' } }))
  expect(await leads()).toBe(true)
  const began = Date.now()
  await eventually('the challenge leads nowhere', async () => !(await leads()))
  expect(Date.now() - began).toBeLessThan(4_000)
})

test('`countersign issuers` stores, lists, shows, tests and removes issuers, and reads a token from standard input only', async () => {
  const env = { COUNTERSIGN_URL: stack.url, COUNTERSIGN_KEY: fixtures.rootKey }
  const run = (args: string[], stdin = '') => countersign(['issuers', ...args], { env, stdin })
  const made = await run(['put', 'idp', '-'], JSON.stringify(spec({})))
  expect([made.code, made.out]).toEqual([0, expect.stringContaining(`${agent.name} if sub is workload`)])
  expect((await run(['list'])).out).toContain(NAME)
  expect((await run(['show', 'idp'])).out).toContain(`${stack.url}/mcp`)
  const good = await token()
  const accepted = await run(['test', '--token', '-'], `${good}\n`)
  expect([accepted.code, accepted.out]).toEqual([0, expect.stringContaining(`is the agent ${agent.name}`)])
  const refused = await run(['test', '--token', '-'], await idp.token('https://api.example.com'))
  expect([refused.code, refused.out]).toEqual([1, expect.stringContaining('refused (audience)')])
  const given = await run(['test', '--token', good])
  expect(given.code).toBe(2)
  expect(`${given.out}${given.err}`).not.toContain(good.slice(0, 20))
  expect((await run(['remove', 'idp'])).code).toBe(0)
  expect(JSON.parse((await run(['list', '--json'])).out)).toEqual([])
})
