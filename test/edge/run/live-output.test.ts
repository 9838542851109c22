// Promise: a reader of a call's stream receives its output while the call writes it, its changes of
// state and its end, each once and in order. A reader who starts late or reconnects receives the
// rest, and nothing twice.

import { expect, test } from 'vitest'
import { completeUtf8Length } from '../../../edge/platform/utf8-boundary.ts'
import { LIMITS } from '../../../shared/limits.ts'
import { eventually } from '../../support/eventually.ts'
import { Fixtures, unwrap } from '../../support/fixtures.ts'
import { EventStream } from '../../support/http/event-stream.ts'
import { ended, followCall, joined, outputOf, read } from '../../support/http/followed-call.ts'
import { sharedStack } from '../../support/stack/stack.ts'
import { PeerWorker } from '../../support/worker/peer-worker.ts'

const dev = sharedStack()
const fixtures = new Fixtures('live', dev)
const agent = await fixtures.agent()
const tool = await fixtures.tool({ limits: { output_bytes: LIMITS.output_bytes } })
const sensitive = await fixtures.tool({ capabilities: ['process_exec'] })
const peer = await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool)

type Named = { readonly run: string; readonly id: string }
const propose = async (name = tool) =>
  unwrap(await agent.client('proposeCallInNewRun', { body: { tool: name, args: {} } }))
const cancel = async ({ run, id }: Named) =>
  unwrap(await agent.client('cancelCall', { params: { run, call: id } }))
const follow = (call: Named, lastEventId?: string, key = agent.key) =>
  followCall(fixtures.url, key, call, lastEventId)

async function write(
  call: Named,
  stream: 'stdout' | 'stderr',
  offset: number,
  bytes: Uint8Array | string,
  fence = 1,
) {
  const data = Buffer.from(bytes).toString('base64')
  return unwrap(
    await peer.client('output', { params: { call: call.id }, body: { fence, stream, offset, data } }),
  )
}

const takeEvents = async (stream: EventStream, count: number) => (await stream.take(count, 30_000)).map(read)

test('a stream delivers output and progress before the end of a call, then the cancel and the end, and closes', async () => {
  const call = await propose()
  const stream = await follow(call)
  expect([stream.status, stream.headers.get('content-type'), stream.headers.get('cache-control')]).toEqual([
    200,
    'text/event-stream',
    'no-store',
  ])
  const claim = unwrap(await peer.claim(call.id))
  await write(call, 'stdout', 0, 'line 1\n')
  await stream.take(3, 30_000)
  await write(call, 'stderr', 0, '50 %\n')
  await stream.take(4, 30_000)
  await cancel(call)
  await stream.take(5, 30_000)
  await peer.settle(claim, { outcome: { kind: 'cancelled' }, stdout: 'line 1\nline 2\n', stderr: '50 %\n' })
  await ended(stream)
  expect(stream.events.map(read)).toEqual([
    { event: 'state', state: 'granted', attempt: 0, cancel_requested: false },
    { event: 'state', state: 'running', attempt: 1, cancel_requested: false },
    { event: 'stdout', offset: 0, encoding: 'utf-8', data: 'line 1\n' },
    { event: 'stderr', offset: 0, encoding: 'utf-8', data: '50 %\n' },
    { event: 'state', state: 'running', attempt: 1, cancel_requested: true },
    { event: 'state', state: 'cancelled', attempt: 1, cancel_requested: true },
    { event: 'stdout', offset: 7, encoding: 'utf-8', data: 'line 2\n' },
    expect.objectContaining({
      event: 'end',
      state: 'cancelled',
      ok: false,
      truncated: false,
      error: expect.objectContaining({ code: 'cancelled' }),
    }),
  ])
  expect(stream.events.map(({ id }) => id)).toEqual([
    '0.0.0',
    '1.0.0',
    '1.7.0',
    '1.7.5',
    '1.7.5',
    '1.7.5',
    '1.14.5',
    '1.14.5',
  ])
})

test('a stream resumed at any event, by `Last-Event-ID` or by `after`, delivers everything that follows and nothing twice', async () => {
  const call = await propose()
  const claim = unwrap(await peer.claim(call.id))
  const [out, errors] = ['one\ntwo\nthree\n', 'a\nb\n']
  await write(call, 'stdout', 0, out.slice(0, 8))
  await write(call, 'stderr', 0, errors.slice(0, 2))
  const first = await follow(call)
  await first.take(3, 30_000)
  first.close()
  await peer.settle(claim, { stdout: out, stderr: errors })
  for (const { id } of first.events) {
    const [attempt = '', stdout, stderr] = id.split('.')
    const again = await follow(call, id)
    const byQuery = await EventStream.open(outputOf(fixtures.url, call, id), agent.key)
    await ended(again)
    await ended(byQuery)
    expect(again.events).toEqual(byQuery.events)
    const from =
      attempt === '1' ? { stdout: Number(stdout), stderr: Number(stderr) } : { stdout: 0, stderr: 0 }
    expect(again.events.map(read)).toEqual([
      expect.objectContaining({ event: 'state', state: 'succeeded' }),
      { event: 'stdout', offset: from.stdout, encoding: 'utf-8', data: out.slice(from.stdout) },
      { event: 'stderr', offset: from.stderr, encoding: 'utf-8', data: errors.slice(from.stderr) },
      expect.objectContaining({ event: 'end', ok: true }),
    ])
  }
})

test('a stream delivers the largest stored output in pieces of whole characters, and binary output as base64', async () => {
  const call = await propose()
  const claim = unwrap(await peer.claim(call.id))
  const text = Buffer.from('ä€😀\n'.repeat(LIMITS.output_bytes / 10)).subarray(0, LIMITS.output_bytes - 10)
  const bytes = Buffer.from([0, 0xff, 0xfe, 0xf0])
  const live = await follow(call)
  for (let at = 0; at < text.byteLength; at += 99_991)
    await write(call, 'stdout', at, text.subarray(at, at + 99_991))
  await write(call, 'stderr', 0, bytes)
  await eventually(
    'all but half a character has come',
    () => live.events.at(-1)?.id === `1.${completeUtf8Length(text)}.3`,
    30_000,
  )
  await peer.settle(claim, { stdout: text, stderr: bytes })
  const late = await follow(call)
  for (const stream of [live, late]) {
    await ended(stream)
    expect(joined(stream.events, 'stdout').equals(text)).toBe(true)
    expect(joined(stream.events, 'stderr')).toEqual(bytes)
    const pieces = stream.events.filter(({ event }) => event === 'stdout').map(read)
    expect(Math.max(...pieces.map(({ data }) => Buffer.byteLength(String(data))))).toBeLessThanOrEqual(
      LIMITS.output_piece_bytes,
    )
    expect(pieces.slice(0, -1).every(({ encoding }) => encoding === 'utf-8')).toBe(true)
  }
})

test('a text that is cut anywhere loses at most the character at the cut', () => {
  const text = 'aä€😀z'
  const bytes = Buffer.from(text)
  for (let end = 0; end <= bytes.byteLength; end++) {
    const whole = completeUtf8Length(bytes.subarray(0, end))
    expect(text.startsWith(bytes.subarray(0, whole).toString())).toBe(true)
    expect(end - whole).toBeLessThan(4)
  }
  expect(
    [[0x80, 0x80, 0x80, 0x80], [0xff], [0xc3], [0xf0, 0x9f, 0x98]].map((odd) =>
      completeUtf8Length(Uint8Array.from(odd)),
    ),
  ).toEqual([4, 0, 0, 0])
})

test('the stream of a call that never ran reports what it waits for, and that it was denied, rejected or cancelled', async () => {
  const call = await fixtures.proposeForApproval(agent.client, sensitive)
  const stream = await follow(call)
  expect(await takeEvents(stream, 1)).toEqual([
    { event: 'state', state: 'awaiting_approval', attempt: 0, cancel_requested: false },
  ])
  unwrap(
    await fixtures.root('answerApproval', {
      params: { id: call.approval.id },
      body: { decision: 'deny', reason: 'not today' },
    }),
  )
  await ended(stream)
  expect(stream.events.map(read).at(-1)).toMatchObject({
    event: 'end',
    state: 'rejected',
    error: { detail: 'not today' },
  })
  const waiting = await propose()
  const other = await follow(waiting)
  await other.take(1, 30_000)
  await cancel(waiting)
  await ended(other)
  expect(other.events.map(read).at(-1)).toMatchObject({ event: 'end', state: 'cancelled', exit_code: null })
})

test('permitted operators can follow the calls of every agent; another agent and a revoked key get nothing', async () => {
  const call = await propose()
  const claim = unwrap(await peer.claim(call.id))
  await write(call, 'stdout', 0, 'for the agent and the auditor\n')
  const [auditor, nobody, stranger] = [
    await fixtures.operator(['auditor']),
    await fixtures.operator([]),
    await fixtures.agent(),
  ]
  expect([
    (await follow(call, undefined, nobody.key)).status,
    (await follow(call, undefined, stranger.key)).status,
  ]).toEqual([403, 404])
  const odd = await fetch(outputOf(fixtures.url, call, '1.2'), {
    headers: { authorization: `Bearer ${agent.key}` },
  })
  expect([odd.status, ((await odd.json()) as { code: string }).code]).toEqual([400, 'invalid_request'])
  const watched = await follow(call, undefined, auditor.key)
  expect((await takeEvents(watched, 2)).at(-1)).toMatchObject({
    event: 'stdout',
    data: 'for the agent and the auditor\n',
  })
  unwrap(await fixtures.root('deleteOperator', { params: { name: auditor.name } }))
  await write(call, 'stdout', 30, 'for the agent alone\n')
  await ended(watched)
  expect(watched.events).toHaveLength(2)
  await peer.settle(claim)
})

test('a principal with too many open streams of a run can open another one after closing one', async () => {
  const call = await propose()
  unwrap(await peer.claim(call.id))
  const streams = [await follow(call)]
  for (let more = 1; more < LIMITS.streams_each; more++) streams.push(await follow(call))
  expect(streams.map(({ status }) => status)).toEqual(streams.map(() => 200))
  const refused = await fetch(outputOf(fixtures.url, call), {
    headers: { authorization: `Bearer ${agent.key}` },
  })
  expect([refused.status, ((await refused.json()) as { code: string }).code]).toEqual([
    429,
    'too_many_streams',
  ])
  expect((await follow(call, undefined, fixtures.rootKey)).status).toBe(200)
  streams.pop()?.close()
  let written = 0
  const open = async () => {
    written = (await write(call, 'stdout', written, '.')).next // the edge notices a closed connection when it writes to it
    const again = await follow(call)
    streams.push(again)
    return again.status === 200
  }
  await eventually('one may be opened again', open, 40_000)
  await cancel(call)
  for (const stream of streams) stream.close()
})
