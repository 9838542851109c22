// Answering one approval in the console, on both sizes, with and without JavaScript; and
// clickjacking from another site.

import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import { browserForTests } from '../../support/browser/browser.ts'
import { DESK, PHONE, signedIn } from '../../support/browser/console-page.ts'
import { Fixtures, unwrap } from '../../support/fixtures.ts'
import { sharedStack } from '../../support/stack/stack.ts'

const fixtures = new Fixtures('console-walk', sharedStack())
const agent = await fixtures.agent()
const approver = await fixtures.operator(['approver'])
const tool = await fixtures.echoTool()

const browser = await browserForTests()

const openConsole = (options: Parameters<typeof signedIn>[2]) =>
  signedIn(browser, { url: fixtures.url, path: `/console?agent=${agent.name}`, key: approver.key }, options)

describe.each([
  ['a phone', PHONE, false],
  ['a phone', PHONE, true],
  ['a desk', DESK, false],
  ['a desk', DESK, true],
] as const)('on %s', (_name, viewport, javaScriptEnabled) => {
  test(`an operator opens a pending approval, approves for an hour and sees the outcome, ${javaScriptEnabled ? 'with' : 'without'} JavaScript`, async () => {
    const run = unwrap(await agent.client('createRun', { body: {} })).id
    const propose = async (word: string) =>
      unwrap(await agent.client('proposeCall', { params: { run }, body: { tool, args: { words: [word] } } }))
    const page = await openConsole({ viewport, javaScriptEnabled })
    const { approval } = await propose('first')
    const card = page.locator(`.card a[href="/console/approvals/${approval?.id}"]`)
    if (!javaScriptEnabled) await page.reload() // with JavaScript the card appears automatically
    await card.click()
    expect(await page.getByRole('heading', { level: 1 }).textContent()).toBe(
      `${agent.name} wants to run ${tool}`,
    )
    expect(await page.locator('pre.command').textContent()).toContain('first')
    const yes = page.getByRole('button', { name: 'Approve', exact: true })
    expect(await yes.evaluate((button) => button.getBoundingClientRect().bottom)).toBeLessThanOrEqual(
      viewport.height,
    )
    await page.getByText('Answer similar calls too').click()
    await page.getByRole('button', { name: 'Approve for 60 minutes' }).click()
    expect(await page.getByRole('status').textContent()).toMatch(
      new RegExp(`Approved.*by ${approver.name}.*also for similar calls`, 's'),
    )
    expect(await page.locator('button[name=decision]').count()).toBe(0)
    const said = unwrap(await fixtures.root('readApproval', { params: { id: approval?.id ?? '' } }))
    expect(said.answers).toMatchObject([
      { by: approver.name, channel: 'console', scope: 'timeboxed', ttl_s: 3_600 },
    ])
    expect((await propose('second')).state).toBe('granted')
    await page.getByRole('link', { name: 'Standing answers', exact: true }).click()
    expect(await page.locator('.card').first().textContent()).toContain(
      `Approval of ${tool} for ${agent.name}`,
    )
  })
})

test.each([
  ['a phone', PHONE],
  ['a desk', DESK],
])(
  'on %s without JavaScript, approving with fewer arguments reviews the change and runs exactly that',
  async (_name, viewport) => {
    const { approval } = await fixtures.proposeForApproval(agent.client, tool, { words: ['one', 'two'] })
    const page = await openConsole({ viewport, javaScriptEnabled: false })
    await page.goto(`${fixtures.url}/console/approvals/${approval.id}`)
    const show = async (text: string) => {
      const fold = page.getByText('Approve with changed arguments')
      if (!(await page.locator('#change-text').isVisible())) await fold.click()
      await page.locator('#change-text').fill(text)
      await page.getByRole('button', { name: 'Review the change' }).click()
    }
    await show('{"words": [')
    expect(await page.getByRole('alert').textContent()).toContain('This change can’t be made')
    expect(await page.locator('#change-text').inputValue()).toBe('{"words": [')
    await show('{"words":["one","two","three"]}')
    await page.getByRole('heading', { name: 'Approve with these changes?' }).waitFor()
    await page.getByRole('link', { name: 'Back to the original request' }).click()
    await page.getByText('Approve with changed arguments').click()
    await page.locator('#change-text').fill('{"words":["one"]}')
    await page.getByRole('button', { name: 'Approve', exact: true }).click() // B10: not the agent's call
    expect(await page.locator('.changes').textContent()).toContain('/words/1')
    expect(unwrap(await fixtures.root('readApproval', { params: { id: approval.id } }))).toMatchObject({
      status: 'pending',
      answers: [],
    })
    await page.getByRole('button', { name: 'Approve with changes' }).click()
    expect(await page.getByRole('status').textContent()).toContain('Approved')
    expect(await page.locator('pre.command').textContent()).not.toContain('two')
    const said = unwrap(await fixtures.root('readApproval', { params: { id: approval.id } }))
    expect(said).toMatchObject({ status: 'approved', edits: [{ by: approver.name, channel: 'console' }] })
  },
)

/** A page of another site: browsers treat `localhost` and 127.0.0.1 as different sites. */
async function elsewhere(body: string): Promise<string> {
  const site = createServer((_, answer) => answer.setHeader('content-type', 'text/html').end(body))
  await new Promise<void>((listening) => site.listen(0, '127.0.0.1', listening))
  onTestFinished(() => void site.close())
  return `http://localhost:${(site.address() as AddressInfo).port}/` // the address of a TCP server
}

test('P03 K05 the console can’t be framed, even for a signed-in operator', async () => {
  const { approval } = await fixtures.proposeForApproval(agent.client, tool, { words: ['framed'] })
  const page = await openConsole({ viewport: DESK, javaScriptEnabled: true })
  const complaints: string[] = []
  page.on('console', (message) => complaints.push(message.text()))
  const innocent = await elsewhere('<button>anything</button>')
  for (const path of [
    '/console',
    `/console/approvals/${approval.id}`,
    '/console/standing',
    '/console/history',
    '/console/skills',
    '/console/sign-in',
  ]) {
    complaints.length = 0
    const framed = new URL(path, fixtures.url).href
    await page.goto(
      await elsewhere(
        `<iframe id=ours src="${framed}" width=900 height=700></iframe><iframe id=control src="${innocent}"></iframe>`,
      ),
    )
    const inside = (name: string, what: string) => page.frameLocator(`#${name}`).locator(what).count()
    expect([
      path,
      await inside('ours', '.brand, [action^="/console"]'),
      await inside('control', 'button'),
    ]).toEqual([path, 0, 1])
    if (path !== '/console/sign-in')
      expect([path, complaints.join()]).toEqual([path, expect.stringContaining('frame-ancestors')])
  }
})
