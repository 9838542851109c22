// Promise: a worker is enrolled with a token that works once, and authenticates each request by a
// signature that covers method, authority, path and body.

import { expect, test } from 'vitest'
import { verifyBundle } from '../../../shared/evidence/bundle.ts'
import type { Envelope, Signer } from '../../../shared/evidence/dsse.ts'
import { contentDigest, signRequest } from '../../../shared/evidence/http-signature.ts'
import { type Keys, readKeys, sealLink } from '../../../shared/evidence/keys.ts'
import { statementOf } from '../../../shared/evidence/statement.ts'
import {
  readProof,
  sealProof,
  type WorkerProof,
  type WorkerResources,
} from '../../../shared/evidence/worker-proof.ts'
import { mintKey, newWorkerId } from '../../../shared/ids.ts'
import { LIMITS } from '../../../shared/limits.ts'
import { client } from '../../../shared/routes/client.ts'
import { Fixtures, refusalOf, unwrap } from '../../support/fixtures.ts'
import { sharedStack } from '../../support/stack/stack.ts'
import { newSigner, PeerWorker } from '../../support/worker/peer-worker.ts'

const fixtures = new Fixtures('worker-identity', sharedStack())
const agent = await fixtures.agent()
const tool = await fixtures.tool()
const [peer, other] = [
  await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool),
  await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool),
]

const path = '/v1/worker/heartbeat'
const body = Buffer.from('{"tiers":["B","C"],"running":[]}')
const signed = (
  as = peer,
  key = as.signer.key,
  over: { body?: Buffer; method?: string; path?: string; authority?: string } = {},
  at = Date.now(),
) =>
  signRequest(
    { method: 'POST', authority: new URL(fixtures.url).host, path, body, ...over },
    { tenant: 'default', worker: as.id, key, epoch: peer.epoch },
    at,
  )

async function send(
  headers: Record<string, string>,
  change: { body?: Buffer; method?: string; path?: string } = {},
): Promise<string> {
  const answer = await fetch(new URL(change.path ?? path, fixtures.url), {
    method: change.method ?? 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: new Uint8Array(change.body ?? body),
  })
  const { code } = (await answer.json()) as { code?: string } // a problem, or an answer to a heartbeat
  return `${answer.status} ${code ?? 'ok'}`
}

test('a signed request is admitted, and without any of its signature headers it is refused', async () => {
  expect(await send(signed())).toBe('200 ok')
  for (const name of ['signature', 'signature-input', 'content-digest']) {
    const { [name]: _, ...rest } = signed()
    expect([name, await send(rest)]).toEqual([name, '401 bad_signature'])
  }
  expect(await send({})).toBe('401 bad_signature')
  expect(await send({ authorization: `Bearer ${agent.key}` })).toBe('401 bad_signature')
  expect(await send({ authorization: `Bearer ${fixtures.rootKey}` })).toBe('401 bad_signature')
})

test('K02 a captured request is refused each time it is sent again, while new ones are admitted', async () => {
  const captured = signed()
  expect(await send(captured)).toBe('200 ok')
  for (let i = 0; i < 10; i++) {
    expect(await send(captured)).toBe('401 replayed')
    expect(await send(signed())).toBe('200 ok')
  }
})

test('K02 only one of twenty simultaneous copies of a request is admitted', async () => {
  const captured = signed()
  const answers = await Promise.all(Array.from({ length: 20 }, () => send(captured)))
  expect(answers.filter((answer) => answer === '200 ok')).toHaveLength(1)
  expect(answers.filter((answer) => answer === '401 replayed')).toHaveLength(19)
})

test('K02 a request signed too far in the past or future is refused', async () => {
  for (const off of [-(LIMITS.signature_age_s + 5), LIMITS.signature_age_s + 5, -86_400, 86_400])
    expect([off, await send(signed(peer, peer.signer.key, {}, Date.now() + off * 1000))]).toEqual([
      off,
      '401 clock_skew',
    ])
})

test('K02 a request with a replaced body is refused, with the old digest and with the new one', async () => {
  const swapped = Buffer.from('{"tiers":["B","C"],"running":[ ]}')
  expect(await send(signed(), { body: swapped })).toBe('401 bad_signature')
  expect(await send({ ...signed(), 'content-digest': contentDigest(swapped) }, { body: swapped })).toBe(
    '401 bad_signature',
  )
})

test('K02 a signature for another path, method or host is refused', async () => {
  expect(await send(signed(), { path: '/v1/worker/claims' })).toBe('401 bad_signature')
  for (const over of [
    { path: '/v1/worker/claims' },
    { method: 'GET' },
    { method: 'post' },
    { authority: 'evil.example' },
    { authority: '127.0.0.1' },
  ])
    expect([over, await send(signed(peer, peer.signer.key, over))]).toEqual([over, '401 bad_signature'])
})

const ALTERED: ReadonlyArray<readonly [string, (headers: Record<string, string>) => Record<string, string>]> =
  [
    ['fewer components', (h) => alter(h, 'signature-input', ' "content-digest"', '')],
    ['no component', (h) => alter(h, 'signature-input', /\(.*?\)/, '()')],
    [
      'another order of components',
      (h) => alter(h, 'signature-input', '"@method" "@authority"', '"@authority" "@method"'),
    ],
    ['an additional component', (h) => alter(h, 'signature-input', '"@path"', '"@path" "@query"')],
    ['another time', (h) => alter(h, 'signature-input', /created=(\d+)/, 'created=1')],
    ['no time', (h) => alter(h, 'signature-input', /;created=\d+/, '')],
    ['an expiry instead', (h) => alter(h, 'signature-input', 'created=', 'expires=')],
    ['another nonce', (h) => alter(h, 'signature-input', /(?<=nonce="A*)[^A"]/, 'A')],
    ['no nonce', (h) => alter(h, 'signature-input', /;nonce="[^"]*"/, '')],
    ['another algorithm', (h) => alter(h, 'signature-input', 'ed25519', 'hmac-sha256')],
    ['no algorithm', (h) => alter(h, 'signature-input', ';alg="ed25519"', '')],
    ['another tag', (h) => alter(h, 'signature-input', 'countersign-worker', 'other')],
    ['another tenant', (h) => alter(h, 'signature-input', 'keyid="default/', 'keyid="other/')],
    ['a tenant with a slash', (h) => alter(h, 'signature-input', 'keyid="default/', 'keyid="default/x/')],
    [
      'another label',
      (h) => ({ ...h, 'signature-input': `x${h['signature-input']}`, signature: `x${h['signature']}` }),
    ],
    [
      'two signatures',
      (h) => ({
        ...h,
        'signature-input': `${h['signature-input']}, x=()`,
        signature: `${h['signature']}, x=:AA==:`,
      }),
    ],
    ['a signature of zeros', (h) => ({ ...h, signature: `w=:${'A'.repeat(86)}==:` })],
    ['a signature cut short', (h) => ({ ...h, signature: `${h['signature']?.slice(0, -5)}:` })],
    ['an empty signature', (h) => ({ ...h, signature: 'w=::' })],
    ['a digest of another kind', (h) => alter(h, 'content-digest', 'sha-256=', 'sha-512=')],
    ['two digests', (h) => ({ ...h, 'content-digest': `${h['content-digest']}, ${h['content-digest']}` })],
    ['blanks', (h) => alter(h, 'signature-input', ';created', '; created')],
  ]

function alter(
  headers: Record<string, string>,
  name: string,
  from: string | RegExp,
  to: string,
): Record<string, string> {
  const altered = headers[name]?.replace(from, to)
  if (altered === undefined || altered === headers[name]) throw new Error(`\`${name}\` was not altered`)
  return { ...headers, [name]: altered }
}

test.each(ALTERED)('K02 a signature of any other form is refused: %s', async (_name, change) => {
  expect(await send(change(signed()))).toBe('401 bad_signature')
})

test('K01 requests with another worker’s key, an unknown key or an unknown worker get the same refusal', async () => {
  expect(await send(signed(peer, other.signer.key))).toBe('401 bad_signature')
  expect(await send(signed(peer, newSigner().key))).toBe('401 bad_signature')
  const nobody = newWorkerId(Date.now())
  const headers = signRequest(
    { method: 'POST', authority: new URL(fixtures.url).host, path, body },
    { tenant: 'default', worker: nobody, key: peer.signer.key },
    Date.now(),
  )
  expect(await send(headers)).toBe('401 bad_signature')
})

test('K01 a revoked worker is refused on its next request, and its public key stays published', async () => {
  const leaving = await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool)
  unwrap(await leaving.client('heartbeat', { body: { tiers: [], running: [] } }))
  unwrap(await fixtures.root('revokeWorker', { params: { worker: leaving.id } }))
  for (let i = 0; i < 3; i++)
    expect(refusalOf(await leaving.client('heartbeat', { body: { tiers: [], running: [] } }))).toBe(
      '401 bad_signature',
    )
  expect(
    unwrap(await fixtures.root('listWorkers', {})).items.find(({ id }) => id === leaving.id)?.status,
  ).toBe('revoked')
  expect(
    unwrap(await client(fixtures.url)('keys', { query: {} })).keys.find(
      ({ worker }) => worker === leaving.id,
    ),
  ).toMatchObject({
    status: 'revoked',
  })
})

test('T03 K01 a worker replaces its key with a link that both have signed; what the old key signed before still settles and verifies', async () => {
  const rotating = await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool)
  const call = unwrap(await agent.client('proposeCallInNewRun', { body: { tool, args: {} } }))
  const claim = unwrap(await rotating.claim(call.id))
  const ended = rotating.settlement(claim)
  const [next, stranger] = [newSigner(), newSigner()]
  const terms = { from_ms: 0, until_ms: 0, distrusts: null }
  const linkOf = (from: Signer, to: Signer) => sealLink(terms, from, to)
  const ask = (by: Signer, link: Envelope) => rotating.as(by)('rotateWorkerKey', { body: { link } })
  for (const link of [
    linkOf(stranger, next),
    linkOf(other.signer, next),
    linkOf(rotating.signer, other.signer),
  ])
    expect(refusalOf(await ask(rotating.signer, link))).toBe('400 invalid_request')
  const link = linkOf(rotating.signer, next)
  expect(refusalOf(await ask(stranger, link))).toBe('401 bad_signature')
  expect(unwrap(await ask(rotating.signer, link)).kid).toBe(next.kid)
  expect(refusalOf(await ask(rotating.signer, link))).toBe('401 bad_signature')
  expect(unwrap(await ask(next, link)).kid).toBe(next.kid) // the answer was lost, so it asks again

  const late = rotating.settlement(claim, {}, (statement) => {
    const { execution, ...predicate } = statement.predicate
    const later = { ...execution, ended_at_ms: execution.ended_at_ms + 2 * LIMITS.clock_slack_ms }
    return statementOf({ ...predicate, execution: later })
  })
  const settle = (body: typeof ended) => rotating.as(next)('settle', { body })
  expect(refusalOf(await settle(late))).toBe('422 attestation_invalid')
  unwrap(await settle(ended))
  const bundle = unwrap(await agent.client('readAttestation', { params: { run: call.run, call: call.id } }))
  const keysNow = async () => unwrap(await client(fixtures.url)('keys', { query: {} }))
  const own = ({ keys }: Keys) => keys.filter(({ worker }) => worker === rotating.id)
  const keys = await keysNow()
  expect(verifyBundle(bundle, keys).ok).toBe(true)
  expect(own(keys)).toMatchObject([
    { kid: rotating.signer.kid, status: 'retired', until_ms: expect.any(Number) },
    { kid: next.kid, status: 'active', until_ms: null },
  ])

  const { ended_at_ms } = rotating.statement(claim).predicate.execution
  const params = { worker: rotating.id }
  unwrap(await fixtures.root('revokeWorker', { params, query: { distrusted_from_ms: ended_at_ms } }))
  expect(verifyBundle(bundle, await keysNow()).ok).toBe(true)
  unwrap(await fixtures.root('revokeWorker', { params, query: { distrusted_from_ms: 0 } }))
  unwrap(await fixtures.root('revokeWorker', { params }))
  const after = await keysNow()
  expect(verifyBundle(bundle, after).ok).toBe(false)
  expect(own(after).map(({ distrusted_from_ms }) => distrusted_from_ms)).toEqual([0, 0])
  expect(readKeys(after).ok).toBe(true)
})

test('a worker has at most 32 keys (`worker_keys`) in its life', async () => {
  const rotating = await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool)
  let present = rotating.signer
  const rotate = async () => {
    const next = newSigner()
    const link = sealLink({ from_ms: 0, until_ms: 0, distrusts: null }, present, next)
    const answer = await rotating.as(present)('rotateWorkerKey', { body: { link } })
    if (answer.ok) present = next
    return answer
  }
  for (let count = 1; count < 32; count++) unwrap(await rotate())
  expect(refusalOf(await rotate())).toBe('409 limit_reached')
  unwrap(await fixtures.root('revokeWorker', { params: { worker: rotating.id } }))
})

// ── Enrolment ──

const enrol = (token: string, x = newSigner().x) =>
  client(fixtures.url)('enrol', { body: { token, x, name: 'peer', tiers: ['C'] } })
const newToken = async () => unwrap(await fixtures.root('createEnrolment', { body: { pool: fixtures.pool } }))

test('K01 an enrolment token enrols one worker, even if twenty requests with it come at once', async () => {
  const { token } = await newToken()
  const answers = await Promise.all(Array.from({ length: 20 }, () => enrol(token)))
  expect(answers.filter(({ ok }) => ok)).toHaveLength(1)
  expect(new Set(answers.filter(({ ok }) => !ok).map(refusalOf))).toEqual(new Set(['401 enrolment_invalid']))
  expect(refusalOf(await enrol(token))).toBe('401 enrolment_invalid')
})

test('K03 guessed or altered enrolment tokens and keys of other kinds enrol nobody and don’t use up the token', async () => {
  const { token, expires_at } = await newToken()
  expect(expires_at - Date.now()).toBeLessThanOrEqual(LIMITS.enrolment_ttl_s * 1000)
  const guesses = [
    mintKey('enrol', 'default', Date.now()).key,
    mintKey('enrol', 'other', Date.now()).key,
    `${token.slice(0, -1)}${token.endsWith('0') ? '1' : '0'}`,
    token.toLowerCase(),
    token.slice(0, -1),
    `${token} `,
    token.replace('cs_enrol_', 'cs_operator_'),
    agent.key,
    fixtures.rootKey,
    '',
  ]
  for (const guess of guesses)
    expect([guess, refusalOf(await enrol(guess))]).toEqual([guess, '401 enrolment_invalid'])
  for (let i = 0; i < 100; i++)
    expect(refusalOf(await enrol(mintKey('enrol', 'default', Date.now()).key))).toBe('401 enrolment_invalid')
  expect((await enrol(token)).ok).toBe(true) // guessing did not use it up
})

test('T02 a weak public key, under which anyone could sign, can’t be enrolled, and the token stays valid', async () => {
  const { token } = await newToken()
  const weak = [
    'A'.repeat(43),
    Buffer.concat([Buffer.of(1), Buffer.alloc(31)]).toString('base64url'),
    Buffer.alloc(32, 255).toString('base64url'),
    'x',
    '',
  ]
  for (const x of weak) expect([x, refusalOf(await enrol(token, x))]).toEqual([x, '400 invalid_request'])
  expect((await enrol(token)).ok).toBe(true)
})

test('K01 a key that belongs to a worker can’t be enrolled again', async () => {
  const { token } = await newToken()
  expect(refusalOf(await enrol(token, peer.signer.x))).toBe('401 enrolment_invalid')
})

// ── Which calls a worker gets ──

test('K04 a worker gets no call of a tier that it has not proven, whatever its claim reports', async () => {
  const modest = await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool, ['B'])
  const call = unwrap(await agent.client('proposeCallInNewRun', { body: { tool, args: {} } }))
  for (const tiers of [['B'], ['B', 'C'], []] as const) {
    const answer = await modest.client('claim', { body: { run: call.run, call: call.id, tiers: [...tiers] } })
    expect(answer).toMatchObject({ ok: false, error: { code: 'sandbox_unavailable' } })
  }
  expect(refusalOf(await peer.claim(call.id, ['B']))).toMatch(/sandbox_unavailable/)
  expect((await peer.claim(call.id)).ok).toBe(true)
})

test('K04 a worker without a proof gets no call, whatever tiers it enrolled with', async () => {
  const { token } = await newToken()
  const signer = newSigner()
  const { worker, tenant } = unwrap(
    await client(fixtures.url)('enrol', { body: { token, x: signer.x, name: 'silent', tiers: ['B', 'C'] } }),
  )
  const silent = client(fixtures.url, peer.credentialsOf({ worker, tenant, signer }))
  const call = unwrap(await agent.client('proposeCallInNewRun', { body: { tool, args: {} } }))
  const claim = () => silent('claim', { body: { run: call.run, call: call.id, tiers: ['B', 'C'] } })
  expect(refusalOf(await claim())).toMatch(/sandbox_unavailable/)
  unwrap(await silent('heartbeat', { body: { tiers: ['B', 'C'], running: [] } }))
  expect(refusalOf(await claim())).toMatch(/sandbox_unavailable/)
  expect((await peer.claim(call.id)).ok).toBe(true)
})

test('K04 a worker gets calls of a tier only while its last proof and its last heartbeat include the tier', async () => {
  const fickle = await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool)
  const claims = async (): Promise<string> => {
    const call = unwrap(await agent.client('proposeCallInNewRun', { body: { tool, args: {} } }))
    const claim = await fickle.claim(call.id)
    if (!claim.ok) unwrap(await peer.claim(call.id))
    return claim.ok ? 'granted' : claim.error.code
  }
  expect(await claims()).toBe('granted')
  unwrap(await fickle.prove(['B']))
  expect(await claims()).toBe('sandbox_unavailable')
  unwrap(await fickle.prove(['B', 'C']))
  expect(await claims()).toBe('granted')
  unwrap(await fickle.client('heartbeat', { body: { tiers: ['B'], running: [] } }))
  expect(await claims()).toBe('sandbox_unavailable')
})

test('K04 a claim that needs egress or a profile is refused unless both proven and reported, and the call can still be claimed', async () => {
  const part = (ok: boolean) => ({ ok, lack: null, checks: [{ name: 'said by a test', ok, seen: '' }] })
  const own = { name: 'gpu', from: 'c_offline' as const, sha256: 'a'.repeat(64) }
  const all: WorkerResources = { tiers: ['B', 'C'], egress: true, cgroups: true, profiles: [own] }
  const proven =
    (ok: boolean, profile = own) =>
    (proof: WorkerProof) => ({
      ...proof,
      egress: part(ok),
      cgroups: part(ok),
      profiles: [{ ...profile, proof: part(ok) }],
    })
  const worker = await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.name())
  const needing = await fixtures.agent({ pool: worker.pool })
  const network = {
    capabilities: ['network' as const],
    executor: { tiers: ['C' as const] },
    egress: { mode: 'strict' as const, hosts: ['example.com'] },
  }
  const [offline, online] = [
    await fixtures.tool({ executor: { tiers: ['C'], profile: own.name } }),
    await fixtures.tool(network),
  ]
  const less: [string, Partial<WorkerResources>][] = [
    [offline, { profiles: [] }],
    [offline, { profiles: [{ ...own, sha256: 'b'.repeat(64) }] }],
    [online, { egress: false }],
  ]
  for (const [tool, without] of less) {
    const call = unwrap(await needing.client('proposeCallInNewRun', { body: { tool, args: {} } }))
    const asked = call.approval?.id // reaching a host needs an approval
    if (asked !== undefined) unwrap(await fixtures.approve(asked))
    const refused = async (reported: Partial<WorkerResources>) =>
      expect(refusalOf(await worker.claim(call.id, ['B', 'C'], reported))).toMatch(/sandbox_unavailable/)
    unwrap(await worker.prove(['B', 'C'], proven(false)))
    await refused(all) // it reports more than it has proven
    if (tool === offline) {
      unwrap(await worker.prove(['B', 'C'], proven(true, { ...own, from: 'c_relayed' as never })))
      await refused({ ...all, profiles: [{ ...own, from: 'c_relayed' }] })
    }
    unwrap(await worker.prove(['B', 'C'], proven(true)))
    await refused({ ...all, ...without }) // it has proven more than it reports
    expect((await worker.claim(call.id, ['B', 'C'], all)).ok).toBe(true)
  }
  const { means, advertised } = unwrap(await fixtures.root('readWorker', { params: { worker: worker.id } }))
  expect([means, advertised]).toEqual([all, ['B', 'C']])
})

test('K04 a proof that is not the worker’s own, is outdated, or claims more than its checks is refused and changes nothing', async () => {
  const modest = await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool, ['B'])
  const both = ['B', 'C'] as const
  const failed = { name: 'x', ok: false, seen: '' }
  const bends: ((proof: WorkerProof) => unknown)[] = [
    (proof) => ({ ...proof, worker: peer.id }),
    (proof) => ({ ...proof, tenant: 'other' }),
    (proof) => ({ ...proof, at_ms: Date.now() - 3_600_000 }),
    (proof) => ({ ...proof, at_ms: Date.now() + 3_600_000 }),
    (proof) => ({ ...proof, at_ms: Date.now() - 60_000 }), // older than the stored one
    (proof) => ({ ...proof, tiers: { ...proof.tiers, C: { ok: true, lack: null, checks: [] } } }),
    (proof) => ({ ...proof, tiers: { ...proof.tiers, C: { ok: true, lack: null, checks: [failed] } } }),
    (proof) => ({ ...proof, more: true }),
    () => ({}),
  ]
  for (const bend of bends) expect(refusalOf(await modest.prove(both, bend))).toBe('422 proof_invalid')
  const borrowed = sealProof({ ...(await proofOf(peer.id)), at_ms: Date.now() }, peer.signer)
  expect(refusalOf(await modest.client('prove', { body: { envelope: borrowed } }))).toBe('422 proof_invalid')
  const { tiers, proof, envelope } = unwrap(
    await fixtures.root('readWorker', { params: { worker: modest.id } }),
  )
  expect([tiers, proof?.tiers.C.ok]).toEqual([['B'], false])
  const { kid, x } = modest.signer
  expect(envelope && readProof(envelope, { tenant: 'default', id: modest.id, kid, x })).toEqual({
    ok: true,
    value: proof,
  })
})

async function proofOf(worker: string): Promise<WorkerProof> {
  const { proof } = unwrap(await fixtures.root('readWorker', { params: { worker } }))
  if (proof === null) throw new Error(`the worker ${worker} has no proof`)
  return proof
}

test('K01 a worker can’t claim a call of another pool or one that does not exist', async () => {
  const elsewhere = await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.name())
  const call = unwrap(await agent.client('proposeCallInNewRun', { body: { tool, args: {} } }))
  expect(refusalOf(await elsewhere.claim(call.id))).toBe('409 not_claimable')
  expect(refusalOf(await elsewhere.claim(`${call.id.slice(0, -1)}9`))).toBe('409 not_claimable')
  const guess = call.id.replace(/_[0-9A-Z]{26}_/, `_${newWorkerId(Date.now()).slice(4)}_`)
  expect(refusalOf(await elsewhere.claim(guess))).toBe('409 not_claimable')
  expect((await peer.claim(call.id)).ok).toBe(true)
})

test('L2 if two workers claim a call at once, one gets it, and its repeated claim returns the same grant', async () => {
  for (let i = 0; i < 20; i++) {
    const call = unwrap(await agent.client('proposeCallInNewRun', { body: { tool, args: {} } }))
    const claims = await Promise.all([peer.claim(call.id), other.claim(call.id)])
    expect(claims.filter(({ ok }) => ok)).toHaveLength(1)
    expect(claims.filter(({ ok }) => !ok).map(refusalOf)).toEqual(['409 already_claimed'])
    const winner = claims[0]?.ok ? peer : other
    expect(unwrap(await winner.claim(call.id))).toEqual(
      claims.flatMap((claim) => (claim.ok ? [claim.value] : []))[0],
    )
  }
})
