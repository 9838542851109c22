// Policy picks the sandbox: the least isolated plan that needs no approval runs; else humans are
// asked about the least isolated one that they may allow. Covers every pair of verdicts for tier B
// and tier C.

import { expect, test } from 'vitest'
import type { Output as Answered } from '../../../shared/routes/client.ts'
import { countersign } from '../../support/countersign.ts'
import { unwrap } from '../../support/fixtures.ts'
import { sharedStack } from '../../support/stack/stack.ts'
import { newTenant } from '../../support/tenants.ts'
import { PeerWorker } from '../../support/worker/peer-worker.ts'

const fixtures = await newTenant(sharedStack(), 'plans')
const agent = await fixtures.agent({ groups: ['worker-host-access'] })
const peer = await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool)
const SAYS = ['allow', 'ask', 'deny', 'err'] as const
type Says = (typeof SAYS)[number]
const tool = await fixtures.tool({
  input_schema: {
    type: 'object',
    properties: { b: { enum: [...SAYS] }, c: { enum: [...SAYS] }, n: { type: 'integer' } },
    required: ['b', 'c', 'n'],
  },
  executor: { tiers: ['B', 'C'] },
  egress: { mode: 'none', hosts: [] },
})

const on = `principal, action == Action::"tool.execute/${tool}", resource`
const says = (tier: 'b' | 'c'): string => {
  const here = (word: Says): string =>
    `context.plan.tier == "${tier.toUpperCase()}" && context.args.${tier} == "${word}"`
  return `@id("plans-${tier}-asks") forbid (${on}) when { ${here('ask')} } unless { context.approval.granted };
    @id("plans-${tier}-denies") forbid (${on}) when { ${here('deny')} };
    @id("plans-${tier}-errs") forbid (${on}) when { ${here('err')} && context.args.n * 9223372036854775807 > 1 };`
}
/** Without the default policy that asks about every tier B call, so that the table decides. */
const set = { plans: `${says('b')}\n${says('c')}`, 'tier-b': null }

const B = { tier: 'B', egress: 'none' }
const TABLE: readonly (readonly [Says, Says, string, object[]])[] = [
  ['allow', 'allow', 'allow in B', []],
  ['allow', 'ask', 'allow in B', []],
  ['allow', 'deny', 'allow in B', []],
  ['allow', 'err', 'allow in B', []],
  ['ask', 'allow', 'allow in C', [{ ...B, policies: ['plans-b-asks'], asks: true }]],
  ['ask', 'ask', 'ask in B', []],
  ['ask', 'deny', 'ask in B', []],
  ['ask', 'err', 'deny in C', [{ ...B, policies: ['plans-b-asks'], asks: true }]],
  ['deny', 'allow', 'allow in C', [{ ...B, policies: ['plans-b-denies'] }]],
  ['deny', 'ask', 'ask in C', [{ ...B, policies: ['plans-b-denies'] }]],
  [
    'deny',
    'deny',
    'deny in C',
    [
      { ...B, policies: ['plans-b-denies'] },
      { tier: 'C', egress: 'strict', policies: ['plans-c-denies'] },
    ],
  ],
  ['deny', 'err', 'deny in C', [{ ...B, policies: ['plans-b-denies'] }]],
  ['err', 'allow', 'deny in B', []],
]

const inWords = ({ decision, plan }: Pick<Answered<'decide'>, 'decision' | 'plan'>): string =>
  `${decision.effect} in ${plan?.tier}`

test('the least isolated plan that needs no approval wins, else the least isolated one to ask about; an error denies', async () => {
  await fixtures.withPolicies(set, async () => {
    for (const [b, c, expected, others] of TABLE) {
      const told = unwrap(
        await fixtures.root('decide', { body: { agent: agent.name, tool, args: { b, c, n: 2 } } }),
      )
      expect([b, c, inWords(told), told.decision.explanation?.plans]).toEqual([b, c, expected, others])
    }
  })
})

test('a call keeps the plan of its decision, and policy judges that plan when it is answered and claimed', async () => {
  await fixtures.withPolicies(set, async () => {
    const propose = async (b: Says, c: Says) =>
      unwrap(await agent.client('proposeCallInNewRun', { body: { tool, args: { b, c, n: 2 } } }))
    const unasked = await propose('ask', 'allow')
    expect(unasked).toMatchObject({ state: 'granted', decision: { effect: 'allow' }, plan: { tier: 'C' } })
    expect(unasked).not.toHaveProperty('approval')
    expect(unwrap(await peer.claim(unasked.id)).plan.tier).toBe('C')

    const asked = await propose('ask', 'ask')
    expect(asked).toMatchObject({
      state: 'awaiting_approval',
      decision: { policies: ['plans-b-asks'] },
      plan: { tier: 'B' },
    })
    unwrap(await fixtures.approve(asked.approval?.id ?? ''))
    expect(unwrap(await peer.claim(asked.id)).plan.tier).toBe('B')
  })
})

test('`policy explain` shows which plan would have asked for an approval', async () => {
  await fixtures.withPolicies(set, async () => {
    const args = [
      'policy',
      'explain',
      '--agent',
      agent.name,
      '--tool',
      tool,
      '--args',
      '{"b":"ask","c":"allow","n":2}',
    ]
    const { code, out } = await countersign(args, {
      env: { COUNTERSIGN_URL: fixtures.url, COUNTERSIGN_KEY: fixtures.rootKey },
    })
    expect(code).toBe(0)
    expect(out).toMatch(/^allow/)
    expect(out).toMatch(/tier B, egress none +plans-b-asks; a human would be asked/)
  })
})
