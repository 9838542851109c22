// Promise: no answer is a refusal (L6). A policy that errs denies, an unreadable set is refused,
// and no author can lock themselves out.

import { expect, test } from 'vitest'
import { verifyBundle } from '../../../shared/evidence/bundle.ts'
import { LIMITS } from '../../../shared/limits.ts'
import { refusalOf, unwrap } from '../../support/fixtures.ts'
import { sharedStack } from '../../support/stack/stack.ts'
import { newTenant } from '../../support/tenants.ts'
import { PeerWorker } from '../../support/worker/peer-worker.ts'

const fixtures = await newTenant(sharedStack(), 'policy-errors')
const KEYS = unwrap(await fixtures.root('keys', { query: { tenant: 'policy-errors' } }))
const agent = await fixtures.agent()
const schema = { type: 'object', properties: { text: { type: 'string' }, n: { type: 'integer' } } }
const [broken, healthy] = [
  await fixtures.tool({ input_schema: schema }),
  await fixtures.tool({ input_schema: schema }),
]

const rule = (effect: 'permit' | 'forbid', condition: string, tool = broken): string =>
  `@id("${fixtures.name()}") ${effect} (principal, action == Action::"tool.execute/${tool}", resource) when { ${condition} };`
const decisionOn = async (tool: string, args: Record<string, unknown> = { text: 'a', n: 5 }) =>
  unwrap(await agent.client('decide', { body: { tool, args } })).decision

/** Errors that the validator can't exclude: arithmetic beyond 64 bits. */
const OVER = 'context.args has n && context.args.n * 9223372036854775807 > 1'
const ERRING: ReadonlyArray<readonly [string, string]> = [
  ['a product that overflows', OVER],
  ['a sum that overflows', 'context.args has n && context.args.n + 9223372036854775807 > 1'],
  ['a difference that overflows', 'context.args has n && 0 - context.args.n - 9223372036854775807 < 1'],
  [
    'an overflow in one branch',
    'if context.args has n then context.args.n * 9223372036854775807 > 1 else false',
  ],
]

test.each(ERRING)(
  'G13 a forbid that errs denies only the calls it applies to: %s',
  async (_name, condition) => {
    await fixtures.withPolicies({ erring: rule('forbid', condition) }, async () => {
      expect(await decisionOn(broken)).toMatchObject({ effect: 'deny', code: 'policy_error' })
      expect(await decisionOn(healthy)).toMatchObject({ effect: 'allow' })
    })
    expect(await decisionOn(broken)).toMatchObject({ effect: 'allow' })
  },
)

test('G13 a permit that errs denies even if another one permits', async () => {
  await fixtures.withPolicies({ erring: rule('permit', OVER) }, async () => {
    expect(await decisionOn(broken)).toMatchObject({ effect: 'deny', code: 'policy_error' })
  })
})

test('G13 a policy that errs only for some arguments denies those', async () => {
  await fixtures.withPolicies(
    { erring: rule('forbid', 'context.args has n && context.args.n * 4611686018427387904 > 0') },
    async () => {
      expect(await decisionOn(broken, { n: 0 })).toMatchObject({ effect: 'allow' })
      expect(await decisionOn(broken, { n: 1 })).toMatchObject({ effect: 'deny', code: 'denied' })
      expect(await decisionOn(broken, { n: 2 })).toMatchObject({ effect: 'deny', code: 'policy_error' })
      expect(await decisionOn(broken, { n: -3 })).toMatchObject({ effect: 'deny', code: 'policy_error' })
      expect(await decisionOn(broken, { text: 'no n' })).toMatchObject({ effect: 'allow' })
    },
  )
})

test('L6 a call that would take the engine too long (`policy_looks`) is denied before it is evaluated', async () => {
  const likes = Array.from(
    { length: 200 },
    (_, i) => `context.args has text && context.args.text like "*charge${i}back*"`,
  )
  const rules = {
    few: rule('forbid', likes[0] ?? ''),
    many: likes.map((like) => rule('forbid', like, healthy)).join('\n'),
  }
  const text = 'charge'.repeat(20_000)
  await fixtures.withPolicies(rules, async () => {
    expect(await decisionOn(broken, { text })).toMatchObject({ effect: 'allow' })
    expect(await decisionOn(healthy, { text: text.slice(0, 1_000) })).toMatchObject({ effect: 'allow' })
    expect(await decisionOn(healthy, { text })).toMatchObject({ effect: 'deny', code: 'policy_error' })
    const { explanation } = unwrap(
      await fixtures.root('decide', { body: { agent: agent.name, tool: healthy, args: { text } } }),
    ).decision
    expect(explanation?.errors).toEqual([
      expect.stringMatching(/^\d+ characters of patterns are too many for a request of \d+$/),
    ])
  })
  const one = rule('forbid', `context.args has text && context.args.text like "*${'a'.repeat(60_000)}b*"`)
  await fixtures.withPolicies({ one }, async () => {
    const began = performance.now()
    expect(await decisionOn(broken, { text: 'a'.repeat(200_000) })).toMatchObject({
      effect: 'deny',
      code: 'policy_error',
    })
    expect(performance.now() - began).toBeLessThan(2_000)
  })
})

test('G13 a call that an erring policy denied is attested, journalled and counted like any other', async () => {
  const call = await fixtures.withPolicies({ erring: rule('forbid', OVER) }, async () =>
    unwrap(await agent.client('proposeCallInNewRun', { body: { tool: broken, args: { n: 5 } } })),
  )
  expect(call).toMatchObject({ state: 'denied', result: { ok: false, error: { code: 'policy_error' } } })
  const bundle = unwrap(await agent.client('readAttestation', { params: { run: call.run, call: call.id } }))
  expect(verifyBundle(bundle, KEYS)).toMatchObject({
    ok: true,
    statement: { predicate: { state: 'denied', error: 'policy_error' } },
  })
  expect(unwrap(await agent.client('readRun', { params: { run: call.run } })).used).toEqual({
    calls: 0,
    denied: 1,
  })
})

/** Approves a call under a forbid that errs under this condition, and expects its denial. */
async function expectDeniedAtApproval(condition: string): Promise<void> {
  const sensitive = await fixtures.tool({ capabilities: ['network'], input_schema: schema })
  const call = await fixtures.proposeForApproval(agent.client, sensitive, { n: 5 })
  const erring = rule('forbid', condition, sensitive)
  const approve = async () => unwrap(await fixtures.approve(call.approval.id))
  expect((await fixtures.withPolicies({ erring }, approve)).status).toBe('denied')
  const ended = unwrap(await agent.client('readCall', { params: { run: call.run, call: call.id } }))
  expect(ended.state).toBe('denied')
}

test('G13 an approval does not help against a policy that errs', async () => {
  await expectDeniedAtApproval(OVER)
})

test('D11 L6 a call that waits for two approvals is denied at the first approval if policy errs by then', async () => {
  await fixtures.operator(['approver']) // somebody else who could still say yes
  await expectDeniedAtApproval(`context.approval.count == 1 && ${OVER}`)
})

test('G13 a granted call is not handed out if policy errs at the claim', async () => {
  const peer = await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool)
  const call = unwrap(await agent.client('proposeCallInNewRun', { body: { tool: broken, args: { n: 5 } } }))
  expect(call.state).toBe('granted')
  await fixtures.withPolicies({ erring: rule('forbid', OVER) }, async () => {
    expect(refusalOf(await peer.claim(call.id))).toBe('409 not_claimable')
  })
  expect(unwrap(await agent.client('readCall', { params: { run: call.run, call: call.id } }))).toMatchObject({
    state: 'cancelled',
  })
})

test('L1 a granted call is not handed out without an approval if policy now requires one', async () => {
  const peer = await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool)
  const call = unwrap(await agent.client('proposeCallInNewRun', { body: { tool: broken, args: {} } }))
  await fixtures.withPolicies({ asking: rule('forbid', '!context.approval.granted') }, async () => {
    expect(await decisionOn(broken)).toMatchObject({ effect: 'ask' })
    expect(refusalOf(await peer.claim(call.id))).toBe('409 not_claimable')
  })
  const ended = unwrap(await agent.client('readCall', { params: { run: call.run, call: call.id } }))
  expect(ended).toMatchObject({ state: 'cancelled' })
  const bundle = unwrap(await agent.client('readAttestation', { params: { run: call.run, call: call.id } }))
  expect(verifyBundle(bundle, KEYS).ok).toBe(true)
})

const put = async (policies: Record<string, string>) =>
  fixtures.root('putPolicies', { body: { policies, activate: true } })
const present = async () => unwrap(await fixtures.root('readPolicies', {}))

test.each([
  ['a text that is not Cedar', { a: 'allow everything' }],
  [
    'one mistake among many',
    { a: 'permit (principal, action, resource);', b: 'forbid (principal, action resource);' },
  ],
  ['a template', { a: 'permit (principal == ?principal, action, resource);' }],
  [
    'a duplicate id',
    { a: '@id("x") permit (principal, action, resource); @id("x") forbid (principal, action, resource);' },
  ],
  ['an id of the floor', { a: '@id("sensitive-needs-approval") permit (principal, action, resource);' }],
  [
    'an id longer than a statement can hold',
    { a: `@id("${'x'.repeat(129)}") permit (principal, action, resource);` },
  ],
  ['an empty id', { a: '@id("") permit (principal, action, resource);' }],
  ['an id with a line break', { a: '@id("a\\nb") permit (principal, action, resource);' }],
  [
    'more policies than a statement can list',
    { a: 'permit (principal, action, resource);'.repeat(LIMITS.policies + 1) },
  ],
  ['a set under which nobody may change policies', {}],
  [
    'a set that forbids its author',
    { a: 'permit (principal, action, resource);', b: 'forbid (principal is Operator, action, resource);' },
  ],
  [
    'a set that errs on everything',
    {
      a: 'permit (principal, action, resource);',
      b: 'forbid (principal, action, resource) when { context.absent };',
    },
  ],
])('an unusable policy set is refused, and the current one stays: %s', async (_name, policies) => {
  const before = await present()
  const answer = await put(policies)
  if (answer.ok) unwrap(await put(before.policies)) // or every later test would fail too
  expect(refusalOf(answer)).toBe('422 invalid_policy')
  expect(await present()).toEqual(before)
})

test('a tenant’s policies can’t override the floor', async () => {
  const sensitive = await fixtures.tool({
    capabilities: ['process_exec'],
    executor: { tiers: ['B', 'C'] },
    egress: { mode: 'none', hosts: [] },
  })
  await fixtures.withPolicies(
    { lenient: '@id("anything-goes") permit (principal, action, resource);' },
    async () => {
      expect(await decisionOn(sensitive, {})).toMatchObject({
        effect: 'ask',
        policies: expect.arrayContaining(['sensitive-needs-approval']),
      })
      const narrow = await fixtures.agent({ tools: [] })
      const { decision } = unwrap(await narrow.client('decide', { body: { tool: healthy, args: {} } }))
      expect(decision).toMatchObject({ effect: 'deny', policies: ['allowlisted-tools-only'] })
    },
  )
})

test('a policy error is reported with file, line and column', async () => {
  const refused = await put({
    mine: 'permit (principal, action, resource);\n\nforbid (principal, action resource);',
  })
  expect(refused.ok || refused.error.errors?.[0]?.at).toMatch(/^mine:3:\d+$/)
})

test('a policy set that is not activated changes nothing', async () => {
  const before = await present()
  const { policies } = before
  const draft = unwrap(
    await fixtures.root('putPolicies', {
      body: { policies: { ...policies, more: rule('forbid', 'true') }, activate: false },
    }),
  )
  expect(draft).toMatchObject({ active: false })
  expect(draft.version).toBeGreaterThan(before.version)
  expect(await present()).toEqual(before)
  expect(await decisionOn(broken)).toMatchObject({ effect: 'allow' })
})

test('G13 a policy that errs only without an approval still denies, because an approval can’t repair an error', async () => {
  await fixtures.withPolicies(
    { erring: rule('forbid', `!context.approval.granted && ${OVER}`) },
    async () => {
      expect(await decisionOn(broken)).toMatchObject({ effect: 'deny', code: 'policy_error' })
    },
  )
})

test('a file with the floor’s name does not replace the floor', async () => {
  const { policies } = unwrap(await fixtures.root('readPolicies', {}))
  for (const name of ['floor.sensitive', 'floor.anything']) {
    const put = await fixtures.root('putPolicies', {
      body: { policies: { ...policies, [name]: 'permit (principal, action, resource);' } },
    })
    expect(refusalOf(put)).toBe('422 invalid_policy')
  }
})
