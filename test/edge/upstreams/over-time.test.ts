// Promise: a server that changes its protocol is called as it speaks now, and never with a
// definition that nobody accepted. The record shows what operators accepted and when.

import { afterAll, expect, test } from 'vitest'
import { type JournalEntry, verifyChain } from '../../../shared/evidence/journal.ts'
import { LIMITS } from '../../../shared/limits.ts'
import { eventually } from '../../support/eventually.ts'
import { Fixtures, refusalOf, unwrap } from '../../support/fixtures.ts'
import { logHashes } from '../../support/log-reader.ts'
import { startTestStack } from '../../support/stack/stack.ts'
import {
  answering,
  type Behaviour,
  FakeUpstream,
  result,
  streaming,
  text,
  tool,
} from '../../support/upstreams/fake-upstream.ts'
import { ProtectedUpstream, verifiedExecution } from '../../support/upstreams/protected-upstream.ts'

const stack = await startTestStack({ worker: 'idle', loopbackChannels: true })
const fixtures = new Fixtures('over-time', stack.dev)
const agent = await fixtures.agent()
const fakes: FakeUpstream[] = []
afterAll(async () => {
  await stack.stop()
  for (const fake of fakes) await fake.close()
})

/** An upstream with one accepted tool `act`, and more of these names. */
async function protect(era: 'modern' | 'legacy', ...more: string[]): Promise<ProtectedUpstream> {
  const names = ['act', ...more]
  const fake = await FakeUpstream.open(
    era,
    names.map((name) => tool(name)),
  )
  const upstream = new ProtectedUpstream(`time${fakes.push(fake)}`, fake, fixtures.root)
  await upstream.put()
  unwrap(await upstream.refresh())
  for (const name of names) await upstream.accept(name)
  return upstream
}
const act = (upstream: ProtectedUpstream) =>
  agent.client('proposeCallInNewRun', {
    body: { tool: upstream.tool('act'), args: { text: 'hi' } },
    wait: 20,
  })
async function acted(upstream: ProtectedUpstream) {
  const { state, result, id: call, run } = unwrap(await act(upstream))
  const { execution } = await verifiedExecution(agent.client, { run, call })
  return { state, output: result?.output, code: result?.error?.code, era: execution.upstream?.era }
}
const countOf = ({ fake }: ProtectedUpstream): number => fake.callsOf('act').length

test('U07 if a server has changed from the legacy to the modern protocol, the edge looks at it again, and then sends the call once', async () => {
  const upstream = await protect('legacy')
  expect(await acted(upstream)).toMatchObject({ state: 'succeeded', era: 'legacy' })
  upstream.fake.era = 'modern'
  expect(await acted(upstream)).toMatchObject({ state: 'succeeded', output: 'ran act', era: 'modern' })
  expect([countOf(upstream), (await upstream.read()).era]).toEqual([2, 'modern'])
  expect(await upstream.stateOf('act')).toBe('accepted') // the pin does not depend on the protocol
})

test('U07 a call that a server refuses after a change from the modern to the legacy protocol is not sent again, and the next call is sent in the right protocol', async () => {
  const upstream = await protect('modern')
  upstream.fake.era = 'legacy'
  expect(await acted(upstream)).toMatchObject({ state: 'failed', code: 'upstream_error', era: 'modern' })
  expect(countOf(upstream)).toBe(1)
  expect(await acted(upstream)).toMatchObject({ state: 'succeeded', era: 'legacy' })
  expect(countOf(upstream)).toBe(2)
})

test('U01 a tool whose definition changes together with the protocol is not called', async () => {
  const upstream = await protect('legacy')
  expect(await acted(upstream)).toMatchObject({ state: 'succeeded' })
  upstream.fake.era = 'modern'
  upstream.fake.tools = [tool('act', { title: 'another' })]
  expect(await acted(upstream)).toMatchObject({ state: 'failed', code: 'upstream_unavailable' })
  expect(countOf(upstream)).toBe(1)
  expect(refusalOf(await act(upstream))).toBe('409 tool_changed')
})

test('U07 only the first of two answers of a server counts, and two answers in one body count as none', async () => {
  const upstream = await protect('modern')
  upstream.fake.behaviours.set('act', (response, message) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    for (const words of ['first', 'second'])
      response.write(`data: ${JSON.stringify(result(message, text(words)))}\n\n`)
    response.end()
  })
  expect(await acted(upstream)).toMatchObject({ state: 'succeeded', output: 'first' })
  for (const between of ['', ',']) {
    upstream.fake.behaviours.set('act', (response, message) => {
      const both = ['first', 'second'].map((words) => JSON.stringify(result(message, text(words))))
      const body = between === '' ? both.join('\n') : `[${both.join(between)}]`
      response.writeHead(200, { 'content-type': 'application/json' }).end(body)
    })
    expect(await acted(upstream)).toMatchObject({ state: 'indeterminate', code: 'no_answer' })
  }
  expect(countOf(upstream)).toBe(3)
})

test('U03 policies name an upstream, its tier, its host and what the operator stated, and nothing that the server says', async () => {
  const fake = await FakeUpstream.open('modern', [
    tool('act', { title: 'Harmless', annotations: { readOnlyHint: true } }),
  ])
  const upstream = new ProtectedUpstream(`time${fakes.push(fake)}`, fake, fixtures.root)
  await upstream.put()
  unwrap(await upstream.refresh())
  await upstream.accept('act', { capabilities: ['filesystem_write'], groups: ['pages'] })
  const [ours, neighbour] = [await fixtures.tool(), await protect('modern')]
  const effectOf = async (name: string) =>
    unwrap(await agent.client('decide', { body: { tool: name, args: { text: 'hi' } } })).decision.effect
  const tools = [upstream.tool('act'), neighbour.tool('act'), ours]
  const all = 'principal, action in Action::"tool.execute", resource'
  const table: [rule: string, denied: readonly string[]][] = [
    [`forbid (${all}) when { context.plan.tier == "M" };`, tools.slice(0, 2)],
    [`forbid (${all}) unless { ["A", "B", "C"].contains(context.plan.tier) };`, tools.slice(0, 2)],
    [`forbid (${all} in Upstream::"${upstream.name}");`, tools.slice(0, 1)],
    [
      `forbid (${all}) when { context has upstream_id && context.upstream_id == "${neighbour.name}" };`,
      tools.slice(1, 2),
    ],
    [
      `forbid (${all}) when { context.plan.egress_hosts.contains("${neighbour.fake.host}") };`,
      tools.slice(1, 2),
    ],
    [`forbid (${all}) when { context.capabilities.contains("filesystem_write") };`, tools.slice(0, 1)],
    [`forbid (${all} in ToolGroup::"pages");`, tools.slice(0, 1)],
    [`forbid (${all}) when { context.plan.program != "" };`, tools.slice(2)],
  ]
  for (const [rule, denied] of table)
    await fixtures.withPolicies({ upstreams: `@id("upstreams") @reason("a test") ${rule}` }, async () => {
      const effects = await Promise.all(tools.map(effectOf))
      expect([rule, tools.filter((_, at) => effects[at] !== 'allow')]).toEqual([rule, denied])
    })
})

/** All pages of a list. */
async function everything<T>(page: (seen: readonly T[]) => Promise<readonly T[]>): Promise<T[]> {
  const seen: T[] = []
  for (;;) {
    const items = await page(seen)
    if (items.length === 0) return seen
    seen.push(...items)
  }
}

test('J01 every registration, acceptance, withdrawal and quarantine is a chained entry and a leaf of the signed log', async () => {
  const upstream = await protect('modern', 'two')
  const { fake, name } = upstream
  const first = (await upstream.diff('act')).tool.pinned
  fake.tools = [tool('act', { title: 'another' }), tool('two')]
  unwrap(await upstream.refresh())
  unwrap(await upstream.refresh()) // nothing has changed since the last look
  const second = (await upstream.diff('act')).tool.seen
  await upstream.accept('act')
  const params = { name, tool: upstream.tool('two') }
  unwrap(await fixtures.root('withdrawUpstreamTool', { params }))
  await upstream.put({ url: `${fake.url}?moved` })
  unwrap(await fixtures.root('removeUpstream', { params: { name } }))

  const entries = await everything<JournalEntry>(async (seen) => {
    const query = { after: seen.at(-1)?.seq ?? 0 }
    return unwrap(await fixtures.root('readUpstreamJournal', { query })).items
  })
  const own = entries.filter(({ body }) => body['upstream'] === name)
  const [one, two] = [upstream.tool('act'), upstream.tool('two')]
  const by = 'root'
  expect(own.map(({ kind, body }) => ({ event: kind.slice('upstream.'.length), ...body }))).toMatchObject([
    { event: 'put', url: fake.url, by },
    { event: 'tool_accepted', tool: one, definition: first, before: null, by },
    { event: 'tool_accepted', tool: two, sensitive: false, by },
    { event: 'tool_quarantined', tool: one, definition: first, shown: second },
    { event: 'tool_accepted', tool: one, definition: second, before: first, by },
    { event: 'tool_withdrawn', tool: two, by },
    { event: 'put', url: `${fake.url}?moved`, by },
    { event: 'tool_quarantined', tool: one, definition: second, shown: null },
    { event: 'removed', by },
  ])
  expect(verifyChain(entries).ok).toBe(true)
  expect(verifyChain(entries.filter((entry) => entry !== own.at(1))).ok).toBe(false)
  await eventually('the log has a leaf for each entry', async () => {
    const leaves = await logHashes(fixtures.root)
    return entries.every(({ hash }) => leaves.includes(hash)) || undefined
  })
})

/** Lists this many tools, and says where the next page begins. */
const listing =
  (tools: number, nextCursor?: string): Behaviour =>
  (response, message) =>
    void response.writeHead(200, { 'content-type': 'application/json' }).end(
      JSON.stringify(
        result(message, {
          tools: Array.from({ length: tools }, (_, n) => tool(`t${n}`)),
          ...(nextCursor === undefined ? {} : { nextCursor }),
        }),
      ),
    )

test('a server that lists more than `upstream_tools` tools, or more than `upstream_pages` pages, is not read further', async () => {
  const upstream = await protect('modern')
  const refreshed = async (behaviour: Behaviour) => {
    upstream.fake.listing = (response, message) => behaviour(response, message, upstream.fake)
    const pages = () => upstream.fake.methods().filter((method) => method === 'tools/list').length
    const before = pages()
    const answer = await upstream.refresh()
    return [answer.ok ? '' : answer.error.detail, pages() - before]
  }
  expect([LIMITS.upstream_tools, LIMITS.upstream_pages]).toEqual([256, 16])
  expect(await refreshed(listing(256))).toEqual(['', 1])
  expect(await refreshed(listing(257))).toEqual([expect.stringContaining('more than 256 tools'), 1])
  expect(await refreshed(listing(1, 'more'))).toEqual([expect.stringContaining('more than 16 pages'), 16])
})

test('a server that does not list its tools within `upstream_look_timeout_ms` is given up, and its upstream says so', async () => {
  const upstream = await protect('modern')
  upstream.fake.listing = () => undefined
  const before = Date.now()
  expect(refusalOf(await upstream.refresh())).toBe('503 unavailable')
  expect(Date.now() - before).toBeGreaterThanOrEqual(LIMITS.upstream_look_timeout_ms)
  expect(Date.now() - before).toBeLessThan(LIMITS.upstream_look_timeout_ms + 3_000)
  expect((await upstream.read()).fault).toEqual(expect.any(String))
})

test('at most `upstream_notes` progress messages of one call are kept', async () => {
  const upstream = await protect('modern')
  const note = (n: number) => ({
    jsonrpc: '2.0',
    method: 'notifications/message',
    params: { data: `note ${n}` },
  })
  upstream.fake.behaviours.set(
    'act',
    streaming((message) => [
      ...Array.from({ length: LIMITS.upstream_notes + 10 }, (_, n) => note(n)),
      result(message, text('done')),
    ]),
  )
  const { result: kept } = unwrap(await act(upstream))
  expect([kept?.output, LIMITS.upstream_notes]).toEqual(['done', 200])
  expect(kept?.stderr.trimEnd().split('\n')).toEqual(Array.from({ length: 200 }, (_, n) => `note ${n}`))
})

test('progress that is not a number is left out, and the call continues', async () => {
  const upstream = await protect('modern')
  const progress = [{ toString: 5, valueOf: 5 }, 'half', 1]
  upstream.fake.behaviours.set(
    'act',
    streaming((message) => [
      ...progress.map((one) => ({
        jsonrpc: '2.0',
        method: 'notifications/progress',
        params: { progressToken: message.id, progress: one, message: 'on its way' },
      })),
      result(message, text('done')),
    ]),
  )
  const { result: kept } = unwrap(await act(upstream))
  expect([kept?.output, kept?.stderr]).toEqual(['done', '1 on its way\n'])
})

test('the messages of one call that are kept have at most 64 KiB (`upstream_notes_chars`)', async () => {
  const upstream = await protect('modern')
  const note = { jsonrpc: '2.0', method: 'notifications/message', params: { data: 'x'.repeat(1_023) } }
  upstream.fake.behaviours.set(
    'act',
    streaming((message) => [...Array.from({ length: 70 }, () => note), result(message, text('done'))]),
  )
  const { result: kept } = unwrap(await act(upstream))
  expect([kept?.output, kept?.stderr.length]).toEqual(['done', 65_536]) // 64 lines
})

test('64 calls of upstreams are in flight (`upstream_calls`): one agent has 30 of them to one upstream, and its others wait', async () => {
  // Half of 64 are kept for another tenant, and one each for another agent and another upstream.
  expect(LIMITS.upstream_calls).toBe(64)
  const [upstream, other] = [await protect('modern'), await protect('modern')]
  const held: (() => void)[] = []
  const answered = answering(text('done'))
  upstream.fake.behaviours.set('act', (...request) => void held.push(() => answered(...request)))
  const ended = Promise.all(Array.from({ length: 32 }, () => act(upstream)))
  await eventually('30 are in flight', () => held.length === 30)
  expect(unwrap(await act(other)).state).toBe('succeeded')
  expect(held).toHaveLength(30)
  for (const answer of held.splice(0)) answer()
  await eventually('the others are in flight', () => held.length === 2)
  for (const answer of held) answer()
  const states = (await ended).map((call) => unwrap(call).state)
  expect(states).toEqual(Array.from({ length: 32 }, () => 'succeeded'))
})

test('a tenant has at most as many upstreams as `upstreams` allows, and a known one can still be stored', async () => {
  const put = (name: string) =>
    fixtures.root('putUpstream', {
      params: { name },
      body: { kind: 'http', url: 'https://mcp.example.com/' },
    })
  const listed = async () => unwrap(await fixtures.root('listUpstreams', {})).items.map(({ name }) => name)
  const known = await listed()
  const names = Array.from({ length: LIMITS.upstreams - known.length + 2 }, (_, n) => `many${n}`)
  const refusals = (await Promise.all(names.map(put))).filter((one) => !one.ok)
  expect(refusals.map(refusalOf)).toEqual(['409 limit_reached', '409 limit_reached'])
  const stored = await listed()
  expect([LIMITS.upstreams, stored.length]).toEqual([50, 50])
  unwrap(await put(stored.at(-1) ?? ''))
})
