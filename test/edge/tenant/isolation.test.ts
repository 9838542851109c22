// Promise: runs and calls of others look nonexistent to another agent, to guessed ids and to keys
// of other tenants, and such requests create nothing.

import { expect, test } from 'vitest'
import { approvalId, callId, mintKey, newWorkerId, ulid } from '../../../shared/ids.ts'
import type { RouteName } from '../../../shared/routes/all.ts'
import { ROUTES } from '../../../shared/routes/all.ts'
import { bearer, client } from '../../../shared/routes/client.ts'
import type { Route } from '../../../shared/routes/route.ts'
import { Fixtures, refusalOf, unwrap } from '../../support/fixtures.ts'
import { logHead } from '../../support/log-reader.ts'
import { objectFiles } from '../../support/stack/object-file.ts'
import { sharedStack, sharedState } from '../../support/stack/stack.ts'

const fixtures = new Fixtures('isolation', sharedStack())
const [mine, other] = [await fixtures.agent(), await fixtures.agent()]
const tool = await fixtures.tool()
const sensitive = await fixtures.tool({ capabilities: ['network'] })

/**
 * One file for each existing object. An attacker who could create objects without a key could fill
 * the disk.
 */
const objects = (): string[] => objectFiles(sharedState())

const READ: readonly RouteName[] = [
  'readRun',
  'readJournal',
  'readCall',
  'readCallById',
  'readAttestation',
  'cancelRun',
  'cancelCall',
]

type Answer = { status: number; body: string }
async function ask(name: RouteName, ids: Record<string, string>, key: string): Promise<Answer> {
  const route: Route = ROUTES[name]
  const path = route.path.replace(/\{(\w+)\}/g, (_, param: string) => ids[param] ?? '')
  const answer = await fetch(new URL(path, fixtures.url), {
    method: route.method,
    headers: { authorization: `Bearer ${key}` },
  })
  const body = (await answer.text()).replace(/"request_id":"[0-9a-f-]{36}"/, '"request_id":"…"')
  return { status: answer.status, body }
}

test('G11 on every route, another agent’s run and call get the same answer as ids that never existed', async () => {
  const call = unwrap(await mine.client('proposeCallInNewRun', { body: { tool, args: {} } }))
  const guess = `run_${ulid(Date.now())}`
  for (const name of READ) {
    const theirs = await ask(name, { run: call.run, call: call.id }, other.key)
    const nobodys = await ask(name, { run: guess, call: callId(guess, 1) }, other.key)
    expect([name, theirs.status]).toEqual([name, 404])
    expect([name, theirs]).toEqual([name, nobodys])
  }
  const proposed = await other.client('proposeCall', { params: { run: call.run }, body: { tool, args: {} } })
  expect(refusalOf(proposed)).toBe('404 not_found')
  const run = unwrap(await mine.client('readRun', { params: { run: call.run } }))
  expect([run.used.calls, run.state]).toEqual([1, 'open'])
  expect(unwrap(await mine.client('readCall', { params: { run: call.run, call: call.id } })).state).toBe(
    'granted',
  )
})

test('G11 an agent can’t open the event streams of another agent’s run or call', async () => {
  const call = unwrap(await mine.client('proposeCallInNewRun', { body: { tool, args: {} } }))
  for (const name of ['streamEvents', 'followCall'] as const) {
    const answer = await ask(name, { run: call.run, call: call.id }, other.key)
    expect([answer.status, JSON.parse(answer.body).code]).toEqual([404, 'not_found'])
  }
})

test('G11 a call is not found under another run of the same agent', async () => {
  const [one, two] = [
    unwrap(await mine.client('proposeCallInNewRun', { body: { tool, args: {} } })),
    unwrap(await mine.client('createRun', { body: {} })),
  ]
  expect(refusalOf(await mine.client('readCall', { params: { run: two.id, call: one.id } }))).toBe(
    '404 not_found',
  )
  expect(refusalOf(await mine.client('cancelCall', { params: { run: two.id, call: one.id } }))).toBe(
    '404 not_found',
  )
  expect(
    refusalOf(await mine.client('readCall', { params: { run: one.run, call: callId(one.run, 2) } })),
  ).toBe('404 not_found')
})

test('G11 guessed ids of every kind find nothing, and requests with them create no object', async () => {
  await fixtures.proposeForApproval(mine.client, sensitive) // creates the run's object and all objects that it uses before we count
  await logHead(client(fixtures.url))
  const before = objects()
  expect(before.length).toBeGreaterThan(2)
  for (let i = 0; i < 100; i++) {
    const run = `run_${ulid(Date.now() + i)}`
    const ids = { run, call: callId(run, 1) }
    for (const name of READ) expect((await ask(name, ids, mine.key)).status).toBe(404)
    expect(refusalOf(await mine.client('proposeCall', { params: { run }, body: { tool, args: {} } }))).toBe(
      '404 not_found',
    )
    const params = { id: approvalId(run, 1) }
    expect(refusalOf(await fixtures.root('readApproval', { params }))).toBe('404 not_found')
    expect(refusalOf(await fixtures.root('answerApproval', { params, body: { decision: 'approve' } }))).toBe(
      '404 not_found',
    )
    const link = `default.${params.id}.root.zzzzzzzz.${'A'.repeat(43)}`
    expect((await fetch(new URL(`/approve/${link}`, fixtures.url))).status).toBe(401)
  }
  expect(
    refusalOf(await fixtures.root('revokeWorker', { params: { worker: newWorkerId(Date.now()) } })),
  ).toBe('404 not_found')
  expect(objects().filter((file) => !before.includes(file))).toEqual([])
})

test('G11 a key that names an unknown tenant is refused and creates no tenant', async () => {
  const before = objects()
  for (const tenant of ['other', 'default2', 'a', 'z'.repeat(32)]) {
    for (const kind of ['agent', 'operator', 'enrol'] as const) {
      const { key } = mintKey(kind, tenant, Date.now())
      expect(refusalOf(await client(fixtures.url, bearer(key))('listTools', {}))).toBe('401 unauthenticated')
      if (kind !== 'enrol') continue
      const body = { token: key, x: 'A'.repeat(43), name: 'peer', tiers: [] }
      expect(refusalOf(await client(fixtures.url)('enrol', { body }))).toMatch(
        /^40[01] (enrolment_invalid|invalid_request)$/,
      )
    }
    const open = client(fixtures.url)
    expect(refusalOf(await open('keys', { query: { tenant } }))).toBe('404 not_found')
    expect(refusalOf(await open('logCheckpoint', { params: { tenant } }))).toBe('404 not_found')
    const tile = { tenant, tile: 'entries/000.p/1' }
    expect(refusalOf(await open('logTile', { params: tile }))).toBe('404 not_found')
  }
  expect(objects()).toEqual(before)
})

test('G11 malformed ids are answered like unknown ones, without a look-up', async () => {
  for (const run of [
    'run_',
    'run_0',
    `run_${'0'.repeat(25)}`,
    `run_${'0'.repeat(27)}`,
    `run_${'U'.repeat(26)}`,
    `RUN_${'0'.repeat(26)}`,
    `run_${'z'.repeat(26)}`,
    'default',
    '*',
    '%2e%2e',
    `run_${'0'.repeat(26)}%00`,
  ]) {
    const answer = await ask('readRun', { run }, mine.key)
    expect([run, answer.status, JSON.parse(answer.body).code]).toEqual([run, 404, 'not_found'])
  }
})

test('an operator with the role auditor can read the runs and calls of every agent', async () => {
  const auditor = await fixtures.operator(['auditor'])
  const call = unwrap(await mine.client('proposeCallInNewRun', { body: { tool, args: {} } }))
  expect(unwrap(await auditor.client('readRun', { params: { run: call.run } })).agent).toBe(mine.name)
  expect(unwrap(await auditor.client('readCall', { params: { run: call.run, call: call.id } })).id).toBe(
    call.id,
  )
})

test('an agent lists only the tools that it may call', async () => {
  const narrow = await fixtures.agent({ tools: [tool] })
  expect(unwrap(await narrow.client('listTools', {})).items.map(({ name }) => name)).toEqual([tool])
  const none = await fixtures.agent({ tools: [] })
  expect(unwrap(await none.client('listTools', {})).items).toEqual([])
})
