// Promise: AuthZEN clients get Countersign's decisions by the Authorization API 1.0: the same as
// `POST /v1/decisions`, in the structure of the specification, and never a permit by accident. The
// structural cases follow the certification scenario of the AuthZEN working group.

import { expect, test } from 'vitest'
import { LIMITS } from '../../../shared/limits.ts'
import type { AccessDecision } from '../../../shared/wire/authzen.ts'
import { refusalOf, unwrap } from '../../support/fixtures.ts'
import { sharedStack } from '../../support/stack/stack.ts'
import { newTenant } from '../../support/tenants.ts'

const fixtures = await newTenant(sharedStack(), 'authzen')
const schema = {
  type: 'object',
  properties: { amount: { type: 'integer' }, to: { type: 'string' } },
  additionalProperties: false,
}
const pay = await fixtures.tool({ input_schema: schema })
const hidden = await fixtures.tool({ input_schema: schema })
const alice = await fixtures.agent({ tools: [pay] })
const bob = await fixtures.agent({ tools: [] })
const auditor = await fixtures.operator(['auditor'])

const on = `principal, action == Action::"tool.execute/${pay}", resource`
/** Above 100 a human approves; above 1,000 nobody can. */
const LIMITS_OF_PAY = {
  'authzen-ask': `@id("authzen-ask") @reason("large amounts need a human") forbid (${on}) when { context.args has amount && context.args.amount > 100 } unless { context.approval.granted };`,
  'authzen-never': `@id("authzen-never") @reason("too much") forbid (${on}) when { context.args has amount && context.args.amount > 1000 };`,
}

const about = (subject: string, args: Record<string, unknown> = {}, tool = pay) => ({
  subject: { type: 'agent', id: subject },
  action: { name: 'tools/call' },
  resource: { type: 'tool', id: tool, properties: { arguments: args } },
})
const EVALUATION = '/access/v1/evaluation'
const EVALUATIONS = '/access/v1/evaluations'

async function post(
  path: string,
  body: unknown,
  { key = alice.key, headers = {} }: { key?: string; headers?: Record<string, string> } = {},
) {
  return fetch(new URL(path, fixtures.url), {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...headers },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  })
}
async function evaluated(body: unknown, key?: string): Promise<AccessDecision> {
  const answer = await post(EVALUATION, body, key === undefined ? {} : { key })
  expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'application/json'])
  return (await answer.json()) as AccessDecision
}
async function decisions(body: unknown): Promise<boolean[]> {
  const answer = await post(EVALUATIONS, body)
  expect(answer.status).toBe(200)
  const { evaluations } = (await answer.json()) as { evaluations: AccessDecision[] }
  return evaluations.map(({ decision }) => decision)
}

test('an evaluation permits only what a proposal would allow without asking anybody', async () => {
  await fixtures.withPolicies(LIMITS_OF_PAY, async () => {
    const [small, large, huge] = [{ amount: 5 }, { amount: 500 }, { amount: 5_000 }]
    expect(await evaluated(about(alice.name, small))).toMatchObject({
      decision: true,
      context: { code: 'allowed' },
    })
    const asked = await evaluated(about(alice.name, large))
    expect(asked).toMatchObject({
      decision: false,
      context: {
        code: 'approval_required',
        reason: 'large amounts need a human',
        policies: [expect.any(String)],
      },
    })
    expect(asked.context.explanation?.changes.flat().map(({ by }) => by)).toContain('human')
    expect(await evaluated(about(alice.name, huge))).toMatchObject({
      decision: false,
      context: { code: 'denied', reason: expect.stringContaining('too much') },
    })
    // The hint leads to the route that asks people.
    expect(asked.context.access_request).toEqual({
      endpoint: expect.stringMatching(/^https?:\/\/.*\/v1\/calls$/),
      tool: pay,
    })
    const { pathname } = new URL(asked.context.access_request?.endpoint ?? '')
    const proposed = await post(pathname, { tool: pay, args: large })
    expect(await proposed.json()).toMatchObject({ state: 'awaiting_approval' })
  })
})

test('an evaluation says the same as a dry run of the same call, for agents and for operators', async () => {
  await fixtures.withPolicies(LIMITS_OF_PAY, async () => {
    for (const amount of [1, 101, 1_001])
      for (const [caller, agent] of [
        [alice, undefined],
        [auditor, alice.name],
      ] as const) {
        const body = { tool: pay, args: { amount }, ...(agent === undefined ? {} : { agent }) }
        const { decision } = unwrap(await caller.client('decide', { body }))
        const said = await evaluated(about(alice.name, { amount }), caller.key)
        expect(said.decision).toBe(decision.effect === 'allow')
        expect(said.context).toMatchObject({
          reason: decision.reason,
          code: decision.code,
          policies: decision.policies,
          policy_set: decision.policy_set,
        })
        expect(said.context.explanation).toEqual(decision.explanation)
      }
  })
})

test('an evaluation that fails has the decision `false`, and its context says why', async () => {
  const cases: [string, unknown, number, string][] = [
    [
      'another type of subject',
      { ...about(alice.name), subject: { type: 'user', id: 'alice' } },
      404,
      'agent',
    ],
    ['another action', { ...about(alice.name), action: { name: 'can_read' } }, 404, 'tools/call'],
    [
      'another type of resource',
      { ...about(alice.name), resource: { type: 'record', id: '1' } },
      404,
      'tool',
    ],
    ['a tool that is not there', about(alice.name, {}, 'never_there'), 404, 'no tool'],
    ['arguments that do not fit', about(alice.name, { amount: 'much' }), 422, 'amount'],
    [
      'arguments that are no object',
      { ...about(alice.name), resource: { type: 'tool', id: pay, properties: { arguments: [] } } },
      400,
      'arguments',
    ],
    ['a session that is no text', { ...about(alice.name), context: { session: 7 } }, 400, 'session'],
  ]
  for (const [title, body, status, reason] of cases) {
    const said = await evaluated(body)
    expect([title, said.decision, said.context.error?.status]).toEqual([title, false, status])
    expect(said.context.reason).toContain(reason)
  }
})

test('an agent can evaluate only itself, and learns nothing of other agents and of tools’ schemas', async () => {
  const [other, never] = [await evaluated(about(bob.name)), await evaluated(about('never-there'))]
  expect(other).toEqual(never)
  expect(other).toMatchObject({ decision: false, context: { error: { status: 403 } } })
  const [foreign, unknown] = [
    await evaluated(about(alice.name, { amount: 'much' }, hidden)),
    await evaluated(about(alice.name, { amount: 'much' }, `${hidden}x`)),
  ]
  expect(JSON.stringify(foreign).replaceAll(hidden, 'T')).toBe(
    JSON.stringify(unknown).replaceAll(`${hidden}x`, 'T'),
  )
  // An operator may ask about any agent, and learns if one does not exist.
  expect(await evaluated(about(alice.name), auditor.key)).toMatchObject({ decision: true })
  expect(await evaluated(about('never-there'), auditor.key)).toMatchObject({
    decision: false,
    context: { error: { status: 404 } },
  })
})

test('subject properties and unknown members change no decision', async () => {
  const told = {
    ...about(bob.name),
    subject: { type: 'agent', id: bob.name, properties: { tools: ['*'], role: 'admin' } },
    action: { name: 'tools/call', properties: { method: 'GET' } },
    context: { time: '2025-06-27T18:03-07:00', approval: { granted: true } },
    future: { nested: true },
  }
  expect((await evaluated(told, bob.key)).decision).toBe(false)
  expect((await evaluated({ ...told, ...about(alice.name), future: 1 })).decision).toBe(true)
})

test('the usage of the context’s session counts in the decision, and evaluations add nothing to it', async () => {
  const once = `@id("authzen-once") forbid (${on}) when { context.budget.session.calls >= 1 };`
  await fixtures.withPolicies({ 'authzen-once': once }, async () => {
    const [session, body] = ['authzen-session', about(alice.name, { amount: 1 })]
    const asked = { ...body, context: { session } }
    for (let i = 0; i < 3; i++) expect((await evaluated(asked)).decision).toBe(true)
    unwrap(
      await alice.client('proposeCallInNewRun', {
        body: { tool: pay, args: { amount: 1 }, run: { session } },
      }),
    )
    expect((await evaluated(asked)).decision).toBe(false)
    expect((await evaluated({ ...body, context: { session: 'another' } })).decision).toBe(true)
  })
})

test('evaluations take defaults, answer in order, and stop as `evaluations_semantic` says', async () => {
  await fixtures.withPolicies(LIMITS_OF_PAY, async () => {
    const { subject, action } = about(alice.name)
    const of = (...amounts: number[]) => ({
      subject,
      action,
      evaluations: amounts.map((amount) => ({ resource: about(alice.name, { amount }).resource })),
    })
    const semantic = (evaluations_semantic: string) => ({ options: { evaluations_semantic, another: 1 } })
    expect(await decisions(of(1, 5_000, 2))).toEqual([true, false, true])
    expect(await decisions({ ...of(1, 5_000, 2), ...semantic('execute_all') })).toEqual([true, false, true])
    expect(await decisions({ ...of(1, 5_000, 2), ...semantic('deny_on_first_deny') })).toEqual([true, false])
    expect(await decisions({ ...of(500, 2, 5_000), ...semantic('permit_on_first_permit') })).toEqual([
      false,
      true,
    ])
    // An entity replaces its default; what it lacks of type and id comes from the default, its
    // properties don't.
    const { type, id } = about(alice.name).resource
    const resource = about(alice.name, { amount: 5_000 }).resource
    const merging = [
      { resource: { id } },
      { resource: { type, properties: { arguments: { amount: 2 } } } },
      {},
    ]
    expect(await decisions({ subject, action, resource, evaluations: merging })).toEqual([true, true, false])
    // A context replaces its default as a whole.
    const context = { session: 7 }
    expect(await decisions({ ...of(1, 1), context })).toEqual([false, false])
    expect(await decisions({ ...about(alice.name), context, evaluations: [{}, { context: {} }] })).toEqual([
      false,
      true,
    ])
  })
})

test('an incomplete evaluation in a batch is denied, and the others are decided', async () => {
  const { subject, action, resource } = about(alice.name)
  const answer = await post(EVALUATIONS, {
    subject,
    action,
    evaluations: [{ resource }, {}, { resource: 7 }],
  })
  const { evaluations } = (await answer.json()) as { evaluations: AccessDecision[] }
  expect(evaluations.map(({ decision }) => decision)).toEqual([true, false, false])
  expect(evaluations[1]?.context.error).toMatchObject({ status: 400, code: 'invalid_request' })
})

test('a batch without evaluations is one evaluation', async () => {
  for (const evaluations of [{}, { evaluations: [] }]) {
    const answer = await post(EVALUATIONS, { ...about(alice.name), ...evaluations })
    expect([answer.status, await answer.json()]).toEqual([200, expect.objectContaining({ decision: true })])
    const { resource: _, ...without } = about(alice.name)
    expect((await post(EVALUATIONS, { ...without, ...evaluations })).status).toBe(400)
  }
})

test('malformed requests are refused with the statuses of the specification', async () => {
  const whole = about(alice.name)
  const { subject, action, resource } = whole
  const malformed: unknown[] = [
    { action, resource },
    { subject, resource },
    { subject, action },
    { ...whole, subject: { id: alice.name } },
    { ...whole, subject: { type: 'agent' } },
    { ...whole, action: {} },
    { ...whole, resource: { id: pay } },
    { ...whole, resource: { type: 'tool' } },
    { ...whole, subject: alice.name },
    { ...whole, action: { name: 123 } },
    { ...whole, context: 'none' },
    { ...whole, subject: { type: 'agent', id: 'a'.repeat(LIMITS.evaluation_name_chars + 1) } },
    '',
    '{"subject":',
    '[]',
    '{"subject":{"type":"agent","id":"a","id":"b"}}',
  ]
  for (const body of malformed) expect([body, (await post(EVALUATION, body)).status]).toEqual([body, 400])
  for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'application/jsonp'])
    expect((await post(EVALUATION, whole, { headers: { 'content-type': type } })).status).toBe(400)
  const many = { ...whole, evaluations: Array.from({ length: LIMITS.evaluations + 1 }, () => ({})) }
  expect((await post(EVALUATIONS, many)).status).toBe(400)
  expect((await post(EVALUATIONS, { ...whole, evaluations: [7] })).status).toBe(400)
  const semantic = { options: { evaluations_semantic: 'best_effort' } }
  expect((await post(EVALUATIONS, { ...whole, evaluations: [{}], ...semantic })).status).toBe(400)
  expect((await post(EVALUATION, whole, { key: 'cs_nobody' })).status).toBe(401)
  const nobody = await fixtures.operator([])
  expect((await post(EVALUATION, whole, { key: nobody.key })).status).toBe(403)
  expect(refusalOf(await nobody.client('evaluateAccess', { body: whole }))).toBe('403 forbidden')
})

test('a response repeats the request id of its request, refusals too', async () => {
  const id = 'bfe9eb29 ab87/4ca3="x"'
  const headers = { 'x-request-id': id }
  for (const [path, body, status] of [
    [EVALUATION, about(alice.name), 200],
    [EVALUATIONS, { ...about(alice.name), evaluations: [{}] }, 200],
    [EVALUATION, {}, 400],
    ['/access/v1/search/subject', {}, 404],
  ] as const) {
    const answer = await post(path, body, { headers })
    expect([answer.status, answer.headers.get('x-request-id')]).toEqual([status, id])
  }
  const unauthorized = await post(EVALUATION, about(alice.name), { key: 'cs_nobody', headers })
  expect([unauthorized.status, unauthorized.headers.get('x-request-id')]).toEqual([401, id])
  expect((await post(EVALUATION, about(alice.name))).headers.get('x-request-id')).toBeNull()
  const long = await post(EVALUATION, about(alice.name), {
    headers: { 'x-request-id': 'x'.repeat(LIMITS.request_id_chars + 1) },
  })
  expect([long.status, long.headers.get('x-request-id')]).toEqual([400, null])
})

test('the discovery document names the routes that answer', async () => {
  const found = await fetch(new URL('/.well-known/authzen-configuration', fixtures.url))
  expect([found.status, found.headers.get('content-type')]).toEqual([200, 'application/json'])
  const document = (await found.json()) as Record<string, string>
  const base = document['policy_decision_point'] ?? ''
  expect(document).toEqual({
    policy_decision_point: base,
    access_evaluation_endpoint: `${base}${EVALUATION}`,
    access_evaluations_endpoint: `${base}${EVALUATIONS}`,
  })
  expect(new URL(base).origin).toBe(base)
})
