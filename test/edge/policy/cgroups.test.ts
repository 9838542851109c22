// Promise: policy may refuse tier C without cgroups, where limits apply to each process alone
// (`C-nocgroup`). The call then goes only to workers with cgroups, which is checked again at the
// claim.

import { expect, test } from 'vitest'
import { refusalOf, unwrap } from '../../support/fixtures.ts'
import { sharedStack } from '../../support/stack/stack.ts'
import { newTenant } from '../../support/tenants.ts'
import { PeerWorker } from '../../support/worker/peer-worker.ts'
import { processPlan } from '../../support/worker/process-plan.ts'

const fixtures = await newTenant(sharedStack(), 'cgroups')
const agent = await fixtures.agent()
const peer = await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool)
const tool = await fixtures.tool({ executor: { tiers: ['C'] } })
const on = `principal, action == Action::"tool.execute/${tool}", resource`
const propose = async () => unwrap(await agent.client('proposeCallInNewRun', { body: { tool, args: {} } }))
const claim = ({ id, run }: { id: string; run: string }, cgroups?: boolean) =>
  peer.client('claim', {
    body: { run, call: id, tiers: ['B', 'C'], ...(cgroups === undefined ? {} : { cgroups }) },
  })

test('without a rule about cgroups, any worker of the tier may claim the call', async () => {
  const call = await propose()
  expect(call.plan).not.toHaveProperty('cgroup')
  expect((await claim(call)).ok).toBe(true)
})

test('S28 a rule that requires cgroups restricts the call to workers that have them', async () => {
  const together = `@id("counted-together") forbid (${on}) unless { context.plan.cgroup };`
  await fixtures.withPolicies({ together }, async () => {
    const call = await propose()
    expect(call).toMatchObject({
      state: 'granted',
      decision: { effect: 'allow' },
      plan: { tier: 'C', cgroup: true },
    })
    for (const cgroups of [undefined, false])
      expect(refusalOf(await claim(call, cgroups))).toMatch(/sandbox_unavailable/)
    const alone = (ok: boolean) => ({ ok, lack: null, checks: [{ name: 'said by a test', ok, seen: '' }] })
    unwrap(await peer.prove(['B', 'C'], (proof) => ({ ...proof, cgroups: alone(false) })))
    expect(refusalOf(await claim(call, true))).toMatch(/sandbox_unavailable/) // K04: the claim states more than the worker has proven
    const told = unwrap(await fixtures.root('readWorker', { params: { worker: peer.id } }))
    expect([told.advertised, told.means.cgroups]).toEqual([['B', 'C-nocgroup'], false])
    unwrap(await peer.prove(['B', 'C']))
    const claimed = unwrap(await claim(call, true))
    expect(claimed.plan).toMatchObject({ tier: 'C', cgroup: true })
    for (const seen of [{}, { cgroup: false }])
      expect(refusalOf(await peer.settle(claimed, seen))).toBe('422 attestation_invalid')
    unwrap(await peer.settle(claimed, { cgroup: true }))
    const { attestation } = unwrap(
      await agent.client('readCall', { params: { run: call.run, call: call.id } }),
    )
    expect(attestation).toMatchObject({ executor: 'sandbox_tier_c_linux_bubblewrap', cgroup: true })
  })
})

test('a rule that requires an approval for tier C without cgroups asks nobody; the call goes to a worker with cgroups', async () => {
  const asks = `@id("alone-asks") forbid (${on}) when { !context.plan.cgroup } unless { context.approval.granted };`
  await fixtures.withPolicies({ asks }, async () => {
    const told = unwrap(await fixtures.root('decide', { body: { agent: agent.name, tool, args: {} } }))
    expect([told.decision.effect, processPlan(told.plan).cgroup]).toEqual(['allow', true])
    expect(told.decision.explanation?.plans).toEqual([
      { tier: 'C', egress: 'strict', policies: ['alone-asks'], asks: true },
    ])
  })
})

test('a rule may forbid claims of workers without cgroups, and the call waits for another worker', async () => {
  const whole = `@id("whole-workers") forbid (principal is Worker, action == Action::"worker.claim", resource) unless { principal.cgroups };`
  await fixtures.withPolicies({ whole }, async () => {
    const call = await propose()
    const none = { ok: false, lack: null, checks: [{ name: 'said by a test', ok: false, seen: '' }] }
    unwrap(await peer.prove(['B', 'C'], (proof) => ({ ...proof, cgroups: none })))
    expect(refusalOf(await claim(call, true))).toBe('403 forbidden')
    unwrap(await peer.prove(['B', 'C']))
    expect((await claim(call, true)).ok).toBe(true)
  })
})
