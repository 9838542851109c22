// Promise: other people's MCP clients wait through an approval. Their own promise resolves with the
// tool's real output once a human has answered, and the call runs once, even if they give up
// before.

import { beforeAll, describe, expect, test } from 'vitest'
import { eventually } from '../support/eventually.ts'
import { Fixtures, unwrap } from '../support/fixtures.ts'
import { sharedStack } from '../support/stack/stack.ts'
import { CLIENTS } from './clients/client.ts'

const fixtures = new Fixtures('clients', sharedStack())
let tool: string
beforeAll(async () => {
  const input_schema = { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] }
  tool = await fixtures.tool({
    sensitive: true,
    input_schema,
    executor: { argv: ['wc', '-c'], stdin: { arg: 'text' } },
  })
})

/** The one approval that the agent waits for. */
const approvalOf = (agent: string) =>
  eventually(`${agent} waits for an approval`, async () => {
    const { items } = unwrap(await fixtures.root('listApprovals', { query: {} }))
    return items.find(({ prompt }) => prompt.agent === agent)
  })

async function answer(agent: string, decision: 'approve' | 'deny') {
  const { id, digest } = await approvalOf(agent)
  unwrap(await fixtures.root('answerApproval', { params: { id }, body: { decision, digest } }))
}

describe.concurrent.each(CLIENTS)('$name', ({ open, afterGivingUp }) => {
  const agent = () => fixtures.agent({ pool: 'default', tools: [tool] })
  const statesOf = async ({ client }: Awaited<ReturnType<typeof agent>>) =>
    unwrap(await client('listCalls', { query: {} }))
      .items.map(({ state }) => state)
      .sort()
  const place = (key: string, wait?: number) => ({
    url: new URL('/mcp', fixtures.url),
    key,
    ...(wait === undefined ? {} : { wait }),
  })

  test('a client that waits gets the output of the one execution when a human approves', async () => {
    const principal = await agent()
    const client = await open(place(principal.key, 1))
    const reading = client.ask(tool, { text: 'seven77' })
    await eventually('it waits for the second time', () => client.asked() >= 2)
    await answer(principal.name, 'approve')
    expect(await reading).toMatch(/^7\n?$/)
    await eventually('the call is listed', async () => `${await statesOf(principal)}` === 'succeeded')
    await client.close()
  })

  test('a client that waits learns that a human denied the call', async () => {
    const principal = await agent()
    const client = await open(place(principal.key))
    const reading = client.ask(tool, { text: 'x' })
    await answer(principal.name, 'deny')
    expect(await reading).toContain('An approver said no')
    await eventually('the call is listed', async () => `${await statesOf(principal)}` === 'rejected')
    await client.close()
  })

  test('a client that gives up and asks again gets the output of the one execution', async () => {
    const principal = await agent()
    const client = await open(place(principal.key))
    const host = new AbortController()
    const given = client.ask(tool, { text: 'seven77' }, host.signal)
    const rejected = expect(given).rejects.toThrow()
    await approvalOf(principal.name)
    host.abort(new Error('the host gives up'))
    await rejected
    const [first] = afterGivingUp
    if (afterGivingUp.length > 1)
      await eventually('the first call has ended', async () => `${await statesOf(principal)}` === first)
    const before = client.asked()
    const reading = client.ask(tool, { text: 'seven77' })
    await eventually('it has asked again', () => client.asked() > before)
    await answer(principal.name, 'approve')
    expect(await reading).toMatch(
      /^(?:Joined call_\S+, which an identical request proposed before.*\n)?7\n?$/,
    )
    await eventually(
      'the calls are listed',
      async () => `${await statesOf(principal)}` === `${afterGivingUp}`,
    )
    await client.close()
  })
})
