// Promise: revocations and policy changes apply to the next request when the router asks the
// tenant's object over RPC, as on Cloudflare and in `npm run dev`. (The other tests run one
// process, where the router reads the object's memory.)

import { afterAll, expect, test } from 'vitest'
import { Desk, granted, refusal } from '../../support/fixtures.ts'
import { startTestStack } from '../../support/stack/stack.ts'

const stack = await startTestStack({ edge: 'wrangler' })
afterAll(stack.stop)
const desk = new Desk('revocation', stack.dev)

test('a revoked agent is refused on the next request when the directory is read over RPC', async () => {
  for (let i = 0; i < 20; i++) {
    const agent = await desk.agent()
    expect(granted(await agent.client('listTools', {})).items).toBeDefined()
    granted(await desk.root('deleteAgent', { params: { name: agent.name } }))
    const answers = await Promise.all(Array.from({ length: 8 }, () => agent.client('listTools', {})))
    expect(new Set(answers.map(refusal))).toEqual(new Set(['401 unauthenticated']))
  }
})

test('a changed policy decides the next call when the directory is read over RPC', async () => {
  const agent = await desk.agent()
  const tool = await desk.tool()
  const effect = async () =>
    granted(await agent.client('decide', { body: { tool, args: {} } })).decision.effect
  const { policies } = granted(await desk.root('readPolicies', {}))
  const without = `@id("not-now") forbid (principal, action == Action::"tool.execute/${tool}", resource);`
  for (let i = 0; i < 10; i++) {
    expect(await effect()).toBe('allow')
    granted(await desk.root('putPolicies', { body: { policies: { ...policies, without } } }))
    expect(await effect()).toBe('deny')
    granted(await desk.root('putPolicies', { body: { policies } }))
  }
})
