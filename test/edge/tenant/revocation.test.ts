// Promise: revocations and policy changes apply to the next request when the router asks the
// tenant's object over RPC, as on Cloudflare and in `npm run dev`. (The other tests run one
// process, where the router reads the object's memory.)

import { afterAll, expect, test } from 'vitest'
import { Fixtures, refusalOf, unwrap } from '../../support/fixtures.ts'
import { startTestStack } from '../../support/stack/stack.ts'

const stack = await startTestStack({ edge: 'wrangler', worker: 'idle' })
afterAll(stack.stop)
const fixtures = new Fixtures('revocation', stack.dev)

test('a revoked agent is refused on the next request when the directory is read over RPC', async () => {
  for (let i = 0; i < 20; i++) {
    const agent = await fixtures.agent()
    expect(unwrap(await agent.client('listTools', {})).items).toBeDefined()
    unwrap(await fixtures.root('deleteAgent', { params: { name: agent.name } }))
    const answers = await Promise.all(Array.from({ length: 8 }, () => agent.client('listTools', {})))
    expect(new Set(answers.map(refusalOf))).toEqual(new Set(['401 unauthenticated']))
  }
})

test('a changed policy decides the next call when the directory is read over RPC', async () => {
  const agent = await fixtures.agent()
  const tool = await fixtures.tool()
  const effect = async () =>
    unwrap(await agent.client('decide', { body: { tool, args: {} } })).decision.effect
  const { policies } = unwrap(await fixtures.root('readPolicies', {}))
  const without = `@id("not-now") forbid (principal, action == Action::"tool.execute/${tool}", resource);`
  for (let i = 0; i < 10; i++) {
    expect(await effect()).toBe('allow')
    unwrap(await fixtures.root('putPolicies', { body: { policies: { ...policies, without } } }))
    expect(await effect()).toBe('deny')
    unwrap(await fixtures.root('putPolicies', { body: { policies } }))
  }
})
