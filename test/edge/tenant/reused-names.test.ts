// Promise: a principal that is deleted and created again under the same name is a new one. It
// inherits no answers, links or runs of the previous one, and a link shows nothing to somebody who
// may not answer.

import { expect, test } from 'vitest'
import { bearer, type Client, client } from '../../../shared/routes/client.ts'
import type { Call } from '../../../shared/wire/calls.ts'
import type { AgentSpec } from '../../../shared/wire/principals.ts'
import { eventually } from '../../support/eventually.ts'
import { Fixtures, refusalOf, unwrap } from '../../support/fixtures.ts'
import { McpClient, textOf } from '../../support/http/mcp-client.ts'
import { sharedStack } from '../../support/stack/stack.ts'
import { PeerWorker } from '../../support/worker/peer-worker.ts'

const fixtures = new Fixtures('names', sharedStack())
const origin = new URL(fixtures.url).origin
const agent = await fixtures.agent()
const tool = await fixtures.tool({ capabilities: ['network'] })
const peer = await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool)

const propose = async (session: string, of = tool, by = agent.client): Promise<Call> =>
  unwrap(await by('proposeCallInNewRun', { body: { tool: of, args: {}, run: { session } } }))
const yes = async (by: Client, call: Call, scope: 'once' | 'session' = 'session') =>
  unwrap(
    await by('answerApproval', {
      params: { id: call.approval?.id ?? '' },
      body: { decision: 'approve', scope },
    }),
  )
const liveIn = async (session: string) =>
  unwrap(await fixtures.root('listStanding', {}))
    .items.filter((one) => one.session === session)
    .map(({ live }) => live)

async function operatorAgain(name: string): Promise<Client> {
  unwrap(await fixtures.root('deleteOperator', { params: { name } }))
  const { key } = unwrap(
    await fixtures.root('putOperator', { params: { name }, body: { roles: ['approver'] } }),
  )
  return client(fixtures.url, bearer(key ?? ''))
}

async function keyAgain(name: string, spec: AgentSpec): Promise<string> {
  unwrap(await fixtures.root('deleteAgent', { params: { name } }))
  return unwrap(await fixtures.root('putAgent', { params: { name }, body: spec })).key ?? ''
}
const agentAgain = async (name: string, spec: AgentSpec): Promise<Client> =>
  client(fixtures.url, bearer(await keyAgain(name, spec)))

/**
 * The answers of a link to opening it, following it, and approving with the nonce it showed before.
 */
async function through(link: string, nonce: string): Promise<{ statuses: number[]; text: string }> {
  const page = await fetch(link)
  const watched = await fetch(`${link}/events`)
  await watched.body?.cancel()
  const headers = { origin, 'content-type': 'application/x-www-form-urlencoded' }
  const body = new URLSearchParams({ nonce, decision: 'approve' }).toString()
  const answered = await fetch(link, { method: 'POST', headers, body })
  return {
    statuses: [page.status, watched.status, answered.status],
    text: (await page.text()) + (await answered.text()),
  }
}
const nonceOf = async (link: string): Promise<string> =>
  /name="nonce" value="([^"]+)"/.exec(await (await fetch(link)).text())?.[1] ?? ''

test('P09 an operator who is created again under a name inherits neither standing answers nor links', async () => {
  const carol = await fixtures.operator(['approver'])
  const session = fixtures.name()
  await yes(carol.client, await propose(session))
  expect([(await propose(session)).state, await liveIn(session)]).toEqual(['granted', [true]])
  const waiting = await propose(fixtures.name())
  const link = await fixtures.link(carol.client, waiting.approval?.id ?? '')
  const nonce = await nonceOf(link)
  const before = await propose(session)
  const again = await operatorAgain(carol.name)
  expect([(await propose(session)).state, await liveIn(session)]).toEqual(['awaiting_approval', [false]])
  expect(refusalOf(await peer.claim(before.id))).toBe('409 not_claimable')
  const old = await through(link, nonce)
  expect([old.statuses, old.text.includes(tool)]).toEqual([[401, 401, 401], false])
  const theirs = await fixtures.link(again, waiting.approval?.id ?? '')
  expect([theirs === link, (await through(theirs, await nonceOf(theirs))).statuses[2]]).toEqual([false, 200])
  expect(
    unwrap(await fixtures.root('readApproval', { params: { id: waiting.approval?.id ?? '' } })).status,
  ).toBe('approved')
})

test('P09 an approval by an operator whose name was given to somebody else no longer counts towards a quorum; the new holder’s does', async () => {
  const of = await fixtures.tool({ capabilities: ['network'] })
  const [carol, dan] = [await fixtures.operator(['approver']), await fixtures.operator(['approver'])]
  const rule = `@id("two") forbid (principal, action == Action::"tool.execute/${of}", resource) unless { context.approval.count >= 2 };`
  await fixtures.withPolicies({ two: rule }, async () => {
    const call = await propose(fixtures.name(), of)
    expect((await yes(carol.client, call, 'once')).status).toBe('pending')
    const again = await operatorAgain(carol.name)
    expect((await yes(dan.client, call, 'once')).status).toBe('pending')
    const done = await yes(again, call, 'once')
    expect([done.status, done.answers.map(({ by }) => by)]).toEqual(['approved', [dan.name, carol.name]])
  })
})

test('P09 an agent that is created again under a name inherits no standing answer, run or waiting call', async () => {
  const carol = await fixtures.operator(['approver'])
  const zed = await fixtures.agent()
  const session = fixtures.name()
  await yes(carol.client, await propose(session, tool, zed.client))
  const granted1 = await propose(session, tool, zed.client)
  expect(granted1.state).toBe('granted')
  const waiting = await propose(fixtures.name(), tool, zed.client)
  const again = await agentAgain(zed.name, { tools: ['*'], pool: fixtures.pool })
  expect([(await propose(session, tool, again)).state, await liveIn(session)]).toEqual([
    'awaiting_approval',
    [false],
  ])
  expect(
    refusalOf(await again('proposeCall', { params: { run: granted1.run }, body: { tool, args: {} } })),
  ).toBe('404 not_found')
  expect(refusalOf(await peer.claim(granted1.id))).toBe('409 not_claimable')
  expect((await yes(carol.client, waiting)).status).toBe('denied')
})

test('P09 an agent that is created again under a name reads, cancels and continues nothing of the one before', async () => {
  const zed = await fixtures.agent()
  const headers = { 'idempotency-key': fixtures.name() }
  const before = {
    run: unwrap(await zed.client('createRun', { body: {}, headers })).id,
    call: unwrap(await zed.client('proposeCallInNewRun', { body: { tool, args: {} }, headers })),
  }
  const params = { run: before.call.run, call: before.call.id }
  const key = await keyAgain(zed.name, { tools: ['*'], pool: fixtures.pool })
  const again = client(fixtures.url, bearer(key))
  const refused = [
    refusalOf(await again('readCall', { params })),
    refusalOf(await again('readCallById', { params: { call: params.call } })),
    refusalOf(await again('readRun', { params: { run: before.run } })),
    refusalOf(await again('readJournal', { params: { run: params.run }, query: {} })),
    refusalOf(await again('readSnapshot', { params })),
    refusalOf(await again('explainCall', { params })),
    refusalOf(await again('followCall', { params, query: {} })),
    refusalOf(await again('listFiles', { params: { run: params.run } })),
    refusalOf(await again('cancelCall', { params })),
    refusalOf(await again('cancelRun', { params: { run: before.run } })),
    refusalOf(await again('proposeCall', { params: { run: params.run }, body: { tool, args: {} }, headers })),
  ]
  expect(refused).toEqual(refused.map(() => '404 not_found'))

  // The same idempotency keys lead to runs of its own.
  const run = unwrap(await again('createRun', { body: {}, headers })).id
  const call = unwrap(await again('proposeCallInNewRun', { body: { tool, args: {} }, headers }))
  expect([run === before.run, call.run === params.run]).toEqual([false, false])

  for (const era of ['modern', 'legacy'] as const) {
    const mcp = new McpClient(fixtures.url, key, era)
    const result = await mcp.call('countersign_result', { call: params.call })
    expect([result['isError'], textOf(result)]).toEqual([
      true,
      expect.stringMatching(/you have no call with this id/),
    ])
    const meta = { 'dev.countersign/run': params.run }
    const { error } = await (await mcp.send('tools/call', { name: tool, arguments: {} }, { meta })).answer()
    expect(error?.code).toBe(-32602)
  }
  const state = unwrap(await fixtures.root('readCall', { params })).state
  expect(state).toBe('awaiting_approval')
})

test('rotating an operator’s key ends their old links and keeps their standing answers', async () => {
  const carol = await fixtures.operator(['approver'])
  const session = fixtures.name()
  await yes(carol.client, await propose(session))
  const waiting = await propose(fixtures.name())
  const link = await fixtures.link(carol.client, waiting.approval?.id ?? '')
  const nonce = await nonceOf(link)
  const { key } = unwrap(await fixtures.root('rotateOperatorKey', { params: { name: carol.name } }))
  const old = await through(link, nonce)
  expect([old.statuses, old.text.includes(tool)]).toEqual([[401, 401, 401], false])
  expect([(await propose(session)).state, await liveIn(session)]).toEqual(['granted', [true]])
  const theirs = await fixtures.link(client(fixtures.url, bearer(key ?? '')), waiting.approval?.id ?? '')
  expect((await through(theirs, await nonceOf(theirs))).statuses[2]).toBe(200)
})

test('P09 the link of an operator who was deleted or may no longer answer shows nothing of the call', async () => {
  const [leaving, demoted] = [await fixtures.operator(['approver']), await fixtures.operator(['approver'])]
  const { approval } = await propose(fixtures.name())
  const [gone, less] = [
    await fixtures.link(leaving.client, approval?.id ?? ''),
    await fixtures.link(demoted.client, approval?.id ?? ''),
  ]
  const nonces = [await nonceOf(gone), await nonceOf(less)]
  unwrap(await fixtures.root('deleteOperator', { params: { name: leaving.name } }))
  unwrap(await fixtures.root('putOperator', { params: { name: demoted.name }, body: { roles: ['auditor'] } }))
  for (const [link, nonce = '', status] of [
    [gone, nonces[0], 401],
    [less, nonces[1], 403],
  ] as const) {
    const { statuses, text } = await through(link, nonce)
    expect([statuses, /<button|nonce/.test(text), text.includes(tool)]).toEqual([
      [status, status, status],
      false,
      false,
    ])
  }
})

test('P05 an expired link of an answered approval shows the outcome but not the call', {
  timeout: 30_000,
}, async () => {
  const of = await fixtures.tool({ capabilities: ['network'], approval_ttl_s: 2 })
  const { approval } = await fixtures.proposeForApproval(agent.client, of)
  const link = await fixtures.link(fixtures.root, approval.id)
  unwrap(await fixtures.root('answerApproval', { params: { id: approval.id }, body: { decision: 'deny' } }))
  await eventually('the clock is past the expiry', () => Date.now() > approval.expires_at)
  const page = await fetch(link)
  const text = await page.text()
  expect([page.status, text.includes('denied'), text.includes(of)]).toEqual([410, true, false])
})
