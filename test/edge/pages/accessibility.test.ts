// Checks every page on which humans answer with axe: on a phone and on a desktop, and in the light
// and the dark scheme.

import type { BrowserContextOptions, Page } from 'playwright-core'
import { describe, expect, test } from 'vitest'
import { defectsInBothSchemes } from '../../support/browser/axe.ts'
import { browserForTests } from '../../support/browser/browser.ts'
import { DESK, PHONE, signedIn } from '../../support/browser/console-page.ts'
import { Fixtures } from '../../support/fixtures.ts'
import { sharedStack } from '../../support/stack/stack.ts'

const fixtures = new Fixtures('accessibility', sharedStack())
const agent = await fixtures.agent()
const approver = await fixtures.operator(['approver'])
const tool = await fixtures.echoTool()
const askApproval = async () =>
  (await fixtures.proposeForApproval(agent.client, tool, { words: ['hello'], note: 'x'.repeat(100_000) }))
    .approval.id

const browser = await browserForTests()

/** No page asks for its width when it loads, so that one that is resized is as if it had that size. */
async function defects(page: Page): Promise<string[]> {
  const found: string[] = []
  for (const [where, viewport] of [
    ['on a desk', DESK],
    ['on a phone', PHONE],
  ] as const) {
    await page.setViewportSize(viewport)
    found.push(...(await defectsInBothSchemes(page)).map((defect) => `${where}: ${defect}`))
  }
  return found
}

describe('on a phone and on a desktop', () => {
  const options: BrowserContextOptions = { viewport: PHONE, colorScheme: 'light', javaScriptEnabled: true }
  const mine = `/console?agent=${agent.name}`

  test('the console passes axe in both schemes', async () => {
    const outside = await (await browser.newContext(options)).newPage()
    await outside.goto(new URL('/console', fixtures.url).href)
    expect(await defects(outside)).toEqual([])
    await outside.getByLabel('Operator key').fill('no key at all')
    await outside.getByRole('button', { name: 'Sign in' }).click()
    await outside.getByRole('alert').waitFor()
    expect(await defects(outside)).toEqual([])

    const [first, second] = [await askApproval(), await askApproval()]
    const page = await signedIn(browser, { url: fixtures.url, path: mine, key: approver.key }, options)
    const visit = async (path: string): Promise<void> => {
      await page.goto(new URL(path, fixtures.url).href)
      expect([path, await defects(page)]).toEqual([path, []])
    }
    await visit(mine)
    await visit('/console?agent=nobody-at-all')
    await visit(
      `/console/approvals/${(await fixtures.proposeForApproval(agent.client, tool, { words: ['a', 'b'] })).approval.id}`,
    )
    await page.getByText('Approve with changed arguments').click()
    expect(await defects(page)).toEqual([])
    await page.locator('#change-text').fill('{"words":["a"]}')
    await page.getByRole('button', { name: 'Review the change' }).click()
    await page.getByRole('heading', { name: 'Approve with these changes?' }).waitFor()
    expect(await defects(page)).toEqual([])
    await visit(`/console/approvals/${first}`)
    await page.getByText('Answer similar calls too').click()
    expect(await defects(page)).toEqual([])
    await page.getByRole('button', { name: 'Approve for 60 minutes' }).click()
    await page.getByRole('status').waitFor()
    expect(await defects(page)).toEqual([])
    await page.getByRole('link', { name: 'Watch the call' }).click()
    await page.getByText('waiting for a worker').waitFor()
    expect(await defects(page)).toEqual([])
    await visit('/console/history')
    await visit('/console/workers')
    await visit('/console/skills')
    await visit('/console/standing')
    await page.getByRole('button', { name: 'Revoke' }).first().click()
    await page.getByRole('heading', { name: 'Revoked' }).waitFor()
    expect(await defects(page)).toEqual([])
    await page.goto(new URL(mine, fixtures.url).href)
    await page.locator(`#choose-${second}`).check()
    await page.locator('#deny-chosen summary').click()
    await page.getByRole('button', { name: 'Deny selected' }).click()
    await page.getByText('1 of 1 denied').waitFor()
    expect(await defects(page)).toEqual([])
    await visit('/console/approvals/apr_0')
    await visit('/console/nowhere')
  })

  test('the approval page passes axe in both schemes', async () => {
    const page = await (await browser.newContext(options)).newPage()
    const link = await fixtures.link(fixtures.root, await askApproval())
    await page.goto(link)
    expect(await defects(page)).toEqual([])
    await page.goto(
      await fixtures.link(
        fixtures.root,
        (await fixtures.proposeForApproval(agent.client, tool, { words: ['a', 'b'] })).approval.id,
      ),
    )
    expect(await defects(page)).toEqual([]) // with the fields for changed arguments open
    await page.locator('#change-text').fill('{"words":["a"]}')
    await page.getByRole('button', { name: 'Review the change' }).click()
    await page.getByRole('heading', { name: 'Approve with these changes?' }).waitFor()
    expect(await defects(page)).toEqual([])
    await page.goto(link)
    await page.getByRole('button', { name: 'Approve once' }).click()
    await page.getByRole('status').waitFor()
    expect(await defects(page)).toEqual([])
    await page.goto(`${link}x`)
    expect(await defects(page)).toEqual([])
  })
})

test('control: axe finds the defects of a broken page', async () => {
  const page = await (await browser.newContext()).newPage()
  await page.setContent(
    '<html lang=en><title>t</title><main><h1>h</h1><img src=x><input><p style="color:#ccc;background:#fff">faint</p></main>',
  )
  const seen = await defectsInBothSchemes(page)
  const names = seen.map((line) => line.split(':')[0])
  expect(names).toEqual(
    expect.arrayContaining(['serious color-contrast', 'critical image-alt', 'critical label']),
  )
  await page.setContent(
    '<html lang=en><title>t</title><style>@media (prefers-color-scheme: dark) { p { color: #333 } body { background: #222 } }</style><main><h1>h</h1><p>faint in the dark</p></main>',
  )
  expect((await defectsInBothSchemes(page)).map((line) => line.split(':')[0])).toContain(
    'in the dark scheme serious color-contrast',
  )
})
