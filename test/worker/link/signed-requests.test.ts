// The worker trusts only its edge: it signs every request, and checks every grant before anything
// runs.

import { generateKeyPairSync } from 'node:crypto'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { countersign, type PrivateJwk, signerFromJwk } from '../../../shared/evidence/dsse.ts'
import { contentDigest } from '../../../shared/evidence/http-signature.ts'
import { sealGrant } from '../../../shared/evidence/statement.ts'
import { LIMITS } from '../../../shared/limits.ts'
import { eventually } from '../../support/eventually.ts'
import { SHORT_LEASES } from '../../support/stack/other-limits.ts'
import { type LogLine, LoneWorker } from '../../support/worker/lone-worker.ts'

// Ed25519.
const stranger = signerFromJwk(
  generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' }) as PrivateJwk,
)

let lone: LoneWorker
beforeAll(async () => {
  lone = await LoneWorker.make({ limits: SHORT_LEASES })
  await lone.start()
})
afterEach(() => {
  lone.edge.alterClaim = (claim) => claim
})
afterAll(() => lone?.end())

const stillServes = async (): Promise<void> => {
  lone.edge.alterClaim = (claim) => claim
  expect((await lone.settled(await lone.call({ argv: ['true'] }))).statement.predicate.state).toBe(
    'succeeded',
  )
}

test('K02 each worker request is signed over method, authority, path and content, with a new nonce and the current time', async () => {
  await stillServes()
  const nonces = new Set<string>()
  const signed = lone.edge.requests.filter(({ route }) => route !== 'enrol' && route !== 'keys')
  expect(signed.length).toBeGreaterThan(2)
  for (const { headers, refused } of signed) {
    expect(refused).toBeUndefined()
    const input = String(headers['signature-input'])
    expect(input).toMatch(
      /^w=\("@method" "@authority" "@path" "content-digest"\);created=\d+;nonce="[^"]{16,}";keyid="default\/wrk_[^"]+";alg="ed25519";tag="countersign-worker"$/,
    )
    expect(headers['content-digest']).toMatch(/^sha-256=:.{44}:$/)
    expect(headers['authorization']).toBeUndefined()
    nonces.add(/nonce="([^"]+)"/.exec(input)?.[1] ?? '')
    const created = Number(/created=(\d+)/.exec(input)?.[1])
    expect(Math.abs(created - Date.now() / 1000)).toBeLessThan(LIMITS.signature_age_s)
  }
  expect(nonces.size).toBe(signed.length)
  expect(contentDigest(Buffer.from('x'))).toMatch(/^sha-256=:/)
})

test('K02 a request that the edge refuses as a replay is sent again with a new signature', async () => {
  lone.edge.misbehave('claim', {
    status: 401,
    body: { status: 401, code: 'replayed', detail: 'seen before' },
  })
  await stillServes()
})

const REFUSED: readonly (readonly [string, LoneWorker['edge']['alterClaim']])[] = [
  ['P08 other arguments', (claim) => ({ ...claim, args: { text: 'changed after the decision' } })],
  [
    'P08 a swapped plan',
    (claim) => ({
      ...claim,
      plan: { ...claim.plan, executor: { ...claim.plan.executor, argv: ['touch', '/tmp/pwned'] } },
    }),
  ],
  [
    'L1 a grant by a key that was not pinned',
    (claim, grant) => ({ ...claim, grant: sealGrant(grant, stranger) }),
  ],
  [
    'T01 a grant with an additional signature',
    (claim) => ({ ...claim, grant: countersign(claim.grant, stranger) }),
  ],
  [
    'Q03 a grant whose deadline has passed',
    (claim, grant) => ({ ...claim, grant: sealGrant({ ...grant, deadline_ms: 1 }, lone.edge.signer) }),
  ],
]

test.each(REFUSED)('P08 Q03 T01: %s: nothing runs, and the refusal reaches the edge', async (_name, bend) => {
  lone.edge.alterClaim = bend
  const call = await lone.call({ argv: ['echo', 'ran'] })
  const line = await lone.logged('ended', { call: call.call })
  expect(line).toMatchObject({ state: 'failed', code: 'grant_invalid' })
  expect(call.settled?.stdout.byteLength ?? 0).toBe(0)
  await stillServes()
})

test('Q02 a grant for another worker or another call is ignored without a report to the edge', async () => {
  const other = lone.edge.propose({ argv: ['true'] })
  const bends: LoneWorker['edge']['alterClaim'][] = [
    (claim, grant) => ({
      ...claim,
      grant: sealGrant({ ...grant, worker: 'wrk_01JZ0000000000000000000000' }, lone.edge.signer),
    }),
    (claim, grant) => ({
      ...claim,
      grant: sealGrant(lone.edge.grantFor({ ...other, fence: 1 }, grant.worker), lone.edge.signer),
    }),
    (claim) => ({ ...claim, grant: { ...claim.grant, payload: 'e30=' } }),
  ]
  for (const bend of bends) {
    lone.edge.alterClaim = bend
    const call = await lone.call({ argv: ['true'] })
    await lone.logged('the answer to a claim holds no grant for this call and worker', { call: call.call })
    expect(call.settlements).toBe(0)
  }
  await stillServes()
})

test('a refused heartbeat ends no running call: not by overload, by policy, or by one bad_signature', {
  timeout: 60_000,
}, async () => {
  const from = lone.log.length
  const running = await lone.call({ argv: ['sleep', '60'], timeout_ms: 60_000 })
  await eventually('the call runs', () => running.state === 'running')
  for (const [status, code] of [
    [429, 'overloaded'],
    [403, 'denied'],
    [401, 'bad_signature'],
  ] as const)
    lone.edge.misbehave('heartbeat', { status, body: { status, code, detail: 'no' } })
  await lone.logged(
    'the edge refuses heartbeats; running calls continue, no new ones start, and the worker retries',
    { code: 'overloaded' },
    from,
  )
  await lone.logged(
    'the edge does not accept this worker; ask an operator whether it was revoked, or enrol again',
    {},
    from,
  )
  await lone.logged('the edge answers again', {}, from)
  expect(running.settled).toBeUndefined()
  running.cancelled = true
  expect((await lone.settled(running)).statement.predicate.error).toBe('cancelled')
  await stillServes()
})

test('K01 a revoked worker takes no more calls at once, ends running ones after a lease, and serves again once readmitted', {
  timeout: 60_000,
}, async () => {
  const from = lone.log.length
  const running = await lone.call({ argv: ['sleep', '60'], timeout_ms: 60_000 })
  await eventually('the call runs', () => running.state === 'running')
  const beats = lone.edge.count('heartbeat')
  lone.edge.revoked = true
  await lone.logged(
    'the edge does not accept this worker; ask an operator whether it was revoked, or enrol again',
    {},
    from,
  )
  await eventually('three more heartbeats were refused', () => lone.edge.count('heartbeat') >= beats + 3)
  lone.edge.misbehave('heartbeat', { status: 503, body: { status: 503, code: 'overloaded', detail: 'no' } })
  const ended = (): LogLine | undefined =>
    lone.log.slice(from).find(({ msg, call }) => msg === 'ended' && call === running.call)
  // Not `cancelled`
  expect(await eventually('the call is ended', ended, 30_000)).toMatchObject({ code: 'sandbox_failed' })
  // Five refusals; the unanswered heartbeat does not restart the count.
  expect(lone.edge.count('heartbeat') - beats).toBeLessThan(9)
  // Doorbells stay in Redis, except one in transit, for which the edge rings again.
  const calls = [
    await lone.call({ argv: ['true'] }),
    await lone.call({ argv: ['true'] }),
    await lone.call({ argv: ['true'] }),
  ]
  const before = lone.log.length
  lone.edge.revoked = false
  const { predicate } = (await lone.settled(running)).statement
  expect(predicate.execution.outcome).toEqual({
    kind: 'infra',
    detail: 'the edge stopped accepting this worker while the call ran',
  })
  await lone.logged('the edge answers again', {}, before)
  await lone.settled(calls[2] ?? running)
  for (const call of calls) if (call.settled === undefined) await lone.ringFor(call)
  for (const call of calls) expect((await lone.settled(call)).statement.predicate.state).toBe('succeeded')
})
