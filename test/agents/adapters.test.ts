// Promise: in each framework a tool call runs on Countersign, a pending approval becomes the
// framework's own pause, and what follows is decided by the edge alone. The models are the
// frameworks' own scripted ones; the edge is real.

import { randomUUID } from 'node:crypto'
import { beforeAll, describe, expect, test } from 'vitest'
import { Countersign } from '../../clients/typescript/src/client.ts'
import { Fixtures, unwrap } from '../support/fixtures.ts'
import { sharedStack } from '../support/stack/stack.ts'
import { aiSdk } from './hosts/ai-sdk.ts'
import type { Outcome } from './hosts/host.ts'
import { langgraph } from './hosts/langgraph.ts'
import { mastra } from './hosts/mastra.ts'
import { openaiAgents } from './hosts/openai-agents.ts'

const fixtures = new Fixtures('adapters', sharedStack())
let key: string
let name: string
let asking: string
let counting: string
beforeAll(async () => {
  const schema = { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] }
  const executor = { argv: ['wc', '-c'], stdin: { arg: 'text' } }
  asking = await fixtures.tool({ sensitive: true, executor, input_schema: schema })
  counting = await fixtures.tool({ executor, input_schema: schema })
  ;({ key, name } = await fixtures.agent({ pool: 'default', tools: [asking, counting] }))
})

const client = (): Countersign => new Countersign({ url: fixtures.url, key })
const paused = (outcome: Outcome): Extract<Outcome, { kind: 'paused' }> => {
  if (outcome.kind === 'paused') return outcome
  throw new Error(`the run was not paused; the model read ${outcome.read}`)
}
/** Answers the one approval that the agent of these tests waits for. */
async function answer(decision: 'approve' | 'deny') {
  const { items } = unwrap(await fixtures.root('listApprovals', { query: {} }))
  const [first, ...others] = items.filter(({ prompt }) => prompt.agent === name)
  if (first === undefined || others.length > 0)
    throw new Error('the agent waits for none or for several approvals')
  const { id, digest } = first
  return unwrap(await fixtures.root('answerApproval', { params: { id }, body: { decision, digest } }))
}

describe.each([aiSdk, openaiAgents, langgraph, mastra])('$name', ({ begin }) => {
  const fresh = () => ({ conversation: `chat-${randomUUID()}`, id: `call_${randomUUID()}` })

  test('a call that needs no approval runs in the sandbox, and the model reads its output', async () => {
    const { conversation, id } = fresh()
    const outcome = await begin(client(), conversation, { id, tool: counting, args: { text: 'four' } })
    expect(outcome).toMatchObject({ kind: 'finished', read: expect.stringMatching(/\b4\b/) })
  })

  test('a pending approval pauses the run, and after the answer another process continues it', async () => {
    const { conversation, id } = fresh()
    const outcome = paused(
      await begin(client(), conversation, { id, tool: asking, args: { text: 'seven77' } }),
    )
    expect(outcome.shown).toContain(asking)
    const approved = await answer('approve')
    expect(await outcome.resume(client())).toMatchObject({
      kind: 'finished',
      read: expect.stringMatching(/\b7\b/),
    })
    // One proposal, one approval, one execution, however often the framework ran the tool.
    const run = unwrap(
      await fixtures.root('readRun', {
        params: { run: approved.call.replace(/^call_(\w+)_\d+$/, 'run_$1') },
      }),
    )
    expect(run).toMatchObject({ session: conversation, used: { calls: 1 } })
  })

  test('a rejected call never runs, and the model reads that a human said no', async () => {
    const { conversation, id } = fresh()
    const outcome = paused(await begin(client(), conversation, { id, tool: asking, args: { text: 'a' } }))
    await answer('deny')
    expect(await outcome.resume(client())).toMatchObject({
      kind: 'finished',
      read: expect.stringContaining('A human approver said no'),
    })
  })

  test('invalid arguments are refused, and the model reads what is wrong with them', async () => {
    const { conversation, id } = fresh()
    const outcome = await begin(client(), conversation, { id, tool: counting, args: { text: 4 } })
    // LangChain checks them itself, before it runs a tool.
    const read = expect.stringMatching(/Refused: .*text|did not match expected schema/s)
    expect(outcome).toMatchObject({ kind: 'finished', read })
  })

  test('a tool that policy forbids is denied with a reason, without a pause', async () => {
    const { conversation, id } = fresh()
    const forbid = `@reason("not in tests")
      forbid (principal, action in Action::"tool.execute", resource)
      when { context.session_id == "${conversation}" };`
    const outcome = await fixtures.withPolicies({ [`no-${conversation}`]: forbid }, () =>
      begin(client(), conversation, { id, tool: counting, args: { text: 'a' } }),
    )
    expect(outcome).toMatchObject({ kind: 'finished', read: expect.stringContaining('Denied by policy') })
  })
})
