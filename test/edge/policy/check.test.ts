// Promise: before a policy set is put, one can check why it would be refused and what it would
// decide. The check changes nothing, and putting the set gives the same results.

import { expect, test } from 'vitest'
import { LIMITS } from '../../../shared/limits.ts'
import type { Input } from '../../../shared/routes/client.ts'
import { Fixtures, refusalOf, unwrap } from '../../support/fixtures.ts'
import { sharedStack } from '../../support/stack/stack.ts'

const fixtures = new Fixtures('check', sharedStack())
const tool = await fixtures.tool({
  input_schema: { type: 'object', properties: { amount: { type: 'integer' } }, required: ['amount'] },
})
const pay = `Action::"tool.execute/${tool}"`
const { policies: defaults } = unwrap(await fixtures.root('readPolicies', {}))
const rule = (when: string) =>
  `@id("limit")\n@reason("too much")\nforbid (principal, action == ${pay}, resource)\nwhen { ${when} };`
const TWO = rule('context.args.amount > 100 && !context.approval.quorum.contains("2 of finance")')

type Body = NonNullable<Input<'checkPolicies'>['body']>
const check = async (body: Body) => unwrap(await fixtures.root('checkPolicies', { body }))
const refund = (amount: number, approved_by: string[] = []) => ({
  request: { agent: 'clerk', tool, args: { amount } },
  approved_by,
})
const PEOPLE = {
  agents: { clerk: { tools: ['*'] } },
  operators: {
    ann: { roles: ['approver', 'finance'] },
    ben: { roles: ['approver', 'finance'] },
    eve: { roles: ['approver', 'support'] },
    zoe: { roles: ['finance'] },
  },
}
type Cases = NonNullable<Body['cases']>
const decided = async (
  cases: Cases['cases'],
  more: Partial<Cases> = {},
  policies: Body['policies'] = { ...defaults, limit: TWO },
) => {
  const { refusal: why, results } = await check({
    policies,
    cases: { about: 'a test', ...PEOPLE, ...more, cases },
  })
  expect(why).toBeNull()
  return results
}

test('checking a policy set refuses what storing it would, with the same code, positions and messages', async () => {
  for (const text of [
    'permit (principal, action resource);',
    rule('context.args.amuont > 1'),
    rule('context.args.amount > "1"'),
  ]) {
    const policies = { ...defaults, limit: text }
    const put = await fixtures.root('putPolicies', { body: { policies, activate: false } })
    if (put.ok) throw new Error(`was put: ${text}`)
    const { refusal: why, findings, results } = await check({ policies })
    expect([why, results]).toEqual([{ code: put.error.code, detail: put.error.detail }, []])
    expect(findings).toEqual(put.error.errors?.map((error) => ({ ...error, severity: 'error' })))
    expect(findings[0]?.at).toMatch(/^limit:\d+:\d+$/)
  }
  expect(await check({ policies: { ...defaults, 'floor.sensitive': '' } })).toMatchObject({
    refusal: { code: 'invalid_policy' },
  })
})

test('checking a valid policy set stores nothing and puts nothing in force', async () => {
  const before = [
    unwrap(await fixtures.root('readPolicies', {})),
    unwrap(await fixtures.root('listPolicyVersions', {})),
  ]
  expect(await check({ policies: { ...defaults, limit: TWO } })).toMatchObject({ refusal: null, results: [] })
  expect(await check({})).toMatchObject({ refusal: null, results: [] })
  await decided([{ description: 'all of it', ...refund(101, ['ann']), expect: { effect: 'ask' } }])
  expect([
    unwrap(await fixtures.root('readPolicies', {})),
    unwrap(await fixtures.root('listPolicyVersions', {})),
  ]).toEqual(before)
  for (const list of ['listAgents', 'listOperators'] as const) {
    const { items } = unwrap(await fixtures.root(list, {}))
    expect(items.filter(({ name }) => ['clerk', 'ann', 'ben', 'eve', 'zoe'].includes(name))).toEqual([])
  }
})

test('checking a policy set reports that it would lock its author out, although it could be stored', async () => {
  const { refusal: why, findings } = await check({
    policies: {
      open: '@id("open") @reason("all") permit (principal is Agent, action in Action::"tool.execute", resource);',
    },
  })
  expect([why, findings]).toEqual([
    null,
    [expect.objectContaining({ severity: 'error', message: expect.stringContaining('policy.activate') })],
  ])
})

test('a case is decided from its proposal through each approval, by the people the set requires', async () => {
  const results = await decided([
    { description: 'small', ...refund(100), expect: { effect: 'allow' } },
    {
      description: 'large',
      ...refund(101),
      expect: { effect: 'ask', policies: ['limit'], reason: 'too much' },
    },
    { description: 'one yes', ...refund(101, ['ann']), expect: { effect: 'ask' } },
    {
      description: 'two',
      ...refund(101, ['ann', 'ben']),
      expect: { effect: 'allow', plan: { tier: 'C', egress: 'strict', hosts: [] } },
    },
    { description: 'one of another role', ...refund(101, ['ann', 'eve']), expect: { effect: 'ask' } },
    { description: 'one who may not approve', ...refund(101, ['ann', 'zoe']), expect: { effect: 'ask' } },
  ])
  expect(results.filter(({ passed }) => !passed)).toEqual([])
})

test('a failed case names the members that differ', async () => {
  const results = await decided([
    { description: 'effect', ...refund(101), expect: { effect: 'allow' } },
    { description: 'policies', ...refund(101), expect: { effect: 'ask', policies: ['limit', 'other'] } },
    { description: 'reason', ...refund(101), expect: { effect: 'ask', reason: 'much too much' } },
    { description: 'code', ...refund(101), expect: { effect: 'ask', code: 'allowed' } },
    { description: 'plan', ...refund(1), expect: { effect: 'allow', plan: { tier: 'B', egress: 'none' } } },
    { description: 'silent', ...refund(101), expect: { effect: 'ask' }, silent: ['too much'] },
    { description: 'nobody was asked', ...refund(1, ['ann']), expect: { effect: 'allow' } },
  ])
  expect(results.map(({ differs }) => differs)).toEqual([
    ['effect'],
    ['policies'],
    ['reason'],
    ['code'],
    ['plan'],
    ['silent'],
    ['approved_by'],
  ])
  expect(results[0]).toMatchObject({
    expected: { effect: 'allow' },
    got: { effect: 'ask', code: 'approval_required', policies: ['limit'] },
  })
  expect(results[6]?.got).toMatchObject({ effect: 'allow', unasked: 'ann' })
})

test.each([
  ['an unknown agent', { request: { agent: 'nobody', tool } }, /no agent `nobody`/],
  ['an unknown tool', { request: { agent: 'clerk', tool: 'check_nothing' } }, /no tool `check_nothing`/],
  ['arguments that do not fit', { request: { agent: 'clerk', tool, args: { amount: 'x' } } }, /do not fit/],
  ['an unknown operator', refund(101, ['max']), /no operator `max`/],
  ['an unknown set to add', { ...refund(1), with: ['other'] }, /`other`/],
  ['an unknown text to remove', { ...refund(1), without: ['other'] }, /`other`/],
  ['a set named like a property of every object', { ...refund(1), with: ['constructor'] }, /`constructor`/],
  ['a text named like a property of every object', { ...refund(1), without: ['toString'] }, /`toString`/],
  ['an invalid set', { ...refund(1), with: ['wrong'] }, /wrong:1:\d+/],
] as const)('a case with %s gets no decision, and the result says why', async (_, one, why) => {
  const mutable = structuredClone(one) as unknown as Omit<Cases['cases'][number], 'description' | 'expect'> // as the table has it
  const [result] = await decided([{ description: 'it', ...mutable, expect: { effect: 'allow' } }], {
    sets: { wrong: ['permit'] },
  })
  expect(result).toMatchObject({
    passed: false,
    got: { effect: 'refused', reason: expect.stringMatching(why) },
  })
})

test('a case sets its own time and usage', async () => {
  const night = {
    open: rule('context.now.toTime() >= duration("20h")'),
    spent: rule('context.budget.session.tool.spent > 500').replace('limit', 'cap'),
  }
  const policies = { ...defaults, ...night }
  const results = await decided(
    [
      { description: 'by day', ...refund(1), expect: { effect: 'allow' } },
      {
        description: 'at night',
        ...refund(1),
        at: '2026-11-18T21:00:00Z',
        expect: { effect: 'deny', policies: ['limit'] },
      },
      {
        description: 'spent',
        ...refund(1),
        used: { run: { tool: { spent: 501 } } },
        expect: { effect: 'deny', policies: ['cap'] },
      },
    ],
    {},
    policies,
  )
  expect(results.filter(({ passed }) => !passed)).toEqual([])
})

test('a case’s approvals come only from the operators it names', async () => {
  await fixtures.operator(['approver', 'treasury'])
  const two = { ...defaults, limit: TWO.replace('2 of finance', '2 of treasury') }
  const one = { description: 'it', ...refund(101), expect: { effect: 'deny' as const, policies: ['limit'] } }
  const operators = { tom: { roles: ['approver', 'treasury'] } }
  expect(await decided([one], { operators }, two)).toMatchObject([{ passed: true }])
  const own = { ...defaults, limit: TWO.replace('2 of finance', '1 of treasury') }
  expect(await decided([one], { operators: {} }, own)).toMatchObject([{ got: { effect: 'ask' } }])
})

test('a case ends where a real call would end before policy is evaluated', async () => {
  const spent = (run: object, calls: number) => ({
    request: { ...refund(1).request, run },
    used: { run: { calls } },
  })
  const results = await decided([
    { description: 'within', ...spent({ budget: { max_calls_per_run: 3 } }, 2), expect: { effect: 'allow' } },
    {
      description: 'spent',
      ...spent({ budget: { max_calls_per_run: 3 } }, 3),
      expect: { effect: 'deny', code: 'budget_spent' },
    },
  ])
  expect(results.filter(({ passed }) => !passed)).toEqual([])
})

test('the determining policies of a case are listed in a fixed order', async () => {
  const three = ['c', 'a', 'b']
    .map((name) => rule('context.args.amount > 5').replace('limit', name))
    .join('\n')
  const cases = Array.from({ length: 40 }, (_, i) => ({
    description: `${i}`,
    ...refund(6 + i),
    expect: { effect: 'deny' as const },
  }))
  const results = await decided(cases, {}, { ...defaults, three })
  expect(new Set(results.map(({ got }) => got.policies.join()))).toEqual(new Set(['a,b,c']))
})

test('a tool in a file of cases replaces the tenant’s tool of that name, within that file only', async () => {
  const one = {
    description: 'it',
    request: { agent: 'clerk', tool, args: {} },
    expect: { effect: 'ask' as const, policies: ['sensitive-needs-approval'] },
  }
  const [own, brought] = [
    await decided([one], {}, defaults),
    await decided([one], { tools: { [tool]: { capabilities: ['network'] } } }, defaults),
  ]
  expect([own[0]?.got.code, brought[0]?.passed]).toEqual(['invalid_arguments', true])
})

test('a check has at most `policy_cases` cases, and they change policies of at most `policy_case_bytes`', async () => {
  const one = { description: 'it', ...refund(1), expect: { effect: 'allow' as const } }
  const body = (cases: Partial<Cases>): { body: Body } => ({
    body: { policies: defaults, cases: { about: 'a test', ...PEOPLE, cases: [one], ...cases } },
  })
  const twice = { cases: [{ ...one, approved_by: ['ann', 'ann'] }] }
  expect(refusalOf(await fixtures.root('checkPolicies', body(twice)))).toBe('400 invalid_request')
  const many = {
    cases: Array.from({ length: LIMITS.policy_cases + 1 }, (_, i) => ({ ...one, description: `${i}` })),
  }
  expect(refusalOf(await fixtures.root('checkPolicies', body(many)))).toBe('400 invalid_request')
  const sets = Object.fromEntries(
    Array.from({ length: 200 }, (_, i) => [`s${i}`, [`// ${'x'.repeat(2_000)}`]]),
  )
  const apart = {
    sets,
    cases: Object.keys(sets).map((name) => ({ ...one, description: name, with: [name] })),
  }
  expect(refusalOf(await fixtures.root('checkPolicies', body(apart)))).toBe('409 limit_reached')
  const recursive = {
    type: 'object',
    properties: { x: { $ref: '#/$defs/x' } },
    $defs: { x: { properties: { x: { $ref: '#/$defs/x' } } } },
  }
  expect(
    refusalOf(await fixtures.root('checkPolicies', body({ tools: { loop: { input_schema: recursive } } }))),
  ).toBe('422 invalid_schema')
})

test('expensive cases are stopped in time, and others are served while they run', async () => {
  const names = Array.from({ length: 8 }, (_, i) => `op${i}`)
  const heavy = Array.from({ length: 400 }, (_, i) =>
    rule(`context.args.amount > ${i} && context.approval.count < 8`).replace('limit', `r${i}`),
  )
  const texts = Object.fromEntries(
    [0, 1, 2, 3].map((part) => [`heavy-${part}`, heavy.slice(part * 100, part * 100 + 100).join('\n')]),
  )
  const operators = Object.fromEntries(names.map((name) => [name, { roles: ['approver'] }]))
  const many = Array.from({ length: LIMITS.policy_cases }, (_, i) => ({
    description: `${i}`,
    ...refund(1000 + i, names),
    expect: { effect: 'allow' as const },
  }))
  const body = {
    policies: { ...defaults, ...texts },
    cases: { about: 'a test', ...PEOPLE, operators, cases: many },
  }
  // As long as the machine takes now for everything but the cases.
  const before = performance.now()
  const [one] = many
  unwrap(
    await fixtures.root('checkPolicies', {
      body: { ...body, cases: { ...body.cases, cases: one === undefined ? [] : [one] } },
    }),
  )
  const began = performance.now()
  const [empty, most] = [began - before, LIMITS.policy_cases_ms * 3]
  let over = false
  const checked = fixtures.root('checkPolicies', { body }).then((answer) => {
    over = true
    return answer
  })
  let answered = 0
  while (!over) {
    unwrap(await fixtures.root('readPolicies', {}))
    if (!over) answered++
  }
  const answer = await checked
  if (!answer.ok) expect(refusalOf(answer)).toBe('409 limit_reached')
  else expect(answer.value.results.every(({ passed }) => passed)).toBe(true)
  expect(answered).toBeGreaterThan(3)
  expect(performance.now() - began).toBeLessThan(most + 3 * empty)
})

test('checking policies requires its own permission, which readers of policies have and agents don’t', async () => {
  const [auditor, nobody, agent] = [
    await fixtures.operator(['auditor']),
    await fixtures.operator([]),
    await fixtures.agent(),
  ]
  expect((await auditor.client('checkPolicies', { body: {} })).ok).toBe(true)
  expect(refusalOf(await nobody.client('checkPolicies', { body: {} }))).toBe('403 forbidden')
  expect(refusalOf(await agent.client('checkPolicies', { body: {} }))).toBe('403 forbidden')
})
