// Usage as policies see it: of a run, of a session across its runs, and of one tool, in calls,
// denials, time and amounts. A cap holds exactly, however many calls arrive at once.

import { expect, test } from 'vitest'
import { refusalOf, toolSpec, unwrap } from '../../support/fixtures.ts'
import { sharedStack } from '../../support/stack/stack.ts'
import { newTenant } from '../../support/tenants.ts'
import { PeerWorker } from '../../support/worker/peer-worker.ts'

const fixtures = await newTenant(sharedStack(), 'usage')
const agent = await fixtures.agent()
const peer = await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool)
const PAYING = {
  spends: { arg: 'amount' },
  input_schema: { type: 'object', properties: { amount: { type: 'integer', minimum: 0 } } },
}

const capped = async (tool: string, cap: string, work: () => Promise<void>) => {
  const name = fixtures.name()
  const rule = `@id("${name}") forbid (principal, action == Action::"tool.execute/${tool}", resource) when { ${cap} };`
  await fixtures.withPolicies({ [name]: rule }, work)
}
const inNewRun = async (tool: string, session: string, args: Record<string, unknown> = {}) =>
  unwrap(await agent.client('proposeCallInNewRun', { body: { tool, args, run: { session } } }))
const inRun = async (run: string, tool: string, args: Record<string, unknown> = {}) =>
  unwrap(await agent.client('proposeCall', { params: { run }, body: { tool, args } }))
const newRun = async () => unwrap(await agent.client('createRun', { body: {} })).id
const count = (states: readonly { state: string }[], state: string) =>
  states.filter((call) => call.state === state).length

test('a cap of three lets through three calls from thirty simultaneous runs of one session, and each can still be claimed', async () => {
  const tool = await fixtures.tool()
  await capped(tool, 'context.budget.session.calls >= 3', async () => {
    const session = fixtures.name()
    const calls = await Promise.all(Array.from({ length: 30 }, () => inNewRun(tool, session)))
    expect([count(calls, 'granted'), count(calls, 'denied')]).toEqual([3, 27])
    for (const call of calls.filter(({ state }) => state === 'granted')) await peer.run(call.id)
    expect((await inNewRun(tool, session)).state).toBe('denied')
    expect((await inNewRun(tool, fixtures.name())).state).toBe('granted')
  })
})

test('a session with 160 open calls is counted exactly', async () => {
  const tool = await fixtures.tool()
  await capped(tool, 'context.budget.session.calls >= 160', async () => {
    const session = fixtures.name()
    const calls = []
    for (let i = 0; i < 161; i++) calls.push((await inNewRun(tool, session)).state)
    expect(calls).toEqual([...Array(160).fill('granted'), 'denied'])
  })
})

test('a session counts denials, and the calls of each tool separately', async () => {
  const tool = await fixtures.tool()
  const other = await fixtures.tool()
  const forbidden = await fixtures.tool()
  const session = fixtures.name()
  const never = `@id("${forbidden}") forbid (principal, action == Action::"tool.execute/${forbidden}", resource) when { true };`
  await fixtures.withPolicies({ [forbidden]: never }, async () => {
    await capped(
      tool,
      'context.budget.session.tool.calls >= 1 || context.budget.session.denied >= 2',
      async () => {
        expect((await inNewRun(other, session)).state).toBe('granted')
        expect((await inNewRun(tool, session)).state).toBe('granted')
        expect((await inNewRun(tool, session)).state).toBe('denied')
        const twice = fixtures.name()
        for (let i = 0; i < 2; i++) expect((await inNewRun(forbidden, twice)).state).toBe('denied')
        expect((await inNewRun(tool, twice)).state).toBe('denied')
      },
    )
  })
})

test('a policy can cap a run by the calls of one tool and by execution time', async () => {
  const tool = await fixtures.tool()
  const other = await fixtures.tool()
  await capped(tool, 'context.budget.run.tool.calls >= 2', async () => {
    const run = await newRun()
    await inRun(run, other)
    expect(count([await inRun(run, tool), await inRun(run, tool), await inRun(run, tool)], 'granted')).toBe(2)
  })
  await capped(tool, 'context.budget.run.time_ms >= 30', async () => {
    const run = await newRun()
    const first = await inRun(run, tool)
    const claim = unwrap(await peer.claim(first.id))
    const began = Date.now()
    while (Date.now() - began < 40) await inRun(run, other) // a running call uses time
    expect((await inRun(run, tool)).state).toBe('denied')
    unwrap(await peer.settle(claim))
    expect((await inRun(run, tool)).state).toBe('denied')
  })
})

test('amounts of allowed calls are summed, denied and cancelled calls spend nothing, and a tool whose amount could be negative is refused', async () => {
  const tool = await fixtures.tool(PAYING)
  const cap = 'context.args has amount && context.budget.session.tool.spent + context.args.amount > 1000'
  await capped(tool, cap, async () => {
    const session = fixtures.name()
    expect((await inNewRun(tool, session, { amount: 600 })).state).toBe('granted')
    expect((await inNewRun(tool, session, { amount: 500 })).state).toBe('denied')
    const last = await inNewRun(tool, session, { amount: 400 })
    expect(last.state).toBe('granted')
    expect((await inNewRun(tool, session, { amount: 1 })).state).toBe('denied')
    unwrap(await agent.client('cancelCall', { params: { run: last.run, call: last.id } }))
    expect((await inNewRun(tool, session, { amount: 400 })).state).toBe('granted')
  })
  expect(refusalOf(await agent.client('proposeCallInNewRun', { body: { tool, args: { amount: -1 } } }))).toBe(
    '422 invalid_arguments',
  )
  for (const amount of [
    { type: 'integer' },
    { type: 'number', minimum: 0 },
    { type: 'integer', minimum: -1 },
    { minimum: 0 },
    undefined,
  ]) {
    const body = toolSpec({
      ...PAYING,
      input_schema: { type: 'object', properties: amount === undefined ? {} : { amount } },
    })
    expect(refusalOf(await fixtures.root('putTool', { params: { name: fixtures.name() }, body }))).toBe(
      '422 invalid_schema',
    )
  }
})

test('a call that was cancelled while it ran has spent its amount', async () => {
  const tool = await fixtures.tool(PAYING)
  const cap = 'context.args has amount && context.budget.session.tool.spent + context.args.amount > 1000'
  await capped(tool, cap, async () => {
    const session = fixtures.name()
    const { run, id } = await inNewRun(tool, session, { amount: 600 })
    const claim = unwrap(await peer.claim(id))
    unwrap(await agent.client('cancelCall', { params: { run, call: id } }))
    unwrap(await peer.settle(claim, { outcome: { kind: 'cancelled' } }))
    expect(unwrap(await agent.client('readCall', { params: { run, call: id } })).state).toBe('cancelled')
    expect((await inNewRun(tool, session, { amount: 500 })).state).toBe('denied')
    expect((await inNewRun(tool, session, { amount: 400 })).state).toBe('granted')
  })
})

test('a call that waited for a human is decided by the use before it, not by later calls', async () => {
  const tool = await fixtures.tool({ capabilities: ['network'] })
  await capped(tool, 'context.budget.session.calls >= 2 || context.budget.run.calls >= 2', async () => {
    const session = fixtures.name()
    const { id: run } = unwrap(await agent.client('createRun', { body: { session } }))
    const [one, two] = [await inRun(run, tool), await inRun(run, tool)]
    expect([one.state, two.state, (await inRun(run, tool)).state]).toEqual([
      'awaiting_approval',
      'awaiting_approval',
      'denied',
    ])
    for (const { approval } of [two, one]) {
      const answer = unwrap(await fixtures.approve(approval?.id ?? ''))
      expect(answer.status).toBe('approved')
    }
    await peer.run(two.id)
    await peer.run(one.id)
  })
})

test('calls proposed before any policy counted are counted once one does: of two waiting calls, one is granted', async () => {
  const tool = await fixtures.tool({ capabilities: ['network'] })
  const session = fixtures.name()
  const calls = [await inNewRun(tool, session), await inNewRun(tool, session)]
  await capped(tool, 'context.budget.session.calls >= 1', async () => {
    const answers = await Promise.all(calls.map(({ approval }) => fixtures.approve(approval?.id ?? '')))
    expect(answers.map((answer) => unwrap(answer).status).sort()).toEqual(['approved', 'denied'])
  })
})

test('a repeated idempotency key reserves no second place in a cap, and a proposal that makes no call returns its place', async () => {
  const tool = await fixtures.tool({ input_schema: { type: 'object', required: ['text'] } })
  await capped(tool, 'context.budget.session.calls >= 2', async () => {
    const session = fixtures.name()
    const run = { session }
    const args = { text: 'x' }
    for (let i = 0; i < 3; i++)
      unwrap(
        await agent.client('proposeCallInNewRun', {
          body: { tool, args, run },
          headers: { 'idempotency-key': session },
        }),
      )
    expect(refusalOf(await agent.client('proposeCallInNewRun', { body: { tool, args: {}, run } }))).toBe(
      '422 invalid_arguments',
    )
    unwrap(await agent.client('decide', { body: { tool, args, run } }))
    await expect
      .poll(async () => unwrap(await agent.client('decide', { body: { tool, args, run } })).decision.effect)
      .toBe('allow')
    expect((await inNewRun(tool, session, args)).state).toBe('granted')
    expect((await inNewRun(tool, session, args)).state).toBe('denied')
  })
})

test('one of several concurrent proposals with one key creates a call, and the others give back only what they had reserved', async () => {
  const tool = await fixtures.tool()
  await capped(tool, 'context.budget.session.calls >= 1', async () => {
    for (let round = 0; round < 15; round++) {
      const session = fixtures.name()
      const { id: run } = unwrap(await agent.client('createRun', { body: { session } }))
      const rivals = await Promise.all(
        ['a', 'b', 'c'].map((text) =>
          agent.client('proposeCall', {
            params: { run },
            body: { tool, args: { text } },
            headers: { 'idempotency-key': session },
          }),
        ),
      )
      expect(rivals.filter(({ ok }) => ok)).toHaveLength(1)
      expect((await inNewRun(tool, session)).state).toBe('denied')
    }
  })
})

test('a session belongs to one agent: another agent’s calls under the same session name are counted separately', async () => {
  const tool = await fixtures.tool()
  const stranger = await fixtures.agent()
  await capped(tool, 'context.budget.session.calls >= 1', async () => {
    const session = fixtures.name()
    expect((await inNewRun(tool, session)).state).toBe('granted')
    expect(
      unwrap(await stranger.client('proposeCallInNewRun', { body: { tool, args: {}, run: { session } } }))
        .state,
    ).toBe('granted')
    expect((await inNewRun(tool, session)).state).toBe('denied')
  })
})

test('calls that people were asked about count as questions whatever the answer; calls that a standing answer decided don’t', async () => {
  const tool = await fixtures.tool({ sensitive: true })
  const approver = await fixtures.operator(['approver'])
  const say = async (id = '', body: { decision: 'approve' | 'deny'; scope?: 'session' }) =>
    unwrap(await approver.client('answerApproval', { params: { id }, body }))
  for (const cap of [
    'context.budget.session.asks',
    'context.budget.session.tool.asks',
    'context.budget.run.asks',
    'context.budget.run.tool.asks',
  ])
    await capped(tool, `${cap} >= 3`, async () => {
      const run = unwrap(await agent.client('createRun', { body: { session: fixtures.name() } })).id
      const [denied, approved] = [await inRun(run, tool), await inRun(run, tool)]
      await say(denied.approval?.id, { decision: 'deny' })
      await say(approved.approval?.id, { decision: 'approve', scope: 'session' })
      // Three more calls, none of which is a question.
      for (let i = 0; i < 3; i++) expect([cap, (await inRun(run, tool)).state]).toEqual([cap, 'granted'])
      const { items } = unwrap(await approver.client('listStanding', {}))
      for (const { id, agent: whose } of items)
        if (whose === agent.name) unwrap(await approver.client('revokeStanding', { params: { id } }))
      expect([cap, (await inRun(run, tool)).state]).toEqual([cap, 'awaiting_approval'])
      const last = await inRun(run, tool)
      expect([cap, last.state, last.decision.effect]).toEqual([cap, 'denied', 'deny'])
    })
})

test('P12 a cap of three questions an hour lets three through from forty runs and sessions at once, and calls without a question don’t count', async () => {
  const other = await fixtures.agent()
  const tool = await fixtures.tool({ sensitive: true })
  const plain = await fixtures.tool()
  const name = fixtures.name()
  const rule = `@id("${name}") forbid (principal == Agent::"${other.name}", action in Action::"tool.execute", resource)
    when { context.is_sensitive_action && context.budget.agent.asks_hour >= 3 };`
  await fixtures.withPolicies({ [name]: rule }, async () => {
    const propose = async (which: string) =>
      unwrap(
        await other.client('proposeCallInNewRun', {
          body: { tool: which, args: {}, run: { session: fixtures.name() } },
        }),
      )
    const dry = async () => unwrap(await other.client('decide', { body: { tool, args: {} } })).decision.effect
    // Calls without a question take no place, however many there are.
    expect(count(await Promise.all(Array.from({ length: 20 }, () => propose(plain))), 'granted')).toBe(20)
    expect(await dry()).toBe('ask')
    const calls = await Promise.all(Array.from({ length: 40 }, () => propose(tool)))
    expect([count(calls, 'awaiting_approval'), count(calls, 'denied')]).toEqual([3, 37])
    for (let i = 0; i < 3; i++) expect((await propose(tool)).state).toBe('denied')
    expect(await dry()).toBe('deny')
    expect((await propose(plain)).state).toBe('granted')
    // Each call is decided by the use before it, so an approval still counts.
    const [first] = calls.filter(({ state }) => state === 'awaiting_approval')
    if (first !== undefined) {
      unwrap(await fixtures.approve(first.approval?.id ?? ''))
      expect(
        unwrap(await other.client('readCall', { params: { run: first.run, call: first.id } })).state,
      ).toBe('granted')
    }
  })
})
