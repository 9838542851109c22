// Tools and policies stay consistent whichever changes: a set has to fit the current tools, and a
// tool can't change in a way that breaks the set in force.

import { expect, test } from 'vitest'
import { readTexts } from '../../../edge/policy/text-limits.ts'
import { refusalOf, toolSpec, unwrap } from '../../support/fixtures.ts'
import { sharedStack } from '../../support/stack/stack.ts'
import { newTenant } from '../../support/tenants.ts'

const fixtures = await newTenant(sharedStack(), 'typed')
const agent = await fixtures.agent()
const schema = (properties: Record<string, unknown>) => ({
  type: 'object',
  properties,
  required: Object.keys(properties),
  additionalProperties: false,
})
const put = (name: string, properties: Record<string, unknown>) =>
  fixtures.root('putTool', { params: { name }, body: toolSpec({ input_schema: schema(properties) }) })
const rule = (name: string) =>
  `@id("${fixtures.name()}") forbid (principal, action == Action::"tool.execute/${name}", resource) when { context.args.amount > 100 };`

test('responses about a tool say which of its arguments policies see, and why not the others', async () => {
  const name = fixtures.name()
  const made = unwrap(await put(name, { amount: { type: 'integer' }, when: { type: ['string', 'integer'] } }))
  expect(made.policy).toEqual({
    args: '{ amount: Long }',
    unseen: [{ at: '/when', reason: 'it may be string or integer' }],
  })
  expect(unwrap(await fixtures.root('readTool', { params: { name } }))).toEqual(made)
})

test('a number that policy can’t hold exactly is refused with the name of its argument', async () => {
  const name = fixtures.name()
  unwrap(await put(name, { price: { type: 'number' } }))
  const refused = await agent.client('decide', { body: { tool: name, args: { price: 0.00001 } } })
  expect(refusalOf(refused)).toBe('422 invalid_arguments')
  expect(refused.ok || refused.error.errors?.[0]?.at).toBe('/price')
})

test('a policy set that does not fit the tools is refused with file, line, column and hint, and the current set stays', async () => {
  const name = fixtures.name()
  unwrap(await put(name, { amount: { type: 'integer' } }))
  const { policies, version } = unwrap(await fixtures.root('readPolicies', {}))
  const refused = await fixtures.root('putPolicies', {
    body: { policies: { ...policies, mine: `\n${rule(name).replace('.amount', '.amont')}` } },
  })
  expect(refusalOf(refused)).toBe('422 invalid_policy')
  expect(refused.ok || refused.error.errors).toEqual([
    {
      at: expect.stringMatching(/^mine:2:\d+$/),
      message: expect.stringContaining('`args.amont`'),
      hint: 'did you mean `amount`?',
    },
  ])
  expect(unwrap(await fixtures.root('readPolicies', {})).version).toBe(version)
})

test('a tool change that breaks a rule in force is refused until no rule depends on it', async () => {
  const name = fixtures.name()
  unwrap(await put(name, { amount: { type: 'integer' } }))
  await fixtures.withPolicies({ mine: rule(name) }, async () => {
    const refused = [
      await put(name, { amount: { type: 'string' } }),
      await fixtures.root('deleteTool', { params: { name } }),
    ]
    expect(refused.map((answer) => refusalOf<unknown>(answer))).toEqual(
      Array(2).fill('409 tool_breaks_policies'),
    )
    for (const answer of refused) expect(answer.ok || answer.error.errors?.[0]?.at).toMatch(/^mine:1:\d+$/)
    expect(unwrap(await fixtures.root('readTool', { params: { name } })).version).toBe(1)
    expect(unwrap(await put(name, { amount: { type: 'integer' }, memo: { type: 'string' } })).version).toBe(2)
  })
  unwrap(await put(name, { amount: { type: 'string' } }))
  unwrap(await fixtures.root('deleteTool', { params: { name } }))
})

test('a tool can’t leave a group or drop `spends` while a rule in force depends on it', async () => {
  const [name, group] = [fixtures.name(), fixtures.name()]
  const schema = {
    type: 'object',
    properties: { amount: { type: 'integer', minimum: 0 } },
    required: ['amount'],
  }
  const again = (change: Parameters<typeof toolSpec>[0]) =>
    fixtures.root('putTool', { params: { name }, body: toolSpec({ input_schema: schema, ...change }) })
  unwrap(await again({ groups: [group], spends: { arg: 'amount' } }))
  const agent = await fixtures.agent()
  const effect = async () =>
    unwrap(await agent.client('decide', { body: { tool: name, args: { amount: 1 } } })).decision.effect
  const over = `@id("over") forbid (principal, action in Action::"tool.execute", resource in ToolGroup::"${group}") unless { context.approval.granted };`
  const cap = `@id("cap") forbid (principal, action == Action::"tool.execute/${name}", resource) when { context.budget.run.tool.spent > 500 };`
  await fixtures.withPolicies({ over, cap }, async () => {
    expect(await effect()).toBe('ask')
    const refused = [await again({ spends: { arg: 'amount' } }), await again({ groups: [group] })]
    expect(refused.map((answer) => refusalOf<unknown>(answer))).toEqual(
      Array(2).fill('409 tool_breaks_policies'),
    )
    expect(
      refused.map((answer) =>
        answer.ok ? [] : answer.error.errors?.map(({ at, hint }) => [at.split(':')[0], hint]),
      ),
    ).toEqual([
      [['over', expect.stringContaining('in the policy first')]],
      [['cap', expect.stringContaining('in the policy first')]],
    ])
    expect(await effect()).toBe('ask')
  })
  unwrap(await again({}))
})

test('if a policy set and a tool change conflict, the later one is refused', async () => {
  for (let round = 0; round < 5; round++) {
    const name = fixtures.name()
    unwrap(await put(name, { amount: { type: 'integer' } }))
    const { policies } = unwrap(await fixtures.root('readPolicies', {}))
    const answers = await Promise.all([
      fixtures.root('putPolicies', { body: { policies: { ...policies, mine: rule(name) } } }),
      put(name, { amount: { type: 'string' } }),
    ])
    unwrap(await fixtures.root('putPolicies', { body: { policies } }))
    expect(answers.filter(({ ok }) => ok)).toHaveLength(1)
  }
})

test('activating an older policy set checks it against the current tools', async () => {
  const name = fixtures.name()
  unwrap(await put(name, { amount: { type: 'integer' } }))
  const { policies } = unwrap(await fixtures.root('readPolicies', {}))
  const { version } = unwrap(
    await fixtures.root('putPolicies', {
      body: { policies: { ...policies, mine: rule(name) }, activate: false },
    }),
  )
  unwrap(await put(name, { amount: { type: 'string' } }))
  expect(refusalOf(await fixtures.root('activatePolicyVersion', { params: { version: `${version}` } }))).toBe(
    '422 invalid_policy',
  )
})

test('the edge parses, checks, stores and evaluates the deepest accepted policies without crashing', async () => {
  const name = fixtures.name()
  unwrap(await put(name, { amount: { type: 'integer' } }))
  const shapes: ((n: number) => string)[] = [
    (n) => `${'('.repeat(n)}true${')'.repeat(n)}`,
    (n) => `${'(true == '.repeat(n)}true${')'.repeat(n)}`,
    (n) => `${'{a: '.repeat(n)}1${'}'.repeat(n)}${'.a'.repeat(n)} == 1`,
    (n) => `${'1 + '.repeat(n)}context.args.amount > 0`,
    (n) => `${'if context.args.amount > 0 then '.repeat(n)}true${' else false'.repeat(n)}`,
    (n) => `${'context.args.amount > 0 && '.repeat(n)}true`,
  ]
  const texts = shapes.map((of, shape) => {
    const text = (n: number) =>
      `@id("${name}-${shape}") forbid (principal, action == Action::"tool.execute/${name}", resource) when { ${of(n)} };`
    let deepest = 1
    while (readTexts({ mine: text(deepest + 1) }).unfit.length === 0) deepest++
    expect(deepest).toBeGreaterThan(10)
    return text(deepest)
  })
  await fixtures.withPolicies({ deep: texts.join('\n') }, async () => {
    const { decision } = unwrap(await agent.client('decide', { body: { tool: name, args: { amount: 1 } } }))
    expect(decision.effect).toBe('deny')
    expect([...decision.policies].sort()).toEqual(shapes.map((_, shape) => `${name}-${shape}`))
  })
})
