// Promise: a secret that is bound to hosts never reaches a tool, only the proxy for requests to
// those hosts. A contract that asks for more is refused, or its calls are denied. Policy and
// approvers see which secret goes to which host.

import { afterAll, expect, test } from 'vitest'
import type { Credential } from '../../../shared/plan/plan.ts'
import type { ProcessToolSpec } from '../../../shared/wire/tools.ts'
import { Fixtures, refusalOf, toolSpec, unwrap } from '../../support/fixtures.ts'
import { sharedStack } from '../../support/stack/stack.ts'
import { PeerWorker } from '../../support/worker/peer-worker.ts'
import { processPlan } from '../../support/worker/process-plan.ts'

const fixtures = new Fixtures('credentials', sharedStack())
const peer = await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool)
const agent = await fixtures.agent()

const HOST = 'erp.example.com:8080'
const hosts = (...patterns: string[]): ProcessToolSpec['egress'] => ({ mode: 'strict', hosts: patterns })
const made: string[] = []
afterAll(async () => {
  for (const name of made) await fixtures.root('deleteSecret', { params: { name } })
})
async function secret(tool: string, bound?: string[], value = 'correct-horse-battery'): Promise<string> {
  const name = fixtures.name()
  const body = { value, tools: [tool], ...(bound === undefined ? {} : { hosts: bound }) }
  expect(unwrap(await fixtures.root('putSecret', { params: { name }, body })).hosts).toEqual(bound)
  made.push(name)
  return name
}
const using = (secret: string, change: Partial<Credential> = {}): Credential => ({
  secret,
  host: HOST,
  header: 'x-api-key',
  ...change,
})
const propose = async (tool: string, args = {}) =>
  unwrap(await agent.client('proposeCallInNewRun', { body: { tool, args } }))

test('V04 a claim hands a bound secret to the proxy and not to the tool, and card and policy name its host', async () => {
  const tool = fixtures.name()
  const name = await secret(tool, [HOST])
  await fixtures.tool(
    {
      egress: hosts('.example.com:8080'),
      credentials: [using(name, { format: 'Key {}' })],
      executor: { tiers: ['B', 'C'] },
    },
    tool,
  )
  const call = await fixtures.proposeForApproval(agent.client, tool)
  const { prompt } = unwrap(await fixtures.root('readApproval', { params: { id: call.approval.id } }))
  expect(prompt.plan).toContain(`with the secret ${name} added to its requests to ${HOST}`)
  unwrap(await fixtures.approve(call.approval.id))
  const claim = unwrap(await peer.claim(call.id))
  expect([claim.plan.tier, claim.plan.secrets, claim.plan.credentials]).toEqual([
    'C',
    [],
    [using(name, { format: 'Key {}' })],
  ])
  expect(claim.secrets).toEqual({ [name]: 'correct-horse-battery' })
  unwrap(await peer.settle(claim))
  const texts = {
    bound: `@id("not-${name}") forbid (principal, action in Action::"tool.execute", resource) when { context.plan.secrets.contains("${name}") };`,
  }
  await fixtures.withPolicies(texts, async () =>
    expect((await propose(tool)).decision.policies).toEqual([`not-${name}`]),
  )
})

test('V03 V04 a call is denied if its tool would receive a bound secret, send it to another host, or put more than a line into a header', async () => {
  const denied = async (
    change: (name: string) => Partial<ProcessToolSpec>,
    value?: string,
    bound: string[] | undefined = [HOST],
  ) => {
    const tool = fixtures.name()
    const name = await secret(tool, bound, value)
    unwrap(
      await fixtures.root('putTool', { params: { name: tool }, body: { ...toolSpec(), ...change(name) } }),
    )
    const { state, decision } = await propose(tool)
    expect([state, decision.policies]).toEqual(['denied', ['vault.secrets']])
    return decision.reason
  }
  expect(await denied((name) => ({ secrets: [name] }))).toMatch(/^there is no secret/)
  const elsewhere = (name: string) => ({
    egress: hosts('evil.example.com:8080'),
    credentials: [using(name, { host: 'evil.example.com:8080' })],
  })
  expect(await denied(elsewhere)).toMatch(/^there is no secret/)
  const here = (name: string) => ({ egress: hosts(HOST), credentials: [using(name)] })
  expect(await denied(here, 'two lines\r\nx-evil: 1')).toMatch(/not one line/)
})

test('a plan includes a credential only if the call may reach its host', async () => {
  const tool = fixtures.name()
  const name = await secret(tool)
  const input_schema = { type: 'object', properties: { url: { type: 'string' } }, required: ['url'] }
  const egress = { ...hosts(HOST, 'other.example.com:8080'), named_by: { url: 'url' } }
  await fixtures.tool({ input_schema, egress, credentials: [using(name)] }, tool)
  const planned = async (url: string) => {
    const call = await fixtures.proposeForApproval(agent.client, tool, { url })
    unwrap(await fixtures.root('cancelRun', { params: { run: call.run } }))
    return processPlan(call.plan).credentials
  }
  expect(await planned(`http://${HOST}/orders`)).toEqual([using(name)])
  expect(await planned('http://other.example.com:8080/')).toBeUndefined()
})

test('a contract with a credential for a host outside its egress, for another kind of header, or twice for one header is refused', async () => {
  const put = (credentials: Credential[], change: Partial<ProcessToolSpec> = {}) =>
    fixtures.root('putTool', {
      params: { name: fixtures.name() },
      body: { ...toolSpec({ egress: hosts(HOST), ...change }), credentials },
    })
  unwrap(await put([using('any'), using('any', { header: 'authorization' })]))
  for (const wrong of [
    using('any', { host: 'other.example.com:80' }),
    using('any', { host: '.example.com:8080' }),
    using('any', { host: 'erp.example.com' }),
    using('any', { header: 'host' }),
    using('any', { header: 'content-length' }),
    using('any', { header: 'X-Api-Key' }),
    using('any', { header: 'x-a\r\nb' }),
    using('any', { format: 'no place' }),
    using('any', { format: '{}\n' }),
    using('any', { format: '{} {}' }),
  ])
    expect([wrong, refusalOf(await put([wrong]))]).toEqual([wrong, '400 invalid_request'])
  expect(refusalOf(await put([using('one'), using('two')]))).toBe('400 invalid_request')
  const inTierB = toolSpec({ executor: { tiers: ['B'] } }).executor
  expect(refusalOf(await put([using('any')], { executor: inTierB }))).toBe('400 invalid_request')
})
