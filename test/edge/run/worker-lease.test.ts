// A worker holds a call as long as it sends heartbeats, and until the deadline of its grant. A
// worker that stops reporting loses the call, which then ends as indeterminate (L2).

import { expect, test } from 'vitest'
import { LIMITS } from '../../../shared/limits.ts'
import { eventually } from '../../support/eventually.ts'
import { Fixtures, refusalOf, unwrap } from '../../support/fixtures.ts'
import { ended, followCall, read as told } from '../../support/http/followed-call.ts'
import { sharedStack } from '../../support/stack/stack.ts'
import { grantOf, PeerWorker } from '../../support/worker/peer-worker.ts'

const fixtures = new Fixtures('lease', sharedStack())
const agent = await fixtures.agent()
const [plain, again, short] = [
  await fixtures.tool(),
  await fixtures.tool({ idempotent: true }),
  await fixtures.tool({ limits: { timeout_ms: 1 } }),
]
const [peer, other] = [
  await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool),
  await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool),
]

const WITHIN = 2 * LIMITS.lease_ms
const propose = async (tool: string) =>
  unwrap(await agent.client('proposeCallInNewRun', { body: { tool, args: {} } }))
const read = async ({ run, id }: { run: string; id: string }) =>
  unwrap(await agent.client('readCall', { params: { run, call: id } }))
const beat = async (...calls: { id: string; fence?: number }[]) =>
  unwrap(
    await peer.client('heartbeat', {
      body: { tiers: ['B', 'C'], running: calls.map(({ id, fence = 1 }) => ({ call: id, fence })) },
    }),
  ).stop

test.concurrent('a call ends indeterminate without heartbeats or at its deadline, goes on with them, and is repeated if idempotent', {
  timeout: 60_000,
}, async () => {
  const [silent, spoken, late, retried] = [
    await propose(plain),
    await propose(plain),
    await propose(short),
    await propose(again),
  ]
  const claims = new Map(
    await Promise.all(
      [silent, spoken, late, retried].map(async ({ id }) => [id, unwrap(await peer.claim(id))] as const),
    ),
  )
  const claimOf = (id: string) => claims.get(id) ?? expect.fail('it was claimed')
  const started = Date.now()

  await eventually(
    'silent and late calls are given up',
    async () => {
      expect(await beat(spoken, late)).not.toContain(spoken.id)
      const states = await Promise.all([silent, late, retried].map(async (call) => (await read(call)).state))
      return states[0] === 'indeterminate' && states[1] === 'indeterminate' && states[2] === 'granted'
    },
    WITHIN,
  )
  expect(Date.now() - started).toBeGreaterThan(LIMITS.lease_ms - 1_000)
  for (const call of [silent, late]) {
    expect(await read(call)).toMatchObject({
      result: { ok: false, error: { code: 'worker_lost' } },
      attestation: { executor: 'edge' },
    })
    expect(refusalOf(await peer.settle(claimOf(call.id)))).toMatch(/^409 (stale_fence|already_ended)$/)
    expect(await beat(call)).toEqual([call.id])
  }
  expect(Date.now()).toBeGreaterThan(grantOf(claimOf(late.id).grant).deadline_ms)

  expect((await read(spoken)).state).toBe('running')
  unwrap(await peer.settle(claimOf(spoken.id)))
  expect((await read(spoken)).state).toBe('succeeded')

  // Q05: the worker that was taken for lost reports again, after another one has got the call.
  expect(refusalOf(await peer.settle(claimOf(retried.id)))).toBe('409 stale_fence')
  const second = unwrap(await other.claim(retried.id))
  expect(grantOf(second.grant)).toMatchObject({ fence: 2, worker: other.id })
  expect(refusalOf(await peer.settle(claimOf(retried.id)))).toBe('409 stale_fence')
  expect(await beat({ id: retried.id, fence: 1 }, { id: retried.id, fence: 2 })).toEqual([
    retried.id,
    retried.id,
  ])
  unwrap(await other.settle(second, { stdout: 'the second time' }))
  expect(await read(retried)).toMatchObject({ state: 'succeeded', result: { output: 'the second time' } })
  const kinds = unwrap(await agent.client('readJournal', { params: { run: retried.run } })).items.map(
    ({ kind }) => kind,
  )
  expect(kinds).toEqual(['allowed', 'claimed', 'worker_lost', 'claimed', 'succeeded'])
})

test.concurrent('heartbeats of a revoked worker are refused, and its call ends indeterminate', {
  timeout: 60_000,
}, async () => {
  const leaving = await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool)
  const call = await propose(plain)
  const claim = unwrap(await leaving.claim(call.id))
  unwrap(await fixtures.root('revokeWorker', { params: { worker: leaving.id } }))
  expect(refusalOf(await leaving.settle(claim))).toBe('401 bad_signature')
  expect(refusalOf(await other.settle(claim))).toMatch(/^(409 stale_fence|422 attestation_invalid)$/)
  await eventually('the call is given up', async () => (await read(call)).state === 'indeterminate', WITHIN)
})

test.concurrent('L2 the streamed output of a lost worker is dropped, and a repeated call streams from its beginning', {
  timeout: 60_000,
}, async () => {
  const write = (call: string, fence: number, text: string) =>
    peer.client('output', {
      params: { call },
      body: { fence, stream: 'stdout', offset: 0, data: Buffer.from(text).toString('base64') },
    })
  const follow = (call: { run: string; id: string }, at?: string) =>
    followCall(fixtures.url, agent.key, call, at)
  const [lost, retried] = [await propose(plain), await propose(again)]
  for (const { id } of [lost, retried]) {
    unwrap(await peer.claim(id))
    unwrap(await write(id, 1, 'of a worker that falls silent\n'))
  }
  const [dropped, begun] = [await follow(lost), await follow(retried)]
  await begun.take(2, WITHIN)
  await ended(dropped)
  expect(dropped.events.map(told)).toMatchObject([
    { event: 'state', state: 'running' },
    { event: 'stdout', data: 'of a worker that falls silent\n' },
    { event: 'state', state: 'indeterminate' },
    { event: 'end', state: 'indeterminate', error: { code: 'worker_lost' } },
  ])
  const late = await follow(lost)
  await ended(late)
  expect(late.events.map(({ event }) => event)).toEqual(['state', 'end'])
  expect(refusalOf(await write(lost.id, 1, 'too late'))).toBe('409 stale_fence')

  await eventually(
    'it waits for another worker',
    async () => (await read(retried)).state === 'granted',
    WITHIN,
  )
  await begun.take(3, WITHIN)
  const claim = unwrap(await other.claim(retried.id))
  unwrap(
    await other.client('output', {
      params: { call: retried.id },
      body: { fence: 2, stream: 'stdout', offset: 0, data: 'dHdv' },
    }),
  )
  await begun.take(5, WITHIN)
  unwrap(await other.settle(claim, { stdout: 'two' }))
  const resumed = await follow(retried, begun.events[1]?.id)
  await ended(begun)
  await ended(resumed)
  expect(begun.events.map(told)).toMatchObject([
    { event: 'state', state: 'running', attempt: 1 },
    { event: 'stdout', offset: 0, data: 'of a worker that falls silent\n' },
    { event: 'state', state: 'granted', attempt: 1 },
    { event: 'state', state: 'running', attempt: 2 },
    { event: 'stdout', offset: 0, data: 'two' },
    { event: 'state', state: 'succeeded', attempt: 2 },
    { event: 'end', ok: true },
  ])
  expect(resumed.events.map(told)).toMatchObject([
    { state: 'succeeded', attempt: 2 },
    { event: 'stdout', offset: 0, data: 'two' },
    { ok: true },
  ])
})
