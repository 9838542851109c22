// Promise: what a call costs of its run's budget, what costs although no call results, and what no
// agent can circumvent. More cases are in policies/cases.

import { expect, test } from 'vitest'
import { callDigest } from '../../../shared/evidence/statement.ts'
import { Desk, granted, refusal } from '../../support/fixtures.ts'
import { sharedStack } from '../../support/stack/stack.ts'
import { PeerWorker } from '../../support/worker/peer-worker.ts'

const desk = new Desk('seeds', sharedStack())
const peer = await PeerWorker.enrol(desk.url, desk.root, desk.pool)
const tool = await desk.tool({
  input_schema: { type: 'object', properties: { text: { type: 'string' } }, additionalProperties: false },
})
const forbidden = await desk.tool()
const agent = await desk.agent({ tools: [tool, 'seeds-unregistered'] })

const open = async (budget: Record<string, number>) =>
  granted(await agent.client('createRun', { body: { budget } })).id
const propose = (run: string, name: string, args: Record<string, unknown> = {}) =>
  agent.client('proposeCall', { params: { run }, body: { tool: name, args } })
const used = async (run: string) => granted(await agent.client('readRun', { params: { run } })).used

test('a denied call uses nothing of the budget, and the call beyond the budget is denied', async () => {
  const run = await open({ max_calls_per_run: 2 })
  expect(granted(await propose(run, forbidden)).state).toBe('denied')
  expect(await used(run)).toEqual({ calls: 0, denied: 1 })
  for (let i = 0; i < 2; i++) expect(granted(await propose(run, tool)).state).toBe('granted')
  const third = granted(await propose(run, tool))
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
    expect(refusal(await propose(run, tool, { other: 1 }))).toBe('422 invalid_arguments')
  expect(await used(run)).toEqual({ calls: 0, denied: 2 })
  expect(refusal(await propose(run, tool))).toBe('409 run_ended')
})

test('oversized arguments are refused and counted, and make no call to attest', async () => {
  const run = await open({})
  expect(refusal(await propose(run, tool, { text: 'x'.repeat(600 * 1024) }))).toBe('422 invalid_arguments')
  expect(await used(run)).toEqual({ calls: 0, denied: 1 })
  expect(granted(await agent.client('readJournal', { params: { run }, query: {} })).items).toEqual([])
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
  expect(refusal(await propose(run, 'seeds-unregistered'))).toBe('404 not_found')
  expect(await used(run)).toEqual({ calls: 0, denied: 1 })
  const host = await desk.tool({ executor: { tiers: ['B'] }, egress: { mode: 'none', hosts: [] } })
  const all = await desk.agent()
  const call = granted(await all.client('proposeCallInNewRun', { body: { tool: host, args: {} } }))
  expect([call.state, call.decision.policies]).toEqual(['denied', ['isolation-worker-host']])
})

test('all proposals of a run share its budget and its rules, and the agent can’t answer its own questions', async () => {
  const sensitive = await desk.tool({ capabilities: ['network'] })
  const child = await desk.agent()
  const { id: run } = granted(await child.client('createRun', { body: { budget: { max_calls_per_run: 2 } } }))
  const propose = async (name: string) =>
    granted(await child.client('proposeCall', { params: { run }, body: { tool: name, args: {} } }))
  const asked = await propose(sensitive)
  const answer = { params: { id: asked.approval?.id ?? '' }, body: { decision: 'approve' as const } }
  expect(refusal(await child.client('answerApproval', answer))).toBe('403 forbidden')
  expect(refusal(await agent.client('proposeCall', { params: { run }, body: { tool, args: {} } }))).toBe(
    '404 not_found',
  )
  const never = `@id("${desk.name()}") forbid (principal, action == Action::"tool.execute/${tool}", resource) when { true };`
  await desk.withPolicies({ never }, async () => expect((await propose(tool)).state).toBe('denied'))
  granted(await desk.root('answerApproval', answer))
  await peer.run(asked.id)
  expect((await propose(tool)).state).toBe('granted')
  expect((await propose(tool)).decision.code).toBe('budget_spent')
})
