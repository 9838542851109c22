// Approvers read the effect of their own yes on every page and route, even when policy requires a
// role that they lack.

import { expect, test } from 'vitest'
import { mailOf } from '../../../edge/channels/email/content.ts'
import type { Message } from '../../../edge/channels/medium.ts'
import { askedCard } from '../../../edge/channels/slack/card.ts'
import { ConsoleSession } from '../../support/browser/console-session.ts'
import { countersign } from '../../support/countersign.ts'
import { eventually } from '../../support/eventually.ts'
import { unwrap } from '../../support/fixtures.ts'
import { sharedStack } from '../../support/stack/stack.ts'
import { newTenant } from '../../support/tenants.ts'

const fixtures = await newTenant(sharedStack(), 'own-yes')
const agent = await fixtures.agent()
const tool = await fixtures.tool()
const [finance, other] = [
  await fixtures.operator(['approver', 'finance']),
  await fixtures.operator(['approver']),
]
const RUNS = 'exactly this call runs once; any change needs a new approval'
const NOT_ALONE =
  /your approval alone is not enough: policy still requires an approval by somebody in the role `?finance`?; with that, exactly/i

const texts = (page: string): string =>
  page
    .replace(/<[^>]*>/g, '')
    .replaceAll('&#39;', '’')
    .replace(/\s+/g, ' ')

const rule = (condition: string) =>
  `@id("wants") @reason("policy wants more") forbid (principal, action == Action::"tool.execute/${tool}", resource) unless { ${condition} };`

test('D17 an operator outside the required role sees everywhere that their approval is not enough', async () => {
  await fixtures.withPolicies({ wants: rule('context.approval.roles.contains("finance")') }, async () => {
    const { approval, run } = await fixtures.proposeForApproval(agent.client, tool, {})
    for (const { client, key, name } of [finance, other]) {
      const says = name === other.name ? NOT_ALONE : new RegExp(RUNS, 'i')
      const never = name === other.name ? /if you approve exactly this call/i : /is not enough/
      const read = unwrap(await client('readApproval', { params: { id: approval.id } }))
      const page = texts(await (await fetch(read.url ?? '')).text())
      const session = await ConsoleSession.open(fixtures.url, key)
      const shown = texts(await (await session.get(`/console/approvals/${approval.id}`)).text())
      const { out } = await countersign(['approvals', 'show', approval.id], {
        env: { COUNTERSIGN_URL: fixtures.url, COUNTERSIGN_KEY: key },
      })
      for (const [where, text] of Object.entries({
        api: read.prompt.on_yes,
        page,
        shown,
        out: out.replace(/\s+/g, ' '),
      })) {
        expect([name, where, text]).toEqual([name, where, expect.stringMatching(says)])
        expect([name, where, text]).toEqual([name, where, expect.not.stringMatching(never)])
      }
      expect(page).toContain('medium risk')
      expect([read.prompt.risk, read.prompt.risk_ground]).toEqual([
        'medium',
        'policy requires an approval by somebody in the role `finance`',
      ])
    }
    // The text is true: the approval of an operator outside the role does not let the call run.
    unwrap(
      await other.client('answerApproval', { params: { id: approval.id }, body: { decision: 'approve' } }),
    )
    expect(unwrap(await fixtures.root('readApproval', { params: { id: approval.id } })).status).toBe(
      'pending',
    )
    unwrap(
      await finance.client('answerApproval', { params: { id: approval.id }, body: { decision: 'approve' } }),
    )
    expect(unwrap(await fixtures.root('readApproval', { params: { id: approval.id } })).status).toBe(
      'approved',
    )
    unwrap(await fixtures.root('cancelRun', { params: { run } }))
  })
})

test('D17 where policy requires two people, the first learns that one approval is not enough, the second that theirs is', async () => {
  await fixtures.withPolicies({ wants: rule('context.approval.count >= 2') }, async () => {
    const { approval, run } = await fixtures.proposeForApproval(agent.client, tool, {})
    const onYes = async () =>
      unwrap(await other.client('readApproval', { params: { id: approval.id } })).prompt.on_yes
    expect(await onYes()).toMatch(
      /^your approval alone is not enough: policy still requires approval\.count ≥ 2/,
    )
    unwrap(
      await finance.client('answerApproval', { params: { id: approval.id }, body: { decision: 'approve' } }),
    )
    expect(await onYes()).toBe(RUNS)
    unwrap(await fixtures.root('cancelRun', { params: { run } }))
  })
})

test('D17 mails and Slack messages name the required approvers and promise nobody that their own approval is enough', async () => {
  await fixtures.withPolicies({ wants: rule('context.approval.roles.contains("finance")') }, async () => {
    const { approval: asked, run } = await fixtures.proposeForApproval(agent.client, tool, {})
    const approval = await eventually('the approval is in the inbox', async () =>
      unwrap(await fixtures.root('listApprovals', { query: {} })).items.find(({ id }) => id === asked.id),
    )
    const message: Message = {
      id: 'm',
      kind: 'asked',
      approval,
      recipient: other.name,
      link: 'https://sign.example.com/approve/x',
      page: 'https://sign.example.com/console',
      seal: () => 'A'.repeat(43),
      at_ms: approval.requested_at,
    }
    const mail = mailOf(message)
    for (const text of [mail.text, mail.html, JSON.stringify(askedCard(message).blocks)]) {
      expect(text.replace(/\s+/g, ' ')).toMatch(/policy requires an approval by somebody in the role/i)
      expect(text).not.toMatch(/it counts towards|your yes/i)
    }
    unwrap(await fixtures.root('cancelRun', { params: { run } }))
  })
})
