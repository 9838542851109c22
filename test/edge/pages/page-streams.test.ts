// Open pages receive the events of what they show and no others, and the number of streams is
// limited.

import { expect, test } from 'vitest'
import { StreamSlots } from '../../../edge/platform/stream-slots.ts'
import { LIMITS } from '../../../shared/limits.ts'
import { ConsoleSession } from '../../support/browser/console-session.ts'
import { eventually } from '../../support/eventually.ts'
import { Fixtures, unwrap } from '../../support/fixtures.ts'
import { sharedStack } from '../../support/stack/stack.ts'

const fixtures = new Fixtures('streams', sharedStack())
const agent = await fixtures.agent()
const sensitive = await fixtures.tool({ capabilities: ['process_exec'], input_schema: { type: 'object' } })
const askApproval = async (n: number) =>
  (await fixtures.proposeForApproval(agent.client, sensitive, { n })).approval.id

/** Opens streams until one is refused; returns their number and the last response. */
async function fill(open: (signal: AbortSignal) => Promise<Response>) {
  const streams: AbortController[] = []
  for (;;) {
    const abort = new AbortController()
    const answer = await open(abort.signal)
    if (answer.status !== 200 || streams.length > LIMITS.streams_each)
      return { streams, status: answer.status, text: await answer.text() }
    streams.push(abort)
  }
}

test('a link and a session have a limited number of live streams, and closing one frees its slot', async () => {
  const id = await askApproval(1)
  const link = await fixtures.link(fixtures.root, id)
  const session = await ConsoleSession.open(fixtures.url, fixtures.rootKey)
  const another = await ConsoleSession.open(fixtures.url, fixtures.rootKey)
  const ways = [
    (signal: AbortSignal) => fetch(`${link}/events`, { signal }),
    (signal: AbortSignal) => session.get('/console/events', { signal }),
  ]
  const frees = async (open: (signal: AbortSignal) => Promise<Response>): Promise<void> => {
    const { streams, status, text } = await fill(open)
    expect([streams.length, status]).toEqual([LIMITS.streams_each, 429])
    expect(text).toContain('lose open pages or streams')
    streams.pop()?.abort()
    const again = new AbortController()
    await eventually('one may be opened again', async () => (await open(again.signal)).status === 200, 40_000)
    for (const stream of [...streams, again]) stream.abort()
  }
  await Promise.all(ways.map(frees)) // each waits until the edge notices
  const other = new AbortController()
  expect((await another.get('/console/events', { signal: other.signal })).status).toBe(200)
  other.abort()
})

test('the stream of one approval sends no events of others', async () => {
  const id = await askApproval(2)
  const link = await fixtures.link(fixtures.root, id)
  const session = await ConsoleSession.open(fixtures.url, fixtures.rootKey)
  const abort = new AbortController()
  const reading = async (stream: Response) => {
    const reader = (stream.body ?? new ReadableStream<Uint8Array>())
      .pipeThrough(new TextDecoderStream())
      .getReader()
    return async () => (await reader.read()).value ?? 'the end'
  }
  const { signal } = abort
  const followed = [
    await reading(await fetch(`${link}/events`, { signal })),
    await reading(await session.get(`/console/events?approval=${id}`, { signal })),
  ]
  const inbox = await reading(await session.get(`/console/events?agent=${agent.name}`, { signal }))
  for (const read of followed) expect(await read()).toMatch(/^id: \d+\nevent: (answers|waits)\n/)
  for (let n = 3; n < 6; n++) {
    const other = await askApproval(n)
    for (let text = ''; !text.includes(other); ) text = await inbox()
  }
  unwrap(await fixtures.root('answerApproval', { params: { id }, body: { decision: 'deny' } }))
  for (const read of followed) expect(await read()).toMatch(/^event: over\n/)
  abort.abort()
})

test('a live list is updated at most every 250 ms (`console_pause_ms`), and its last update shows all', async () => {
  const watched = await fixtures.agent()
  const ask = async (n: number) =>
    (await fixtures.proposeForApproval(watched.client, sensitive, { n })).approval.id
  const session = await ConsoleSession.open(fixtures.url, fixtures.rootKey)
  const abort = new AbortController()
  const began = performance.now() // the first update may come before the answer is read
  const stream = await session.get(`/console/events?agent=${watched.name}`, { signal: abort.signal })
  const updates: string[] = []
  const reading = stream.body
    ?.pipeThrough(new TextDecoderStream())
    .pipeTo(new WritableStream({ write: (text) => void updates.push(...text.split('\n\n').filter(Boolean)) }))
  const asked: string[] = []
  for (let n = 0; n < 12; n++) asked.push(await ask(n))
  await eventually('all are shown', () => asked.every((id) => updates.at(-1)?.includes(id)))
  expect((updates.length - 1) * 250).toBeLessThanOrEqual(performance.now() - began)
  abort.abort()
  await reading?.catch(() => undefined)
})

test('a tenant has a limited number of live streams, and the slots of vanished ones are freed', () => {
  const followers = new StreamSlots()
  for (let i = 0; i < LIMITS.streams_tenant; i++)
    expect(followers.enter(`s${i}`, `link ${i}`, 0).ok).toBe(true)
  expect(followers.enter('more', 'link x', 1_000)).toMatchObject({
    ok: false,
    error: { code: 'too_many_streams' },
  })
  followers.stay('s1', 'link 1', 1_000)
  const later = LIMITS.console_wait_ms + 5_500
  for (let i = 1; i < LIMITS.streams_each; i++)
    expect(followers.enter(`t${i}`, 'link 1', later).ok).toBe(true)
  expect(followers.enter('t', 'link 1', later).ok).toBe(false) // the stream that stayed open keeps its slot
  followers.leave('s1')
  expect(followers.enter('t', 'link 1', later).ok).toBe(true)
})
