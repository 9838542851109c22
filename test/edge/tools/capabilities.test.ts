// Capabilities follow from the contract: a tool with secrets has `secrets_read` and one with hosts
// has `network`, whatever it declares.

import { expect, test } from 'vitest'
import { capabilitiesOf, isSensitive } from '../../../edge/tools/capabilities.ts'
import { Fixtures, toolSpec, unwrap } from '../../support/fixtures.ts'
import { sharedStack } from '../../support/stack/stack.ts'

const fixtures = new Fixtures('capabilities', sharedStack())
const HOSTS = { mode: 'strict' as const, hosts: ['example.com'] }

test('capabilities that follow from the contract are listed, each once', () => {
  const of = (change: Parameters<typeof toolSpec>[0]) => [
    capabilitiesOf(toolSpec(change)),
    isSensitive(toolSpec(change)),
  ]
  expect(of({})).toEqual([[], false])
  expect(of({ secrets: [] })).toEqual([[], false])
  expect(of({ secrets: ['db'] })).toEqual([['secrets_read'], true])
  expect(of({ egress: HOSTS })).toEqual([['network'], true])
  expect(of({ egress: HOSTS, capabilities: ['network', 'filesystem_read'] })).toEqual([
    ['network', 'filesystem_read'],
    true,
  ])
  expect(of({ sensitive: true })).toEqual([[], true])
})

test('a tool with secrets and hosts is sensitive whatever it declares; policies see its secrets, people see its risk', async () => {
  const agent = await fixtures.agent()
  const tool = await fixtures.tool({ secrets: ['db'], egress: HOSTS, capabilities: [] })
  unwrap(
    await fixtures.root('putSecret', {
      params: { name: 'db' },
      body: { value: 'correct horse', tools: [tool] },
    }),
  )
  const call = await fixtures.proposeForApproval(agent.client, tool)
  expect(call.decision.policies).toContain('sensitive-needs-approval')
  expect(unwrap(await fixtures.root('readApproval', { params: { id: call.approval.id } })).prompt.risk).toBe(
    'critical',
  )
  const listed = unwrap(await agent.client('listTools', {})).items.find(({ name }) => name === tool)
  expect(listed).toMatchObject({ sensitive: true, capabilities: ['secrets_read', 'network'] })
  const on = `principal, action == Action::"tool.execute/${tool}", resource`
  const texts = {
    db: `@id("no-db") forbid (${on}) when { context.plan.secrets.contains("db") && context.capabilities.contains("network") };`,
  }
  const { decision } = await fixtures.withPolicies(texts, async () =>
    unwrap(await fixtures.root('decide', { body: { agent: agent.name, tool, args: {} } })),
  )
  expect(decision).toMatchObject({ effect: 'deny', policies: ['no-db'] })
  expect(decision.explanation?.changes).toMatchObject([
    [{ words: 'plan.secrets without `db`', by: 'operator' }, { by: 'human' }],
  ])
  unwrap(await fixtures.root('cancelRun', { params: { run: call.run } }))
})
