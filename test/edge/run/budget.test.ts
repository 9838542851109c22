// A run spends no more than its budget, and gets no more refusals than allowed. The smallest limit
// of agent, run and tool applies.

import { expect, test } from 'vitest'
import { DEFAULT_BUDGET, LIMITS } from '../../../shared/limits.ts'
import { Fixtures, refusalOf, unwrap } from '../../support/fixtures.ts'
import { sharedStack } from '../../support/stack/stack.ts'

const fixtures = new Fixtures('budget', sharedStack())
const agent = await fixtures.agent()
const tool = await fixtures.tool()
const sensitive = await fixtures.tool({ capabilities: ['network'] })
const forbidden = await fixtures.tool()
const narrow = await fixtures.agent({ tools: [tool, sensitive] })

type Client = typeof agent.client
const open = async (by: Client, budget: Partial<typeof DEFAULT_BUDGET> | Record<string, number> = {}) =>
  unwrap(await by('createRun', { body: { budget } }))
const propose = (by: Client, run: string, name = tool, args: Record<string, unknown> = {}) =>
  by('proposeCall', { params: { run }, body: { tool: name, args } })
const used = async (run: string) => unwrap(await agent.client('readRun', { params: { run } })).used

test('a run’s budget is the agent’s or the default, and a run can only lower it', async () => {
  expect((await open(agent.client)).budget).toEqual(DEFAULT_BUDGET)
  expect((await open(agent.client, { max_calls_per_run: 3 })).budget).toEqual({
    ...DEFAULT_BUDGET,
    max_calls_per_run: 3,
  })
  expect(
    (await open(agent.client, { max_calls_per_run: 100_000, execution_timeout_ms: 1_800_000 })).budget,
  ).toEqual(DEFAULT_BUDGET)
  const rich = await fixtures.agent({ budget: { max_calls_per_run: 1_000, execution_timeout_ms: 500 } })
  expect((await open(rich.client)).budget).toEqual({
    ...DEFAULT_BUDGET,
    max_calls_per_run: 1_000,
    execution_timeout_ms: 500,
  })
  expect((await open(rich.client, { max_calls_per_run: 5, execution_timeout_ms: 900 })).budget).toEqual({
    ...DEFAULT_BUDGET,
    max_calls_per_run: 5,
    execution_timeout_ms: 500,
  })
})

test('a spent budget denies calls with an attestation and a count; a denied call spends nothing', async () => {
  const run = await open(narrow.client, { max_calls_per_run: 2 })
  expect(unwrap(await propose(narrow.client, run.id, forbidden)).state).toBe('denied')
  expect(unwrap(await propose(narrow.client, run.id)).state).toBe('granted')
  expect(unwrap(await propose(narrow.client, run.id, sensitive)).state).toBe('awaiting_approval')
  const third = unwrap(await propose(narrow.client, run.id))
  expect(third).toMatchObject({
    state: 'denied',
    decision: { effect: 'deny', code: 'budget_spent' },
    result: { error: { code: 'budget_spent' } },
  })
  expect(third.attestation?.executor).toBe('edge')
  expect(unwrap(await narrow.client('readRun', { params: { run: run.id } })).used).toEqual({
    calls: 2,
    denied: 2,
  })
})

test('a budget of ten lets exactly ten of fifty simultaneous proposals through', async () => {
  const run = await open(agent.client, { max_calls_per_run: 10, max_denied_per_run: 24 })
  const answers = await Promise.all(Array.from({ length: 30 }, () => propose(agent.client, run.id)))
  expect(answers.filter((answer) => answer.ok && answer.value.state === 'granted')).toHaveLength(10)
  expect(answers.filter((answer) => answer.ok && answer.value.state === 'denied')).toHaveLength(20)
  expect(await used(run.id)).toEqual({ calls: 10, denied: 20 })
})

test('a budget of zero lets no call through', async () => {
  const run = await open(agent.client, { max_calls_per_run: 0 })
  expect(unwrap(await propose(agent.client, run.id))).toMatchObject({
    state: 'denied',
    decision: { code: 'budget_spent' },
  })
})

test('refused proposals count too: an agent that keeps trying arguments is stopped', async () => {
  const run = await open(agent.client, { max_denied_per_run: 5 })
  expect(refusalOf(await propose(agent.client, run.id, 'no_such_tool'))).toBe('404 not_found')
  expect(refusalOf(await propose(agent.client, run.id, tool, { text: 5 }))).toBe('422 invalid_arguments')
  expect(refusalOf(await propose(agent.client, run.id, 'no_such_tool'))).toBe('404 not_found')
  expect(await used(run.id)).toEqual({ calls: 0, denied: 3 })
  expect(refusalOf(await propose(agent.client, run.id, 'no_such_tool'))).toBe('404 not_found')
  expect(refusalOf(await propose(agent.client, run.id, 'no_such_tool'))).toBe('404 not_found')
  for (let i = 0; i < 3; i++) expect(refusalOf(await propose(agent.client, run.id))).toBe('409 run_ended')
  expect(await used(run.id)).toEqual({ calls: 0, denied: 5 })
})

test('the smallest timeout applies, and is in the plan that is decided and signed', async () => {
  const timeouts = async (tool_ms: number, agent_ms: number, run_ms: number, asked: number | undefined) => {
    const name = await fixtures.tool({
      input_schema: { type: 'object', properties: { ms: { type: 'integer' } } },
      executor: { timeout_ms: { arg: 'ms' } },
      limits: { timeout_ms: tool_ms },
    })
    const by = await fixtures.agent({ budget: { execution_timeout_ms: agent_ms } })
    const run = await open(by.client, { execution_timeout_ms: run_ms })
    return unwrap(await propose(by.client, run.id, name, asked === undefined ? {} : { ms: asked })).plan
      ?.limits.timeout_ms
  }
  expect(await timeouts(1_000, 2_000, 3_000, 4_000)).toBe(1_000)
  expect(await timeouts(2_000, 1_000, 3_000, 4_000)).toBe(1_000)
  expect(await timeouts(3_000, 2_000, 1_000, 4_000)).toBe(1_000)
  expect(await timeouts(4_000, 3_000, 2_000, 1_000)).toBe(1_000)
  expect(await timeouts(2_000, 3_000, 4_000, undefined)).toBe(2_000)
})

test('P12 a run with too many open approvals gets no further one until some are answered', async () => {
  const run = await open(agent.client)
  const many = await Promise.all(
    Array.from({ length: LIMITS.pending_approvals_per_run + 5 }, () =>
      propose(agent.client, run.id, sensitive),
    ),
  )
  const waiting = many.flatMap((answer) => (answer.ok ? [answer.value] : []))
  expect(waiting).toHaveLength(LIMITS.pending_approvals_per_run)
  expect(new Set(many.filter(({ ok }) => !ok).map(refusalOf))).toEqual(new Set(['429 too_many_pending']))
  expect(unwrap(await propose(agent.client, run.id)).state).toBe('granted')
  unwrap(
    await fixtures.root('answerApproval', {
      params: { id: waiting[0]?.approval?.id ?? '' },
      body: { decision: 'deny' },
    }),
  )
  expect(unwrap(await propose(agent.client, run.id, sensitive)).state).toBe('awaiting_approval')
  unwrap(await agent.client('cancelRun', { params: { run: run.id } }))
})

test('malformed budgets are refused', async () => {
  for (const budget of [
    { max_calls_per_run: -1 },
    { max_calls_per_run: 1.5 },
    { execution_timeout_ms: 0 },
    { max_calls_per_run: '5' },
    { unknown: 1 },
    { max_calls_per_run: 1e9 },
  ]) {
    expect([
      budget,
      refusalOf(await agent.client('createRun', { body: { budget: budget as Record<string, number> } })),
    ]).toEqual([budget, '400 invalid_request']) // wrong on purpose
  }
})
