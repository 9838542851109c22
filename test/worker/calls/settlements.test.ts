// No result is lost between the worker and the edge, whatever fails and whenever, and none is
// invented.

import { appendFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { sha256 } from '../../../shared/bytes/json.ts'
import { seal } from '../../../shared/evidence/dsse.ts'
import { STATEMENT_TYPE } from '../../../shared/evidence/statement.ts'
import { SPOOL_BOUNDS } from '../../../worker/calls/spool.ts'
import { eventually } from '../../support/eventually.ts'
import { type FakeCall, newSigner } from '../../support/worker/fake-edge.ts'
import { loneWorkerForTests } from '../../support/worker/lone-worker.ts'

const lone = await loneWorkerForTests()

const LOST =
  'calls were lost when their worker process died; the edge ends each as indeterminate, or grants it again if its tool is idempotent'
const busy = { status: 503, body: { status: 503, code: 'overloaded', detail: 'busy' } }
const YES_FOR_ANOTHER = {
  status: 200,
  body: {
    call: 'call_01JZ0000000000000000000000_1',
    state: 'succeeded',
    attestation: seal(STATEMENT_TYPE, {}, newSigner()),
  },
}
const endsOf = async ({ call }: FakeCall): Promise<number> => {
  await lone.logged('ended', { call })
  return lone.log.filter((line) => line.msg === 'ended' && line['call'] === call).length
}
const spoolIsEmpty = (): Promise<true> =>
  eventually('no result is waiting', () => lone.spool.settled.size === 0)

test.each([
  ['answers 503', busy, false],
  ['answers 500', { status: 500, body: { status: 500, code: 'internal', detail: 'a bug' } }, false],
  ['cuts the connection before it reads', 'cut', false],
  ['cuts the connection after it has stored the result', 'cut', true],
  ['sits behind a proxy that answers in HTML', 'html', false],
  [
    'sits behind a proxy that answers 200 to everything',
    { status: 200, body: { status: 'maintenance' } },
    false,
  ],
  ['sits behind a proxy that answers 200 for another call', YES_FOR_ANOTHER, false],
  ['sits behind a proxy that answers in HTML after it has stored the result', 'html', true],
] as const)('a result is settled once by an edge that %s', async (_name, reply, after) => {
  lone.edge.misbehave('settle', reply, { after, times: 3 })
  const call = await lone.call({ argv: ['echo', 'kept'] })
  expect((await lone.settled(call)).stdout.toString()).toBe('kept\n')
  await spoolIsEmpty()
  expect(await endsOf(call)).toBe(1)
})

test.each([
  ['answers 503', busy, false],
  ['cuts the connection before it grants', 'cut', false],
  ['cuts the connection after it has granted', 'cut', true],
  ['sits behind a proxy that answers 200 to everything', { status: 200, body: {} }, true],
] as const)('a call is claimed and run once from an edge that %s', async (_name, reply, after) => {
  lone.edge.misbehave('claim', reply, { after, times: 3 })
  const call = await lone.call({ argv: ['true'] })
  expect((await lone.settled(call)).statement.predicate.state).toBe('succeeded')
  expect(await endsOf(call)).toBe(1)
  expect(call.settlements).toBe(1)
})

test.each([
  ['attestation_invalid', 422],
  ['invalid_request', 400],
  ['body_too_large', 413],
])(
  'L5 a result that the edge can’t read (%s) is sent again with its ending alone, and logged',
  async (code, status) => {
    lone.edge.misbehave('settle', { status, body: { status, code, detail: 'no' } })
    const call = await lone.call({ argv: ['sh', '-c', 'echo lost; exit 3'] })
    const { statement, stdout } = await lone.settled(call)
    expect(statement.predicate).toMatchObject({
      state: 'failed',
      error: 'runtime_failure',
      execution: { outcome: { kind: 'exit', code: 3 } },
    })
    expect(statement.predicate.execution.stdout).toEqual({
      bytes: 5,
      sha256: sha256('lost\n'),
      kept: 0,
      truncated: true,
    })
    expect(stdout.byteLength).toBe(0)
    await lone.logged('the edge refused the full result of a call and accepted its ending alone', {
      call: call.call,
      code,
      status,
    })
    await spoolIsEmpty()
  },
)

test.each([
  ['attestation_invalid', 422, 2],
  ['already_ended', 409, 1],
  ['link_invalid', 410, 1],
])('a result that the edge finally refuses (%s) is dropped and logged', async (code, status, times) => {
  lone.edge.misbehave('settle', { status, body: { status, code, detail: 'no' } }, { times })
  const call = await lone.call({ argv: ['echo', 'lost'] })
  await lone.logged('the edge refused a result; it is dropped', { call: call.call, code, status })
  await spoolIsEmpty()
  expect(call.settled).toBeUndefined()
})

test('while the edge is away a result waits in the spool; afterwards it is sent before new claims, and no call is claimed twice', async () => {
  const running = await lone.call({ argv: ['sleep', '1'] })
  await eventually('the call runs', () => running.state === 'running')
  await lone.edge.stop()
  const from = lone.log.length
  await lone.logged('ended', { call: running.call, result: 'waiting' }, from)
  expect(lone.spool.settled.has(running.call)).toBe(true)
  const rung = await lone.call({ argv: ['true'] })
  await lone.logged('the edge does not answer; running calls continue, and the worker retries', {}, from)
  await lone.edge.start()
  expect((await lone.settled(running)).statement.predicate.state).toBe('succeeded')
  expect((await lone.settled(rung)).statement.predicate.state).toBe('succeeded')
  await lone.logged('the edge answers again', {}, from)
  await spoolIsEmpty()
  expect([running.settlements, rung.settlements]).toEqual([1, 1])
})

test('after kill -9 an unacknowledged result is sent by the next worker process before anything else', async () => {
  lone.edge.misbehave('settle', busy, { times: 1_000 })
  const call = await lone.call({ argv: ['echo', 'survives'] })
  await lone.logged('ended', { call: call.call, result: 'waiting' })
  await lone.process.kill()
  expect(lone.spool.settled.has(call.call)).toBe(true)
  lone.edge.behave()
  const from = lone.edge.requests.length
  await lone.start()
  const { statement, stdout } = await lone.settled(call)
  expect([statement.predicate.state, stdout.toString()]).toEqual(['succeeded', 'survives\n'])
  await spoolIsEmpty()
  const routes = lone.edge.requests.slice(from).map(({ route }) => route)
  expect(routes.filter((route) => route === 'claim' || route === 'settle')[0]).toBe('settle')
})

test('L2 after kill -9 during a call the next worker process does not run it again, even with the same grant', async () => {
  const call = await lone.call({ argv: ['sleep', '30'], timeout_ms: 60_000 })
  await eventually('the process was begun', () => lone.spool.begun.get(call.call) === 1)
  const from = lone.log.length
  await lone.process.restart()
  const lost = await lone.logged(LOST, { calls: 1 }, from)
  expect(lost['first']).toEqual([call.call])
  await lone.ringFor(call)
  await lone.logged(
    'a doorbell was ignored',
    { call: call.call, reason: 'this worker already started it' },
    from,
  )
  expect(call.claims).toBeGreaterThan(1)
  expect(lone.log.some((line) => line.msg === 'ended' && line['call'] === call.call)).toBe(false)
  expect(call.settlements).toBe(0)
})

test('D15 calls lost with a worker are summarised in one warning at its next start and never again', async () => {
  const calls = await Promise.all(
    [1, 2, 3].map(() => lone.call({ argv: ['sleep', '30'], timeout_ms: 60_000 })),
  )
  await eventually('all were begun', () => calls.every(({ call }) => lone.spool.begun.get(call) === 1))
  const from = lone.log.length
  await lone.process.restart()
  const lost = await lone.logged(LOST, {}, from)
  expect([lost['calls'], [...(lost['first'] as string[])].sort()]).toEqual([
    3,
    calls.map(({ call }) => call).sort(),
  ])
  const then = lone.log.length
  await lone.process.restart()
  await lone.logged('ready', {}, then)
  const warnings = lone.log
    .slice(from)
    .filter((line) => JSON.stringify(line).includes(calls[0]?.call ?? '') && line.level === 'warn')
  expect(warnings).toEqual([lost])
})

test('a worker with a full spool takes no doorbell until the edge has accepted the spooled results', async () => {
  lone.edge.misbehave(
    'settle',
    { status: 500, body: { status: 500, code: 'internal', detail: 'a bug' } },
    { times: 1_000_000 },
  )
  const call = await lone.call({ argv: ['true'] })
  await lone.logged('ended', { call: call.call, result: 'waiting' })
  await lone.process.kill()
  const settled = lone.spool.settled.get(call.call)
  const others = Array.from({ length: SPOOL_BOUNDS.settlements - 1 }, (_, n) =>
    call.call.replace(/_1$/, `_${n + 2}`),
  )
  const lines = others.map((other) => `${JSON.stringify({ settled: { ...settled, call: other } })}\n`)
  appendFileSync(join(lone.state.worker, 'spool/journal'), lines.join(''))
  const [from, settles] = [lone.edge.count('claim'), lone.edge.count('settle')]
  await lone.start()
  const waiting = await lone.call({ argv: ['true'] })
  await eventually(
    'the whole spool was offered, and a part of it again',
    () => lone.edge.count('settle') > settles + 1.1 * SPOOL_BOUNDS.settlements,
    60_000,
  )
  expect(lone.edge.count('claim')).toBe(from)
  lone.edge.behave()
  expect((await lone.settled(waiting, 60_000)).statement.predicate.state).toBe('succeeded')
  await spoolIsEmpty()
})

test('J03 a worker follows an edge’s clock that is an hour off', async () => {
  for (const ahead_ms of [3_600_000, -3_600_000]) {
    lone.edge.ahead_ms = ahead_ms
    const call = await lone.call({ argv: ['true'] })
    const { statement } = await lone.settled(call)
    expect(statement.predicate.state).toBe('succeeded')
    const { started_at_ms, ended_at_ms } = statement.predicate.execution
    expect(Math.abs(ended_at_ms - lone.edge.now())).toBeLessThan(5_000)
    expect(started_at_ms ?? 0).toBeLessThanOrEqual(ended_at_ms)
  }
  lone.edge.ahead_ms = 0
})
