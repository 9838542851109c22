// The worker's client for the edge: connections stay open, each request has a new signature,
// idempotent requests are retried, and none waits for ever.

import { generateKeyPairSync } from 'node:crypto'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type PrivateJwk, signerFromJwk } from '../../../shared/evidence/dsse.ts'
import { type EdgeLink, openEdgeLink, openUnsignedLink } from '../../../worker/link/client.ts'
import { eventually } from '../../support/eventually.ts'
import { FakeEdge } from '../../support/worker/fake-edge.ts'

// Ed25519.
const signer = signerFromJwk(
  generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' }) as PrivateJwk,
)
const WITHIN_MS = 500
const beat = { body: { tiers: [], running: [] } }
const busy = { status: 503, body: { status: 503, code: 'overloaded', detail: 'busy' } }

let edge: FakeEdge
let link: EdgeLink
beforeEach(async () => {
  edge = new FakeEdge()
  await edge.start()
  const open = openUnsignedLink(edge.url)
  const enrolled = await open.ask('enrol', {
    body: { token: edge.token, x: signer.x, name: 'tester', tiers: [] },
  })
  open.close()
  if (!enrolled.ok) throw new Error(enrolled.error.detail)
  const { worker, tenant } = enrolled.value
  link = openEdgeLink(edge.url, { worker, tenant, signer }, WITHIN_MS)
})
afterEach(async () => {
  link.close()
  await edge.stop()
})

test('successive requests to the edge use one connection', async () => {
  const before = edge.connections
  for (let count = 0; count < 20; count++) expect((await link.request('heartbeat', beat)).ok).toBe(true)
  expect(edge.connections).toBe(before + 1)
})

test('an idle connection that the edge closed is replaced without an error', async () => {
  expect((await link.request('heartbeat', beat)).ok).toBe(true)
  await edge.stop()
  await edge.start()
  expect((await link.request('heartbeat', beat)).ok).toBe(true)
})

test.each([
  ['does not answer', 'hang'],
  ['cuts the connection', 'cut'],
  ['answers in HTML', 'html'],
  ['answers without end', { status: 200, body: 'x'.repeat(5 * 1024 * 1024) }],
  ['answers JSON that is no problem document', { status: 502, body: { error: 'no upstream' } }],
  ['answers `null`', { status: 500, body: null }],
  ['answers 200 with `null`', { status: 200, body: null }],
  ['answers 200 with a body of another service', { status: 200, body: { status: 'maintenance' } }],
  ['answers 200 without its clock', { status: 200, body: { stop: [], now_ms: null } }],
] as const)(
  'an edge that %s counts as unreachable, and the client returns an error value',
  async (_name, reply) => {
    edge.misbehave('heartbeat', reply, { times: 2 })
    const started = performance.now()
    expect(await link.request('heartbeat', beat)).toMatchObject({
      ok: false,
      error: { status: 0, code: 'unavailable' },
    })
    expect(performance.now() - started).toBeLessThan(5 * WITHIN_MS)
  },
)

test('an answer of a newer edge with unknown fields is accepted', async () => {
  edge.misbehave('heartbeat', { status: 200, body: { stop: [], now_ms: 7, more: 'of a later version' } })
  expect(await link.request('heartbeat', beat)).toMatchObject({ ok: true, value: { now_ms: 7 } })
})

test('a request is retried while a retry may help, each time with a new signature', async () => {
  edge.misbehave('heartbeat', busy, { times: 3 })
  const answer = await link.requestUntilFinal('heartbeat', beat, {
    patience_ms: 10_000,
    signal: new AbortController().signal,
  })
  expect(answer.ok).toBe(true)
  const nonces = edge.requests.flatMap(({ route, headers }) =>
    route === 'heartbeat' ? [String(headers['signature-input'])] : [],
  )
  expect(new Set(nonces).size).toBe(4)
})

test('retries end at the time limit, when aborted, and at a final refusal', async () => {
  edge.misbehave('heartbeat', busy, { times: 1_000 })
  const never = new AbortController().signal
  expect(await link.requestUntilFinal('heartbeat', beat, { patience_ms: 200, signal: never })).toMatchObject({
    ok: false,
    error: { code: 'overloaded' },
  })
  const stop = new AbortController()
  const asking = link.requestUntilFinal('heartbeat', beat, { patience_ms: 60_000, signal: stop.signal })
  stop.abort()
  expect(await asking).toMatchObject({ ok: false, error: { code: 'overloaded' } })
  const requests = edge.count('heartbeat')
  expect(
    await link.requestUntilFinal('heartbeat', beat, { patience_ms: 60_000, signal: stop.signal }),
  ).toMatchObject({
    ok: false,
    error: { status: 0 },
  })
  expect(edge.count('heartbeat')).toBe(requests)
  edge.behave()
  edge.revoked = true
  const before = edge.count('heartbeat')
  expect(
    await link.requestUntilFinal('heartbeat', beat, { patience_ms: 60_000, signal: never }),
  ).toMatchObject({
    ok: false,
    error: { status: 401 },
  })
  expect(edge.count('heartbeat')).toBe(before + 1)
})

test('D9 K02 nonces begin with the edge’s latest epoch, even if the same answer refuses the worker’s clock', async () => {
  const stale = {
    status: 401,
    body: { status: 401, code: 'stale_epoch', detail: 'restarted', epoch: 'EPOCH-0123456789' },
  }
  edge.misbehave('heartbeat', stale, { times: 1 })
  edge.ahead_ms = 7_200_000
  expect((await link.request('heartbeat', beat)).ok).toBe(true)
  const inputs = edge.requests.flatMap(({ route, headers }) =>
    route === 'heartbeat' ? [String(headers['signature-input'])] : [],
  )
  expect(inputs.map((input) => /nonce="EPOCH-0123456789[A-Za-z0-9_-]{24}"/.test(input))).toEqual([
    false,
    true,
    true,
  ])
})

test('the worker ignores an epoch that can’t begin a nonce', async () => {
  for (const epoch of ['x'.repeat(33), 'a"b', '', 7, null]) {
    edge.misbehave('heartbeat', {
      status: 401,
      body: { status: 401, code: 'stale_epoch', detail: 'restarted', epoch },
    })
    expect(await link.request('heartbeat', beat)).toMatchObject({ ok: false, error: { code: 'stale_epoch' } })
    expect((await link.request('heartbeat', beat)).ok).toBe(true)
  }
})

test('J03 the first refusal for a wrong clock corrects the worker’s clock, and a heartbeat makes it precise', async () => {
  edge.ahead_ms = 7_200_000
  const sentAt = link.clock.mark()
  const answer = await link.request('heartbeat', beat)
  expect(answer.ok).toBe(true)
  expect(Math.abs(link.clock.now() - edge.now())).toBeLessThan(1_500)
  if (answer.ok) link.clock.learn(answer.value.now_ms, sentAt)
  await eventually('the clock fits', async () => {
    const mark = link.clock.mark()
    const next = await link.request('heartbeat', beat)
    if (next.ok) link.clock.learn(next.value.now_ms, mark)
    return Math.abs(link.clock.now() - edge.now()) < 50
  })
})
