// Promise: operators list all calls and runs, an agent its own, newest first, by state, tool, agent
// and time; each call is listed in its current state within a second.

import { expect, test } from 'vitest'
import type { ListedCall } from '../../../shared/wire/calls.ts'
import { countersign } from '../../support/countersign.ts'
import { eventually } from '../../support/eventually.ts'
import { Fixtures, refusalOf, unwrap } from '../../support/fixtures.ts'
import { sharedStack } from '../../support/stack/stack.ts'
import { PeerWorker } from '../../support/worker/peer-worker.ts'

const fixtures = new Fixtures('lists', sharedStack())
const [first, second] = [await fixtures.agent(), await fixtures.agent()]
const tool = await fixtures.tool({ executor: { tiers: ['B', 'C'] } })
const sensitive = await fixtures.tool({ capabilities: ['network'] })
const peer = await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool)
const narrow = await fixtures.agent({ tools: [tool] })

type Query = Parameters<typeof fixtures.root<'listCalls'>>[1]['query']
const list = async (query: Query = {}, by = fixtures.root) => unwrap(await by('listCalls', { query })).items
const idsOf = (items: readonly { id: string }[]) => items.map(({ id }) => id)
const propose = async (by = first, name = tool) =>
  unwrap(await by.client('proposeCallInNewRun', { body: { tool: name, args: {} } }))
/** Waits until the list has the call in this state. A list is at most a second behind. */
const listed = (id: string, state: ListedCall['state']) =>
  eventually(
    `${id} is listed as ${state}`,
    async () => (await list()).find((call) => call.id === id && call.state === state),
    10_000,
  )

const granted = await propose()
const asking = await propose(first, sensitive)
const denied = await propose(narrow, sensitive)
const ended = await propose(second)
await peer.run(ended.id, { stdout: 'done' })
await Promise.all([
  listed(granted.id, 'granted'),
  listed(asking.id, 'awaiting_approval'),
  listed(denied.id, 'denied'),
  listed(ended.id, 'succeeded'),
])

test('a list has each call once, newest first, with its names, state and times', async () => {
  const own = new Set([granted.id, asking.id, denied.id, ended.id])
  const items = (await list()).filter(({ id }) => own.has(id))
  expect(idsOf(items)).toEqual([ended.id, denied.id, asking.id, granted.id])
  const read = unwrap(await second.client('readCallById', { params: { call: ended.id } }))
  expect(items[0]).toEqual({
    id: ended.id,
    run: ended.run,
    agent: second.name,
    tool,
    state: 'succeeded',
    created_at_ms: read.created_at_ms,
    ended_at_ms: read.ended_at_ms,
  })
  expect(items[3]).not.toHaveProperty('ended_at_ms')
})

test.each<[string, Query, () => string[]]>([
  ['an agent', { agent: first.name }, () => [asking.id, granted.id]],
  ['an agent and a tool', { agent: first.name, tool }, () => [granted.id]],
  ['an agent and a live state', { agent: first.name, state: 'awaiting_approval' }, () => [asking.id]],
  ['an agent and an end', { agent: narrow.name, state: 'denied' }, () => [denied.id]],
  ['a tool', { tool: sensitive }, () => [denied.id, asking.id]],
  ['a tool, an end and a time', { tool, state: 'succeeded', since: ended.created_at_ms }, () => [ended.id]],
  ['an agent, later than its calls', { agent: first.name, since: asking.created_at_ms + 1 }, () => []],
  ['an agent that there is not', { agent: 'nobody' }, () => []],
])('calls are listed by %s', async (_by, query, expected) => {
  expect(idsOf(await list(query))).toEqual(expected())
})

test('an agent lists only its own calls and runs, and can’t name another agent', async () => {
  expect(idsOf(await list({}, first.client))).toEqual([asking.id, granted.id])
  expect(idsOf(await list({ agent: second.name, state: 'succeeded' }, second.client))).toEqual([ended.id])
  const runs = unwrap(await first.client('listRuns', { query: {} })).items
  expect(idsOf(runs)).toEqual([asking.run, granted.run])
  for (const route of ['listCalls', 'listRuns'] as const)
    expect(refusalOf(await first.client(route, { query: { agent: second.name } }))).toBe('403 forbidden')
})

test('an agent that is created again under a name lists nothing of the earlier agent', async () => {
  const before = await fixtures.agent()
  const call = await propose(before)
  await listed(call.id, 'granted')
  unwrap(await fixtures.root('deleteAgent', { params: { name: before.name } }))
  const { key } = unwrap(
    await fixtures.root('putAgent', {
      params: { name: before.name },
      body: { tools: ['*'], pool: fixtures.pool },
    }),
  )
  const again = fixtures.clientOf(key)
  expect(idsOf(await list({}, again))).toEqual([])
  expect(unwrap(await again('listRuns', { query: {} })).items).toEqual([])
  expect(idsOf(await list({ agent: before.name }))).toEqual([call.id])
})

test('pages follow one another without a gap or a repetition, even while calls are added', async () => {
  const agent = await fixtures.agent()
  const calls = []
  for (let i = 0; i < 7; i++) calls.push(await propose(agent))
  await listed(calls.at(-1)?.id ?? '', 'granted')
  const seen: string[] = []
  let cursor: string | undefined
  do {
    const page = unwrap(
      await agent.client('listCalls', { query: { limit: 3, ...(cursor === undefined ? {} : { cursor }) } }),
    )
    seen.push(...idsOf(page.items))
    cursor = page.next ?? undefined
    await propose(agent)
  } while (cursor !== undefined)
  expect(seen).toEqual(idsOf(calls).reverse())
  const bad = await agent.client('listCalls', { query: { cursor: 'x' } })
  expect(refusalOf(bad)).toBe('400 invalid_request')
})

test('a run that has no call is listed too, and is listed as cancelled once somebody has cancelled it', async () => {
  const agent = await fixtures.agent()
  const { id } = unwrap(await agent.client('createRun', { body: { session: 'talk-1', channel: 'web' } }))
  const run = await eventually('the run is listed', async () =>
    unwrap(await agent.client('listRuns', { query: {} })).items.at(0),
  )
  expect(run).toMatchObject({ id, agent: agent.name, session: 'talk-1', channel: 'web', state: 'open' })
  unwrap(await agent.client('cancelRun', { params: { run: id } }))
  await eventually(
    'the run is listed as cancelled',
    async () => unwrap(await agent.client('listRuns', { query: {} })).items.at(0)?.state === 'cancelled',
  )
})

test('a call can be read by its id alone, waits like any other, and is unknown to another agent', async () => {
  const call = await propose()
  const params = { call: call.id }
  const inRun = unwrap(await first.client('readCall', { params: { run: call.run, call: call.id } }))
  expect(unwrap(await first.client('readCallById', { params }))).toEqual(inRun)
  expect(unwrap(await fixtures.root('readCallById', { params }))).toEqual(inRun)
  expect(refusalOf(await second.client('readCallById', { params }))).toBe('404 not_found')
  const waiting = first.client('readCallById', { params, wait: 30 })
  await peer.run(call.id, { stdout: 'done' })
  expect(unwrap(await waiting).state).toBe('succeeded')
})

test('responses 201 and 202 have a `Location` that leads to the run or call, and 200 has none', async () => {
  const send = (path: string, body: unknown, wait?: string) =>
    fetch(new URL(path, fixtures.url), {
      method: 'POST',
      headers: {
        authorization: `Bearer ${first.key}`,
        'content-type': 'application/json',
        ...(wait === undefined ? {} : { prefer: wait }),
      },
      body: JSON.stringify(body),
    })
  const created = await send('/v1/runs', {})
  const { id: run } = (await created.json()) as { id: string }
  expect([created.status, created.headers.get('location')]).toEqual([201, `/v1/runs/${run}`])
  const pending = await send(`/v1/runs/${run}/calls`, { tool, args: {} })
  const { id: call } = (await pending.json()) as { id: string }
  expect([pending.status, pending.headers.get('location')]).toEqual([202, `/v1/calls/${call}`])
  const at = await fetch(new URL(pending.headers.get('location') ?? '', fixtures.url), {
    headers: { authorization: `Bearer ${first.key}` },
  })
  expect(await at.json()).toMatchObject({ id: call, state: 'granted' })
  const done = await fetch(new URL('/v1/calls', fixtures.url), {
    method: 'POST',
    headers: { authorization: `Bearer ${narrow.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ tool: sensitive, args: {} }),
  })
  expect([done.status, done.headers.get('location')]).toEqual([200, null])
  await done.arrayBuffer()
})

test('`calls list` and `runs list` filter by their flags, and explain a flag that can’t be used', async () => {
  const cli = (key: string, ...args: string[]) =>
    countersign(args, { env: { COUNTERSIGN_URL: fixtures.url, COUNTERSIGN_KEY: key } })
  const [calls, runs, unstated, undated] = await Promise.all([
    cli(
      fixtures.rootKey,
      'calls',
      'list',
      '--agent',
      first.name,
      '--tool',
      sensitive,
      '--since',
      '1h',
      '--json',
    ),
    cli(second.key, 'runs', 'list', '--last', '5'),
    cli(fixtures.rootKey, 'calls', 'list', '--state', 'finished'),
    cli(fixtures.rootKey, 'calls', 'list', '--since', 'yesterday'),
  ])
  expect(idsOf(JSON.parse(calls.out) as ListedCall[])).toEqual([asking.id])
  expect(runs.out.trimEnd().split('\n')).toEqual([
    expect.stringMatching(/^created +state +agent +session +run$/),
    expect.stringContaining(ended.run),
  ])
  expect([unstated.code, unstated.err]).toEqual([2, expect.stringContaining('`--state` must be one of')])
  expect([undated.code, undated.err]).toEqual([2, expect.stringContaining('such as 2026-11-19T08:00:00Z')])
})
