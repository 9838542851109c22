// The approval page while it is open: reviewing a change, the answers of others, and its end.

import { expect, test } from 'vitest'
import { expectNoControls, linkOpener } from '../../support/browser/link-page.ts'
import { Fixtures, unwrap } from '../../support/fixtures.ts'
import { sharedStack } from '../../support/stack/stack.ts'

const fixtures = new Fixtures('approval-page-life', sharedStack())
const agent = await fixtures.agent()
const anything = { type: 'object' }
const sensitive = await fixtures.echoTool()

const openLink = await linkOpener()
async function askApproval(args: Record<string, unknown> = { words: ['hello'] }, tool = sensitive) {
  const { approval } = await fixtures.proposeForApproval(agent.client, tool, args)
  return { id: approval.id, link: await fixtures.link(fixtures.root, approval.id) }
}
const approvalOf = async (id: string) => unwrap(await fixtures.root('readApproval', { params: { id } }))

test('approving with fewer arguments reviews the change first, without JavaScript, and runs exactly that', async () => {
  const { id, link } = await askApproval({
    words: ['one', 'two \u202e'],
    note: '</textarea><script>1</script>',
    password: 'hunter2-hunter2',
  })
  const before = await approvalOf(id)
  const page = await openLink(link)
  const text = page.locator('#change-text')
  const change = async (to: string) => {
    await page.getByText('Approve with changed arguments').click()
    await text.fill(to)
    await page.getByRole('button', { name: 'Review the change' }).click()
  }
  const args = JSON.parse(await text.inputValue()) as Record<string, unknown> // redacted, as on the card
  expect([args['words'], args['note'], await text.inputValue()]).toEqual([
    ['one', 'two \u202e'],
    '</textarea><script>1</script>',
    expect.stringMatching(/two \\u202e[\s\S]*«redacted/),
  ])
  await change('{"words": [')
  expect(await page.getByRole('alert').textContent()).toContain('This change can’t be made')
  expect(await text.inputValue()).toBe('{"words": [')
  await page.goto(link)
  await change(JSON.stringify({ ...args, words: ['one'] }))
  await page.getByRole('heading', { name: 'Approve with these changes?' }).waitFor()
  expect(await page.locator('.changes').textContent()).toMatch(/^\/words\/1"two \\u\{202e\}"It is removed\.$/)
  expect(await page.locator('pre.command').textContent()).toBe('["echo","one"]')
  expect(await approvalOf(id)).toEqual(before)
  await page.getByRole('textbox', { name: 'Reason' }).fill('one will do')
  await page.getByRole('button', { name: 'Approve with changes' }).click()
  await page.getByRole('heading', { name: 'Approved', exact: true }).waitFor()
  await expectNoControls(page)
  expect(await page.locator('main').textContent()).toContain('has changed the arguments')
  const after = await approvalOf(id)
  expect(after).toMatchObject({
    status: 'approved',
    answers: [{ reason: 'one will do', channel: 'link' }],
    edits: [{ from: before.digest }],
  })
  await page.goto(link)
  await page.getByRole('heading', { name: 'Approved', exact: true }).waitFor() // B12: the outcome, and nothing to answer
  await expectNoControls(page)
})

test('B10 approving next to an edited text leads to the review and keeps the reason', async () => {
  const { id, link } = await askApproval({ words: ['one', 'two'] })
  const page = await openLink(link)
  await page.getByText('Approve with changed arguments').click()
  await page.locator('#change-text').fill('{"words":["one"]}')
  await page.getByRole('textbox', { name: 'Reason' }).fill('one will do')
  await page.getByRole('button', { name: 'Approve once' }).click()
  await page.getByRole('heading', { name: 'Approve with these changes?' }).waitFor()
  expect(await page.getByRole('textbox', { name: 'Reason' }).inputValue()).toBe('one will do')
  expect((await approvalOf(id)).status).toBe('pending')
  await page.getByRole('button', { name: 'Approve with changes' }).click()
  await page.getByRole('heading', { name: 'Approved', exact: true }).waitFor()
  expect((await approvalOf(id)).prompt.command).toBe('["echo","one"]')
})

// ── Live updates ──

const others = [await fixtures.operator(['approver']), await fixtures.operator(['approver'])] as const
const yesBy = async (id: string, { client } = others[0]) =>
  unwrap(await client('answerApproval', { params: { id }, body: { decision: 'approve', reason: 'seen' } }))
const needsTwo = (name: string) =>
  `@id("two-${name}") forbid (principal, action == Action::"tool.execute/${name}", resource) when { context.approval.count < 2 };`

test('an open approval page shows the answer of another approver and then the outcome', async () => {
  const tool = await fixtures.tool({ capabilities: ['process_exec'], input_schema: anything })
  await fixtures.withPolicies({ two: needsTwo(tool) }, async () => {
    const { id, link } = await askApproval({}, tool)
    const page = await openLink(link, { javaScriptEnabled: true })
    await yesBy(id)
    await page.getByText(`Approved by ${others[0].name} (api)`).waitFor()
    expect(await page.getByRole('button', { name: 'Approve once' }).isEnabled()).toBe(true)
    await yesBy(id, others[1])
    await page.getByRole('heading', { name: 'Approved', exact: true }).waitFor()
    await expectNoControls(page)
  })
})

test('a page keeps the text being written when others decide, and disables its buttons', async () => {
  const { id, link } = await askApproval()
  const page = await openLink(link, { javaScriptEnabled: true })
  await page.getByRole('textbox', { name: 'Reason' }).fill('because I have thought about it')
  await yesBy(id)
  await page.getByRole('alert').waitFor()
  expect(await page.getByRole('textbox', { name: 'Reason' }).inputValue()).toBe(
    'because I have thought about it',
  )
  expect(await page.getByRole('button', { name: 'Deny' }).isDisabled()).toBe(true)
  await page.getByRole('link', { name: 'See what happened' }).click()
  await page.getByRole('heading', { name: 'Approved', exact: true }).waitFor()
})

test('an approver who waits for others can reload the page, and with JavaScript sees the outcome automatically', async () => {
  const tool = await fixtures.tool({ capabilities: ['process_exec'], input_schema: anything })
  await fixtures.withPolicies({ two: needsTwo(tool) }, async () => {
    const { id, link } = await askApproval({}, tool)
    const plain = await openLink(link)
    await plain.getByRole('button', { name: 'Approve once' }).click()
    await plain.getByRole('heading', { name: 'Your answer is recorded; more answers are needed' }).waitFor()
    expect(await plain.locator('form, button, input, textarea').count()).toBe(0)
    const following = await openLink(link, { javaScriptEnabled: true })
    await following.getByText('Approved by root (link)').waitFor()
    await yesBy(id)
    await following.getByRole('heading', { name: 'Approved', exact: true }).waitFor()
    await plain.getByRole('link', { name: 'look again' }).click()
    await plain.getByRole('heading', { name: 'Approved', exact: true }).waitFor()
    await expectNoControls(plain)
  })
})

test.each(['follows', 'has not begun to follow'])(
  'a page that %s its stream says that its link was revoked, and can no longer answer',
  async (when) => {
    const { id, link } = await askApproval()
    const page = await openLink('about:blank', { javaScriptEnabled: true })
    const revoked = Promise.withResolvers<void>()
    if (when !== 'follows')
      await page.route('**/events', (route) => revoked.promise.then(() => route.continue()))
    const followed = when === 'follows' ? page.waitForResponse(/\/events$/) : undefined
    await page.goto(link)
    await followed
    unwrap(await fixtures.root('revokeLinks', { params: { id }, query: {} }))
    revoked.resolve()
    await page.getByText('This link was revoked').waitFor()
    await expectNoControls(page)
    expect((await approvalOf(id)).status).toBe('pending')
  },
)
