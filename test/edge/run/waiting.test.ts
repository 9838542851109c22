// Waiting for a call by `Prefer: wait` or by the event stream: never longer than requested, without
// gaps and without repetitions.

import { afterEach, expect, test } from 'vitest'
import { GENESIS, JournalEntry, verifyChain } from '../../../shared/evidence/journal.ts'
import { Fixtures, unwrap } from '../../support/fixtures.ts'
import { EventStream } from '../../support/http/event-stream.ts'
import { sharedStack } from '../../support/stack/stack.ts'
import { PeerWorker } from '../../support/worker/peer-worker.ts'

const fixtures = new Fixtures('waiting', sharedStack())
const agent = await fixtures.agent()
const tool = await fixtures.tool()
const sensitive = await fixtures.tool({ capabilities: ['network'] })
const peer = await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool)

const streams: EventStream[] = []
afterEach(() => {
  for (const stream of streams.splice(0)) stream.close()
})
const openStream = async (run: string, lastEventId?: string): Promise<EventStream> => {
  const stream = await EventStream.open(
    new URL(`/v1/runs/${run}/events`, fixtures.url),
    agent.key,
    lastEventId,
  )
  streams.push(stream)
  return stream
}
const propose = (name = tool, wait?: number, run?: string) =>
  run === undefined
    ? agent.client('proposeCallInNewRun', {
        body: { tool: name, args: {} },
        ...(wait === undefined ? {} : { wait }),
      })
    : agent.client('proposeCall', { params: { run }, body: { tool: name, args: {} } })
const timed = async <T>(work: Promise<T>): Promise<[T, number]> => {
  const started = performance.now()
  return [await work, performance.now() - started]
}

test('without a wait the answer comes at once, with 202 until the call has ended', async () => {
  const answer = await fetch(new URL('/v1/calls', fixtures.url), {
    method: 'POST',
    headers: { authorization: `Bearer ${agent.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ tool, args: {} }),
  })
  expect([answer.status, ((await answer.json()) as { state: string }).state]).toEqual([202, 'granted'])
})

test('a wait ends early when the call ends', async () => {
  const call = unwrap(await propose())
  const waiting = timed(agent.client('readCall', { params: { run: call.run, call: call.id }, wait: 30 }))
  await peer.run(call.id, { stdout: 'done' })
  const [read, ms] = await waiting
  expect(unwrap(read)).toMatchObject({ state: 'succeeded', result: { output: 'done' } })
  expect(ms).toBeLessThan(10_000)
})

test('a wait ends after its time, and the call goes on', async () => {
  for (const name of [tool, sensitive]) {
    const [call, ms] = await timed(propose(name, 1))
    expect(unwrap(call).ended_at_ms).toBeUndefined()
    expect(ms).toBeGreaterThan(950)
    expect(ms).toBeLessThan(5_000)
  }
})

test('a denied call is returned without waiting', async () => {
  const narrow = await fixtures.agent({ tools: [] })
  const [call, ms] = await timed(narrow.client('proposeCallInNewRun', { body: { tool, args: {} }, wait: 30 }))
  expect([unwrap(call).state, ms < 5_000]).toEqual(['denied', true])
})

test('a hundred waiters of one call all receive its end', async () => {
  const call = unwrap(await propose())
  const waiting = Array.from({ length: 100 }, () =>
    agent.client('readCall', { params: { run: call.run, call: call.id }, wait: 30 }),
  )
  await peer.run(call.id)
  for (const read of await Promise.all(waiting)) expect(unwrap(read).state).toBe('succeeded')
})

test('a malformed `Prefer: wait` does not wait', async () => {
  const call = unwrap(await propose())
  for (const prefer of [
    'wait=-5',
    'wait=x',
    'wait=',
    'wait',
    'waiting=30',
    'respond-async',
    'wait=1e2',
    'wait=30s',
    '',
  ]) {
    const [read, ms] = await timed(
      agent.client('readCall', { params: { run: call.run, call: call.id }, headers: { prefer } }),
    )
    expect([prefer, unwrap(read).state, ms < 2_000]).toEqual([prefer, 'granted', true])
  }
  for (const prefer of ['wait=1', 'respond-async, wait=1', 'wait=1; foo', 'return=minimal,wait=1']) {
    const [, ms] = await timed(
      agent.client('readCall', { params: { run: call.run, call: call.id }, headers: { prefer } }),
    )
    expect([prefer, ms > 950]).toEqual([prefer, true])
  }
})

test('the event stream is the journal: ids without gaps, whole entries, a valid hash chain', async () => {
  const run = unwrap(await agent.client('createRun', { body: {} }))
  const stream = await openStream(run.id)
  expect([
    stream.status,
    stream.headers.get('content-type'),
    stream.headers.get('cache-control'),
    stream.headers.get('x-accel-buffering'),
  ]).toEqual([200, 'text/event-stream', 'no-store', 'no'])
  for (let i = 0; i < 5; i++) await peer.run(unwrap(await propose(tool, undefined, run.id)).id)
  const events = await stream.take(15)
  expect(events.map(({ id }) => Number(id))).toEqual(Array.from({ length: 15 }, (_, i) => i + 1))
  expect(events.slice(0, 3).map(({ event }) => event)).toEqual(['allowed', 'claimed', 'succeeded'])
  const entries = events.map(({ data }) => JournalEntry.parse(JSON.parse(data)))
  expect(verifyChain(entries)).toMatchObject({ ok: true, value: { seq: 15 } })
  expect(entries).toEqual(unwrap(await agent.client('readJournal', { params: { run: run.id } })).items)
})

test('an event stream resumes after the last event seen, without a gap or a repetition', async () => {
  const run = unwrap(await agent.client('createRun', { body: {} }))
  for (let i = 0; i < 4; i++) await peer.run(unwrap(await propose(tool, undefined, run.id)).id)
  for (const last of [0, 1, 5, 11]) {
    const stream = await openStream(run.id, String(last))
    const events = await stream.take(12 - last)
    expect(events.map(({ id }) => Number(id))).toEqual(
      Array.from({ length: 12 - last }, (_, i) => last + 1 + i),
    )
  }
  const caughtUp = await openStream(run.id, '12')
  await peer.run(unwrap(await propose(tool, undefined, run.id)).id)
  expect((await caughtUp.take(3)).map(({ id }) => id)).toEqual(['13', '14', '15'])
})

test('a reader whose event stream is cut and resumed many times sees each event once', async () => {
  const run = unwrap(await agent.client('createRun', { body: {} }))
  const writing = (async () => {
    for (let i = 0; i < 20; i++) await peer.run(unwrap(await propose(tool, undefined, run.id)).id)
  })()
  const seen: number[] = []
  while (seen.length < 60) {
    const stream = await openStream(run.id, String(seen.at(-1) ?? 0))
    await stream.take(1)
    stream.close()
    seen.push(...stream.events.map(({ id }) => Number(id)))
  }
  await writing
  expect(seen).toEqual(Array.from({ length: 60 }, (_, i) => i + 1))
})

test.each(['-1', 'abc', '1.5', '', '1e1', '99999999999', '3; x'])(
  'an event stream with a malformed `Last-Event-ID` starts from the beginning: `%s`',
  async (last) => {
    const run = unwrap(await agent.client('createRun', { body: {} }))
    unwrap(await propose(tool, undefined, run.id))
    const [first] = await (await openStream(run.id, last)).take(1)
    expect(first?.id).toBe('1')
  },
)

test('a line break in an agent’s text breaks no event', async () => {
  const run = unwrap(await agent.client('createRun', { body: { session: 'a' } }))
  const body = { tool, args: { text: 'a\n\nid: 99\nevent: forged\ndata: {}\n\n' } }
  unwrap(await agent.client('proposeCall', { params: { run: run.id }, body }))
  const stream = await openStream(run.id)
  await stream.take(1)
  unwrap(await agent.client('cancelRun', { params: { run: run.id } }))
  expect((await stream.take(3)).map(({ event }) => event)).toEqual(['allowed', 'cancelled', 'run_cancelled'])
})

test('the journal is read in pages, and the hashes link each page to the one before', async () => {
  const open = await fixtures.agent({ budget: { max_calls_per_run: 1_000 } })
  const many = unwrap(await open.client('createRun', { body: {} }))
  await Promise.all(
    Array.from({ length: 520 }, () =>
      open.client('proposeCall', { params: { run: many.id }, body: { tool, args: {} } }),
    ),
  )
  let head = GENESIS
  while (head.seq < 520) {
    const { items } = unwrap(
      await open.client('readJournal', { params: { run: many.id }, query: { after: head.seq } }),
    )
    expect(items.length).toBeGreaterThan(0)
    const next = verifyChain(items, head)
    if (!next.ok) expect.fail(next.error.reason)
    head = next.value
  }
  const { journal } = unwrap(await open.client('readRun', { params: { run: many.id } }))
  expect(head).toEqual({ seq: journal.seq, hash: journal.head })
  expect(journal.seq).toBe(520)
})
