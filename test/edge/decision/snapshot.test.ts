// The snapshot of a decision can be read later, and no other one passes for it.

import { expect, test } from 'vitest'
import { digestOf } from '../../../shared/bytes/json.ts'
import { verifyBundle } from '../../../shared/evidence/bundle.ts'
import { PolicySnapshot } from '../../../shared/evidence/policy-snapshot.ts'
import { refusalOf, unwrap } from '../../support/fixtures.ts'
import { sharedStack } from '../../support/stack/stack.ts'
import { newTenant } from '../../support/tenants.ts'
import { grantOf, PeerWorker } from '../../support/worker/peer-worker.ts'

const fixtures = await newTenant(sharedStack(), 'snapshot')
const agent = await fixtures.agent()
const peer = await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool)
const runOf = async () =>
  unwrap(await agent.client('createRun', { body: { budget: { max_calls_per_run: 7 } } })).id
const propose = async (run: string, tool: string) =>
  unwrap(await agent.client('proposeCall', { params: { run }, body: { tool, args: {} } }))
const read = async ({ run, id }: { run: string; id: string }, by = agent.client) =>
  unwrap(await by('readSnapshot', { params: { run, call: id } }))

test('the snapshot has the digest that decision and attestation name, for the agent and for operators', async () => {
  const tool = await fixtures.tool({
    egress: { mode: 'strict', hosts: ['example.com'] },
    limits: { timeout_ms: 900_000 },
  })
  const call = await propose(await runOf(), tool) // it asks, because the tool has hosts
  unwrap(await fixtures.approve(call.approval?.id ?? ''))
  await peer.run(call.id)
  const snapshot = await read(call)
  expect(PolicySnapshot.parse(snapshot)).toEqual(snapshot)
  expect(digestOf(snapshot)).toBe(call.decision.snapshot)
  expect(await read(call, fixtures.root)).toEqual(snapshot)
  const bundle = unwrap(await agent.client('readAttestation', { params: { run: call.run, call: call.id } }))
  expect(
    JSON.parse(Buffer.from(bundle.envelope.payload, 'base64').toString()).predicate.facts.decision.snapshot,
  ).toBe(digestOf(snapshot))
  expect(snapshot).toMatchObject({
    policy_set: call.decision.policy_set,
    allowed_tools: ['*'],
    budget: { max_calls_per_run: 7 },
    tool: { name: tool, version: 1 },
    process_runner: { tiers: ['C'], allowed_hosts: ['example.com'], limits: { timeout_ms: 120_000 } },
    wasm_runtime: null,
  })
})

test('a denied call has a snapshot too, and later changes of policy, agent or tool don’t change it', async () => {
  const tool = await fixtures.tool()
  const run = await runOf()
  const first = await propose(run, tool)
  const before = await read(first)
  const never = `@id("${fixtures.name()}") forbid (principal, action == Action::"tool.execute/${tool}", resource) when { true };`
  const denied = await fixtures.withPolicies({ never }, () => propose(run, tool))
  expect(denied.state).toBe('denied')
  expect(digestOf(await read(denied))).toBe(denied.decision.snapshot)
  expect(denied.decision.snapshot).not.toBe(first.decision.snapshot)
  unwrap(
    await fixtures.root('putAgent', {
      params: { name: agent.name },
      body: { tools: ['*'], groups: ['other'], pool: fixtures.pool },
    }),
  )
  const third = await propose(run, tool)
  expect((await read(third)).groups).toEqual(['other'])
  expect(await read(first)).toEqual(before)
  expect(digestOf(before)).toBe(first.decision.snapshot)
})

test('an answer records the snapshot that applied when it was given', async () => {
  const tool = await fixtures.tool({ capabilities: ['network'] })
  const call = await fixtures.proposeForApproval(agent.client, tool)
  const idle = `@id("${fixtures.name()}") forbid (principal, action == Action::"tool.execute/${await fixtures.tool()}", resource);`
  await fixtures.withPolicies({ idle }, async () => unwrap(await fixtures.approve(call.approval.id)))
  const now = unwrap(await agent.client('readCall', { params: { run: call.run, call: call.id } }))
  expect(now.decision.snapshot).not.toBe(call.decision.snapshot)
  expect(digestOf(await read(call))).toBe(now.decision.snapshot)
})

test('grant, attestation, journal and call name the snapshot in force at the claim', async () => {
  const asked = await fixtures.tool({ capabilities: ['network'] })
  for (const tool of [await fixtures.tool(), asked]) {
    const call = await propose(await runOf(), tool)
    const [approval, id] = [call.approval?.id, fixtures.name()]
    if (approval !== undefined) unwrap(await fixtures.approve(approval))
    const may = `@id("${id}") permit (principal, action == Action::"tool.execute/${tool}", resource);`
    const claim = await fixtures.withPolicies({ may }, async () => unwrap(await peer.claim(call.id)))
    const { decision } = grantOf(claim.grant).facts
    expect(decision).toMatchObject({
      effect: tool === asked ? 'ask' : 'allow',
      policies: expect.arrayContaining([id]),
    })
    expect(decision.policy_set).not.toBe(call.decision.policy_set)
    unwrap(await peer.settle(claim))
    const snapshot = await read(call)
    expect(snapshot.policy_set).toBe(decision.policy_set)
    expect(digestOf(snapshot)).toBe(decision.snapshot)
    const params = { run: call.run, call: call.id }
    expect(unwrap(await agent.client('readCall', { params })).decision).toMatchObject(decision)
    const bundle = unwrap(await agent.client('readAttestation', { params }))
    expect(
      JSON.parse(Buffer.from(bundle.envelope.payload, 'base64').toString()).predicate.facts.decision,
    ).toEqual(decision)
    const entries = unwrap(await agent.client('readJournal', { params: { run: call.run }, query: {} })).items
    const { policy_set, snapshot: digest } = decision
    expect(entries.find(({ kind }) => kind === 'claimed')?.body).toMatchObject({
      policy_set,
      snapshot: digest,
    })
  }
})

test('a bundle has the snapshot of its call, and verifies with no other', async () => {
  const call = await propose(await runOf(), await fixtures.tool())
  await peer.run(call.id)
  const params = { run: call.run, call: call.id }
  const bundle = unwrap(await agent.client('readAttestation', { params }))
  const { snapshot } = bundle
  expect(snapshot).toEqual(unwrap(await agent.client('readSnapshot', { params })))
  const keys = unwrap(await agent.client('keys', { query: { tenant: 'snapshot' } }))
  expect(verifyBundle(bundle, keys)).toMatchObject({ ok: true })
  expect(verifyBundle({ ...bundle, snapshot: { ...snapshot, allowed_tools: [] } }, keys).ok).toBe(false)
})

test('an agent can’t read the snapshots of another agent', async () => {
  const call = await propose(await runOf(), await fixtures.tool())
  const stranger = await fixtures.agent()
  expect(refusalOf(await stranger.client('readSnapshot', { params: { run: call.run, call: call.id } }))).toBe(
    '404 not_found',
  )
})
