// Promise: what a call costs of its run's budget, what costs although no call results, and what no
// agent can circumvent. More cases are in policies/cases.

import { expect, test } from 'vitest'
import { callDigest } from '../../../shared/evidence/statement.ts'
import { Fixtures, refusalOf, unwrap } from '../../support/fixtures.ts'
import { sharedStack } from '../../support/stack/stack.ts'
import { PeerWorker } from '../../support/worker/peer-worker.ts'

const fixtures = new Fixtures('seeds', sharedStack())
const peer = await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool)
const tool = await fixtures.tool({
  input_schema: { type: 'object', properties: { text: { type: 'string' } }, additionalProperties: false },
})
const forbidden = await fixtures.tool()
const agent = await fixtures.agent({ tools: [tool, 'seeds-unregistered'] })

const open = async (budget: Record<string, number>) =>
  unwrap(await agent.client('createRun', { body: { budget } })).id
const propose = (run: string, name: string, args: Record<string, unknown> = {}) =>
  agent.client('proposeCall', { params: { run }, body: { tool: name, args } })
const used = async (run: string) => unwrap(await agent.client('readRun', { params: { run } })).used

test('a denied call uses nothing of the budget, and the call beyond the budget is denied', async () => {
  const run = await open({ max_calls_per_run: 2 })
  expect(unwrap(await propose(run, forbidden)).state).toBe('denied')
  expect(await used(run)).toEqual({ calls: 0, denied: 1 })
  for (let i = 0; i < 2; i++) expect(unwrap(await propose(run, tool)).state).toBe('granted')
  const third = unwrap(await propose(run, tool))
  expect([third.state, third.decision.code, third.attestation?.executor]).toEqual([
    'denied',
    'budget_spent',
    'edge',
  ])
  expect(await used(run)).toEqual({ calls: 2, denied: 2 })
})

test('a malformed proposal counts towards a run’s refused proposals, and not towards its calls', async () => {
  const run = await open({ max_calls_per_run: 1, max_denied_per_run: 2 })
  for (let i = 0; i < 2; i++)
    expect(refusalOf(await propose(run, tool, { other: 1 }))).toBe('422 invalid_arguments')
  expect(await used(run)).toEqual({ calls: 0, denied: 2 })
  expect(refusalOf(await propose(run, tool))).toBe('409 run_ended')
})

test('oversized arguments are refused and counted, and make no call to attest', async () => {
  const run = await open({})
  expect(refusalOf(await propose(run, tool, { text: 'x'.repeat(600 * 1024) }))).toBe('422 invalid_arguments')
  expect(await used(run)).toEqual({ calls: 0, denied: 1 })
  expect(unwrap(await agent.client('readJournal', { params: { run }, query: {} })).items).toEqual([])
})

test('arguments that imitate boundaries between fields get different digests', () => {
  const name = (text: string, more: Record<string, unknown> = {}) =>
    callDigest({
      tenant: 'default',
      run: 'run_x',
      call: 'call_x_1',
      tool: { name: 'a', version: 1, digest: '0'.repeat(64) },
      arguments: { text, ...more } as never, // texts and lists of texts
      plan: null,
    })
  const digests = [
    name('a|b'),
    name('a', { b: '' }),
    name('a","b":"'),
    name('a\u0000b'),
    name('ab'),
    name('', { text: 'a', b: 'b' }),
    name('a', { list: ['b', 'c'] }),
    name('a', { list: ['b,c'] }),
    name('a', { list: [['b'], 'c'] }),
  ]
  expect(new Set(digests).size).toBe(digests.length)
})

test('an unknown tool is refused and counted, and a tool that no tier can run is denied', async () => {
  const run = await open({})
  expect(refusalOf(await propose(run, 'seeds-unregistered'))).toBe('404 not_found')
  expect(await used(run)).toEqual({ calls: 0, denied: 1 })
  const host = await fixtures.tool({ executor: { tiers: ['B'] }, egress: { mode: 'none', hosts: [] } })
  const all = await fixtures.agent()
  const call = unwrap(await all.client('proposeCallInNewRun', { body: { tool: host, args: {} } }))
  expect([call.state, call.decision.policies]).toEqual(['denied', ['isolation-worker-host']])
})

test('all proposals of a run share its budget and its rules, and the agent can’t answer its own questions', async () => {
  const sensitive = await fixtures.tool({ capabilities: ['network'] })
  const child = await fixtures.agent()
  const { id: run } = unwrap(await child.client('createRun', { body: { budget: { max_calls_per_run: 2 } } }))
  const propose = async (name: string) =>
    unwrap(await child.client('proposeCall', { params: { run }, body: { tool: name, args: {} } }))
  const asked = await propose(sensitive)
  const answer = { params: { id: asked.approval?.id ?? '' }, body: { decision: 'approve' as const } }
  expect(refusalOf(await child.client('answerApproval', answer))).toBe('403 forbidden')
  expect(refusalOf(await agent.client('proposeCall', { params: { run }, body: { tool, args: {} } }))).toBe(
    '404 not_found',
  )
  const never = `@id("${fixtures.name()}") forbid (principal, action == Action::"tool.execute/${tool}", resource) when { true };`
  await fixtures.withPolicies({ never }, async () => expect((await propose(tool)).state).toBe('denied'))
  unwrap(await fixtures.root('answerApproval', answer))
  await peer.run(asked.id)
  expect((await propose(tool)).state).toBe('granted')
  expect((await propose(tool)).decision.code).toBe('budget_spent')
})
