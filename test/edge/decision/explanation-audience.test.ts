// Readers of an explanation: an agent reads only changes that it can act on and no names of others,
// an operator reads everything. Only calls that were not allowed store an explanation, and it is
// never signed.

import { expect, test } from 'vitest'
import { verifyBundle } from '../../../shared/evidence/bundle.ts'
import { countersign } from '../../support/countersign.ts'
import { refusalOf, unwrap } from '../../support/fixtures.ts'
import { sharedStack } from '../../support/stack/stack.ts'
import { newTenant } from '../../support/tenants.ts'

const fixtures = await newTenant(sharedStack(), 'why')
const KEYS = unwrap(await fixtures.root('keys', { query: { tenant: 'why' } }))
const schema = {
  type: 'object',
  properties: {
    amount: { type: 'integer', maximum: 1_000 },
    to: { type: 'string' },
    how: { enum: ['slow', 'fast'] },
  },
}
const agent = await fixtures.agent({ groups: ['canary-group'] })
const other = await fixtures.agent()
const [plain, sensitive] = [
  await fixtures.tool({ input_schema: schema }),
  await fixtures.tool({ input_schema: schema, capabilities: ['network'] }),
]
const auditor = await fixtures.operator(['auditor'])
const on = (tool: string) => `principal, action == Action::"tool.execute/${tool}", resource`
const forbid = (id: string, condition: string, tool = plain) =>
  `@id("told-${id}") @reason("${id}") forbid (${on(tool)}) when { ${condition} };`

const tried = async (args: Record<string, unknown>, tool = plain) =>
  unwrap(await agent.client('decide', { body: { tool, args } })).decision
const asOperator = async (args: Record<string, unknown>, tool = plain) =>
  unwrap(await fixtures.root('decide', { body: { agent: agent.name, tool, args } })).decision
const words = (decision: Awaited<ReturnType<typeof tried>>) =>
  decision.explanation?.changes.map((together) => together.map((change) => change.words).join(' & '))

test('a change that is offered to an agent is allowed when the agent makes it', async () => {
  const limits = forbid('limit', 'context.args has amount && context.args.amount > 100')
  await fixtures.withPolicies({ limits }, async () => {
    const denied = await tried({ amount: 250 })
    expect(denied).toMatchObject({ effect: 'deny', reason: 'limit' })
    expect(denied.explanation).toMatchObject({
      policies: [{ effect: 'forbid', reason: 'limit', advice: null }],
      plans: [{ tier: 'C', egress: 'strict', policies: denied.policies }],
      changes: [
        [{ fact: 'args.amount', needs: { op: '<=', value: 100 }, by: 'agent', words: 'args.amount ≤ 100' }],
        [{ fact: 'args.amount', needs: { op: 'absent' }, by: 'agent' }],
      ],
    })
    expect(await tried({ amount: 100 })).toMatchObject({ effect: 'allow' })
    expect(await tried({})).toMatchObject({ effect: 'allow' })
  })
})

test('a change that the tool’s schema refuses is not offered to an agent', async () => {
  const [high, third] = [
    forbid('high', 'context.args has amount && context.args.amount < 5000'),
    forbid('third', 'context.args has how && context.args.how != "warp"'),
  ]
  await fixtures.withPolicies({ high, third }, async () => {
    expect(words(await tried({ amount: 1 }))).toEqual(['args.amount left out'])
    expect(words(await tried({ how: 'slow' }))).toEqual(['args.how left out'])
  })
})

test('an approval says how many must answer, and the call is granted when they have', async () => {
  const two = forbid('two', 'context.approval.count < 2', sensitive)
  const second = await fixtures.operator(['approver'])
  await fixtures.withPolicies({ two }, async () => {
    const call = await fixtures.proposeForApproval(agent.client, sensitive)
    expect(words(call.decision)).toEqual(['approval.count ≥ 2: 2 different approvers'])
    expect(call.decision.explanation?.changes[0]).toMatchObject([{ by: 'human', is: 0 }])
    const { prompt } = unwrap(await fixtures.root('readApproval', { params: { id: call.approval.id } }))
    const still =
      'your approval alone is not enough: policy still requires approval.count ≥ 2: 2 different approvers; with that, exactly this call'
    expect(prompt.on_yes).toContain(still)
    const place = { run: call.run, call: call.id }
    unwrap(await fixtures.approve(call.approval.id))
    const half = unwrap(await fixtures.root('explainCall', { params: place }))
    expect(half.decision.explanation?.changes[0]).toMatchObject([
      { fact: 'approval.count', is: 1, needs: { op: '>=', value: 2 } },
    ])
    unwrap(
      await second.client('answerApproval', {
        params: { id: call.approval.id },
        body: { decision: 'approve' },
      }),
    )
    const done = unwrap(await agent.client('readCall', { params: place }))
    expect(done.state).toBe('granted')
    expect(done.decision).not.toHaveProperty('explanation') // an answered call has no explanation
    unwrap(await fixtures.root('cancelRun', { params: { run: call.run } }))
  })
})

test('an allowed call has no stored explanation, but an operator can get one', async () => {
  const call = unwrap(await agent.client('proposeCallInNewRun', { body: { tool: plain, args: {} } }))
  expect(call).toMatchObject({ state: 'granted' })
  expect(call.decision).not.toHaveProperty('explanation')
  const params = { run: call.run, call: call.id }
  const told = unwrap(await fixtures.root('explainCall', { params }))
  expect(told).toMatchObject({
    digest: call.digest,
    decision: { effect: 'allow', explanation: { changes: [], errors: [] } },
  })
  expect(told.decision.explanation?.policies[0]).toMatchObject({
    id: 'allowlisted-execution',
    place: expect.stringMatching(/^baseline:\d+:\d+$/),
  })
  expect(told.decision.explanation?.policies[0]?.text).toMatch(/^@id\("allowlisted-execution"\)/)
  unwrap(await fixtures.root('cancelRun', { params: { run: call.run } }))
})

test('the attestation of a denial has its policies but not the explanation’s changes', async () => {
  const limits = forbid('limit', 'context.args has amount && context.args.amount > 100')
  const call = await fixtures.withPolicies({ limits }, async () =>
    unwrap(await agent.client('proposeCallInNewRun', { body: { tool: plain, args: { amount: 250 } } })),
  )
  expect(words(call.decision)).toEqual(['args.amount ≤ 100', 'args.amount left out'])
  const bundle = unwrap(await agent.client('readAttestation', { params: { run: call.run, call: call.id } }))
  const verified = verifyBundle(bundle, KEYS)
  expect(verified).toMatchObject({
    ok: true,
    statement: { predicate: { facts: { decision: { effect: 'deny', policies: call.decision.policies } } } },
  })
  expect(JSON.stringify(verified)).not.toContain('explanation')
  const journal = unwrap(await agent.client('readJournal', { params: { run: call.run } }))
  expect(JSON.stringify(journal)).not.toContain('args.amount')
  // A later explanation shows what would be decided then.
  expect(
    unwrap(await agent.client('explainCall', { params: { run: call.run, call: call.id } })).decision.effect,
  ).toBe('allow')
})

test('a call that no policy permits is denied for that reason, not as sensitive', async () => {
  const unlisted = await fixtures.agent({ tools: [] })
  const { decision } = unwrap(await unlisted.client('decide', { body: { tool: plain, args: {} } }))
  expect(decision).toMatchObject({ effect: 'deny', policies: ['allowlisted-tools-only'] })
  expect(decision.explanation?.changes).toMatchObject([[{ fact: 'is_allowlisted_tool', by: 'operator' }]])
  const rest = forbid('none', 'true')
  expect(await fixtures.withPolicies({ rest }, () => tried({}))).toMatchObject({
    effect: 'deny',
    explanation: { changes: [] },
  })
})

test('if a policy has an error, the agent learns so, an operator learns which and why, and no change is offered', async () => {
  const erring = forbid('erring', 'context.args has amount && context.args.amount * 9223372036854775807 > 1')
  await fixtures.withPolicies({ erring }, async () => {
    const denied = await tried({ amount: 9 })
    expect(denied).toMatchObject({
      effect: 'deny',
      code: 'policy_error',
      explanation: { policies: [], changes: [] },
    })
    expect(denied.explanation).not.toHaveProperty('errors')
    expect(JSON.stringify(denied)).not.toContain('erring')
    expect((await asOperator({ amount: 9 })).explanation?.errors).toEqual([
      expect.stringContaining('overflow'),
    ])
  })
})

test('an explanation shows names of others and policy texts to operators but not to agents', async () => {
  const boss = await fixtures.operator(['canary-role', 'approver'])
  const CASES: [string, string, Record<string, unknown>][] = [
    [forbid('who', `!context.approval.approvers.contains("${boss.name}")`, sensitive), sensitive, {}],
    [forbid('role', '!context.approval.roles.contains("canary-role")', sensitive), sensitive, {}],
    [forbid('group', 'principal in Group::"canary-group"'), plain, {}],
    [forbid('to', `context.args has to && context.args.to != "${other.name}"`), plain, { to: 'x' }],
    [
      forbid('upper', `context.args has to && context.args.to != "${other.name.toUpperCase()}"`),
      plain,
      { to: 'x' },
    ],
    [
      forbid('within', `context.args has to && !(context.args.to like "*for_${other.name}_only*")`),
      plain,
      { to: 'x' },
    ],
    [
      forbid('text', '"canary-text" == "canary-text" && context.args has amount && context.args.amount > 5'),
      plain,
      { amount: 9 },
    ],
  ]
  for (const [policy, tool, args] of CASES) {
    await fixtures.withPolicies({ leaking: policy }, async () => {
      const [toAgent, toOperator] = [await tried(args, tool), await asOperator(args, tool)]
      expect(toAgent.explanation?.changes.length, policy).toBeGreaterThan(0)
      const told = JSON.stringify(toAgent).toLowerCase()
      for (const canary of [
        'canary',
        boss.name,
        other.name,
        'group::',
        'principal',
        'context.',
        'permit (',
        'forbid (',
      ])
        expect([policy, told]).not.toEqual([policy, expect.stringContaining(canary)])
      expect(
        toOperator.explanation?.policies.some(({ text }) => text === policy.trim()),
        policy,
      ).toBe(true)
      expect(JSON.stringify(toOperator.explanation?.changes)).toMatch(
        tool === plain && 'amount' in args ? /≤ 5/ : new RegExp(`canary|${boss.name}|${other.name}`, 'i'),
      )
      const call = unwrap(await agent.client('proposeCallInNewRun', { body: { tool, args } }))
      expect(call.decision.explanation).toEqual(toAgent.explanation)
      unwrap(await fixtures.root('cancelRun', { params: { run: call.run } }))
    })
  }
})

test('an agent can explain only proposals of its own and read only its own calls', async () => {
  expect(
    refusalOf(await agent.client('decide', { body: { agent: other.name, tool: plain, args: {} } })),
  ).toBe('403 forbidden')
  expect(
    unwrap(await agent.client('decide', { body: { agent: agent.name, tool: plain, args: {} } })).decision
      .effect,
  ).toBe('allow')
  const call = unwrap(await other.client('proposeCallInNewRun', { body: { tool: plain, args: {} } }))
  expect(refusalOf(await agent.client('explainCall', { params: { run: call.run, call: call.id } }))).toBe(
    '404 not_found',
  )
  unwrap(await fixtures.root('cancelRun', { params: { run: call.run } }))
})

test('an operator names the agent whose proposal to explain', async () => {
  expect(refusalOf(await fixtures.root('decide', { body: { tool: plain, args: {} } }))).toBe(
    '400 invalid_request',
  )
  expect(
    refusalOf(await fixtures.root('decide', { body: { agent: 'nobody-at-all', tool: plain, args: {} } })),
  ).toBe('404 not_found')
  expect(
    unwrap(await auditor.client('decide', { body: { agent: agent.name, tool: plain, args: {} } })).decision
      .effect,
  ).toBe('allow')
})

test('the explanation of a spent budget names the budget and the other changes that are needed', async () => {
  const tool = await fixtures.tool()
  const { id: run } = unwrap(await agent.client('createRun', { body: { budget: { max_calls_per_run: 0 } } }))
  const call = unwrap(await agent.client('proposeCall', { params: { run }, body: { tool, args: {} } }))
  expect(call.decision).toMatchObject({
    code: 'budget_spent',
    explanation: {
      policies: [{ id: 'run.budget' }],
      changes: [[{ fact: 'budget.max_calls', by: 'operator' }]],
    },
  })
})

test('the command line shows an explanation with policy texts to operators and without them to agents', async () => {
  const limits = forbid('limit', 'context.args has amount && context.args.amount > 100')
  await fixtures.withPolicies({ limits }, async () => {
    const asked = ['policy', 'explain', '--tool', plain, '--args', '{"amount":250}']
    const env = (key: string) => ({ env: { COUNTERSIGN_URL: fixtures.url, COUNTERSIGN_KEY: key } })
    const [mine, theirs] = [
      await countersign(asked, env(agent.key)),
      await countersign([...asked, '--agent', agent.name], env(fixtures.rootKey)),
    ]
    for (const { code, out } of [mine, theirs]) {
      expect(code).toBe(1)
      expect(out).toMatch(/^deny/)
      expect(out).toContain('args.amount ≤ 100')
    }
    expect(mine.out).not.toContain('forbid (')
    expect(theirs.out).toContain('forbid (')
    const call = unwrap(
      await agent.client('proposeCallInNewRun', { body: { tool: plain, args: { amount: 250 } } }),
    )
    const again = await countersign(['policy', 'explain', call.id, '--json'], env(fixtures.rootKey))
    expect(JSON.parse(again.out)).toMatchObject({ digest: call.digest, decision: { effect: 'deny' } })
    const wrong = await countersign(['policy', 'explain'], env(fixtures.rootKey))
    expect(wrong).toMatchObject({ code: 2, err: expect.stringContaining('--tool') })
  })
})
