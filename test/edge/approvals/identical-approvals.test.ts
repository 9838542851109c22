// Identical approvals are one card with a count and can be answered together: each is recorded
// separately, and none that was not shown.

import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { accessibilityDefects } from '../../support/browser/axe.ts'
import { browserForTests } from '../../support/browser/browser.ts'
import { signedIn } from '../../support/browser/console-page.ts'
import { ConsoleSession } from '../../support/browser/console-session.ts'
import { eventually } from '../../support/eventually.ts'
import { Fixtures, unwrap } from '../../support/fixtures.ts'
import { sharedStack } from '../../support/stack/stack.ts'

const fixtures = new Fixtures('alike', sharedStack())
const approver = await fixtures.operator(['approver'])
const spec = {
  capabilities: ['process_exec' as const],
  input_schema: { type: 'object' },
  executor: { argv: ['echo', '{...words}'] },
}
const tool = await fixtures.tool(spec)

const browser = await browserForTests()

type Agent = Awaited<ReturnType<Fixtures['agent']>>
const ask = async ({ client }: Agent, words = ['same'], of = tool): Promise<string> =>
  (await fixtures.proposeForApproval(client, of, { words })).approval.id
const read = async (id: string) => unwrap(await fixtures.root('readApproval', { params: { id } }))
const statusOf = async (ids: readonly string[]) => Promise.all(ids.map(async (id) => (await read(id)).status))
/** This agent's approvals as the inbox lists them, grouped, newest first. */
async function listed({ name }: Agent) {
  const { items } = unwrap(
    await fixtures.root('listApprovals', { query: { status: 'pending', alike: 'once' } }),
  )
  return items.filter(({ prompt }) => prompt.agent === name).map(({ id, alike }) => [id, alike])
}
/** The inbox is a copy, so a new approval appears there a moment later. */
const listing = (agent: Agent, expected: unknown) =>
  eventually('the inbox lists it so', async () =>
    JSON.stringify(await listed(agent)) === JSON.stringify(expected) ? true : undefined,
  )
const openConsole = ({ name }: Agent, options = {}): Promise<Page> =>
  signedIn(browser, { url: fixtures.url, path: `/console?agent=${name}`, key: approver.key }, options)

test('approvals are identical if agent, tool, arguments and plan are equal', async () => {
  const [agent, other] = [await fixtures.agent(), await fixtures.agent()]
  const [first, second] = [await ask(agent), await ask(agent)]
  const of = await fixtures.tool(spec)
  const before = await ask(agent, ['same'], of)
  await fixtures.tool({ ...spec, description: 'another version' }, of)
  const others = [await ask(agent, ['other']), await ask(other), before, await ask(agent, ['same'], of)]
  const groups = await Promise.all([first, second, ...others].map(async (id) => (await read(id)).group))
  expect([groups[0], new Set(groups).size]).toEqual([groups[1], 5])
  expect((await read(first)).digest).not.toBe((await read(second)).digest)
})

test('identical approvals are listed once with their number, and the next one takes the place of an ended one', async () => {
  const agent = await fixtures.agent()
  const [a = '', b = '', c = ''] = [await ask(agent), await ask(agent), await ask(agent)]
  const different = await ask(agent, ['another'])
  await listing(agent, [
    [different, 1],
    [a, 3],
  ])
  const { group } = await read(a)
  const members = unwrap(await fixtures.root('listApprovals', { query: { group } })).items.map(({ id }) => id)
  expect(members).toEqual([c, b, a])
  expect(
    unwrap(await fixtures.root('listApprovals', { query: { group, after: c } })).items.map(({ id }) => id),
  ).toEqual([b, a])
  for (const [id, rest] of [
    [
      a,
      [
        [different, 1],
        [b, 2],
      ],
    ],
    [
      c,
      [
        [different, 1],
        [b, 1],
      ],
    ],
    [b, [[different, 1]]],
  ] as const) {
    unwrap(await fixtures.root('answerApproval', { params: { id }, body: { decision: 'deny' } }))
    await listing(agent, rest)
  }
})

test('identical approvals can be approved together, each with its own digest, without those requested later', async () => {
  const agent = await fixtures.agent()
  const ids = [await ask(agent), await ask(agent), await ask(agent)]
  await listing(agent, [[ids[0], 3]])
  const page = await openConsole(agent)
  expect(await page.locator('.card').count()).toBe(1)
  expect(await page.locator('.card').textContent()).toContain('3 identical requests')
  expect(await page.locator('#words').textContent()).toMatch(
    /^3 of \d+ pending approvals?\.$|^3 pending approvals\.$/,
  )
  await page.locator('.card h2 a').click()
  await page.locator('#alike summary').click()
  const late = await ask(agent)
  await listing(agent, [[ids[0], 4]])
  await page.getByLabel('Reason for all 3').fill('the whole batch')
  await page.getByRole('button', { name: 'Approve all 3' }).click()
  expect(await page.getByRole('heading', { level: 1 }).textContent()).toBe('3 of 3 approved')
  expect(await statusOf([...ids, late])).toEqual(['approved', 'approved', 'approved', 'pending'])
  const said = await Promise.all(ids.map(read))
  expect(new Set(said.map(({ digest }) => digest)).size).toBe(3)
  for (const { answers } of said)
    expect(answers).toMatchObject([
      { by: approver.name, channel: 'console', scope: 'once', reason: 'the whole batch' },
    ])
})

test('denying a card in the inbox denies all its approvals and reports those that were already answered', async () => {
  const agent = await fixtures.agent()
  const ids = [await ask(agent), await ask(agent)]
  const different = await ask(agent, ['another'])
  await listing(agent, [
    [different, 1],
    [ids[0], 2],
  ])
  const page = await openConsole(agent, { javaScriptEnabled: true })
  await page.getByRole('checkbox', { name: 'Select all 2' }).check()
  await page.locator(`#choose-${different}`).check()
  await page.locator('#deny-chosen summary').click()
  await page.getByRole('button', { name: 'Deny selected' }).click()
  expect(await page.getByRole('heading', { level: 1 }).textContent()).toBe('3 of 3 denied')
  expect(await accessibilityDefects(page)).toEqual([])
  expect(await statusOf([...ids, different])).toEqual(['denied', 'denied', 'denied'])
})

test('the form for identical approvals is accessible, and Enter in it denies', async () => {
  const agent = await fixtures.agent()
  const ids = [await ask(agent), await ask(agent)]
  await listing(agent, [[ids[0], 2]])
  const page = await openConsole(agent, { javaScriptEnabled: true })
  expect(await accessibilityDefects(page)).toEqual([])
  await page.locator('.card h2 a').click()
  expect(await accessibilityDefects(page)).toEqual([])
  expect(await page.locator('#alike form button').allTextContents()).toEqual(
    ['Deny all 2', 'Approve all 2'].map((t) => expect.stringContaining(t)),
  )
})

test('L3 approving several at once requires identical approvals and names the newest one shown', async () => {
  const agent = await fixtures.agent()
  const [one, other] = [await ask(agent), await ask(agent, ['another'])]
  const session = await ConsoleSession.open(fixtures.url, approver.key)
  const { form = '' } = await session.fields('/console')
  const post = (id: string[], more: Record<string, string> = {}) =>
    session.get('/console/approvals', {
      method: 'POST',
      headers: { origin: new URL(fixtures.url).origin },
      body: new URLSearchParams([
        ...Object.entries({ form, decision: 'approve', ...more }),
        ...id.map((each): [string, string] => ['id', each]),
      ]),
    })
  expect((await post([one, other])).status).toBe(400)
  expect((await post([one], { reason: 'x'.repeat(1_001) })).status).toBe(400)
  expect(await (await post([`${'0'.repeat(64)}~${one}`])).text()).toContain('0 of 0 approved')
  expect(await (await post([`${(await read(one)).group}~apr_0`])).text()).toContain('0 of 0 approved')
  expect(await statusOf([one, other])).toEqual(['pending', 'pending'])
})
