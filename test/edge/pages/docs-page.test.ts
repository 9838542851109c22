// Promise: /docs works on a phone, by keyboard and without JavaScript, passes axe, and its search
// finds operations, data and failures.

import { expect, test } from 'vitest'
import { accessibilityDefects } from '../../support/browser/axe.ts'
import { browserForTests } from '../../support/browser/browser.ts'
import { sideways } from '../../support/browser/in-page.ts'
import { Fixtures } from '../../support/fixtures.ts'
import { sharedStack } from '../../support/stack/stack.ts'

const fixtures = new Fixtures('docs', sharedStack())
const browser = await browserForTests()
const url = new URL('/docs', fixtures.url).href
const PHONE = { width: 360, height: 740 }
const DESKTOP = { width: 1280, height: 900 }

async function open(hash = '', options: Parameters<typeof browser.newContext>[0] = {}) {
  const context = await browser.newContext({ viewport: DESKTOP, ...options })
  const page = await context.newPage()
  await page.goto(url + hash)
  return page
}

test.each([
  ['a phone in the dark', { viewport: PHONE, colorScheme: 'dark' }],
  ['a desktop in the light', { viewport: DESKTOP, colorScheme: 'light' }],
] as const)(
  '/docs passes axe and needs no sideways scrolling on %s',
  { timeout: 120_000 },
  async (_name, look) => {
    const page = await open('', look)
    expect(await page.evaluate(sideways, '100%')).toBeLessThanOrEqual(0)
    // Axe compares every element with every other; each kind of entry is among the first of its
    // section.
    await page.evaluate(
      'for (const all of document.querySelectorAll("section")) [...all.querySelectorAll("article, tr")].slice(20).forEach((one) => one.remove())',
    )
    expect(await accessibilityDefects(page)).toEqual([])
  },
)

test('a link to a failure code shows it, also without JavaScript', async () => {
  const page = await open('#problem-queue_full', { javaScriptEnabled: false, viewport: PHONE })
  const row = page.locator('#problem-queue_full')
  expect(await row.isVisible()).toBe(true)
  expect(await row.textContent()).toContain('503')
  expect(await page.getByRole('searchbox').count()).toBe(0)
  expect(await page.getByRole('button').count()).toBe(0)
  await page.locator('#listRuns summary', { hasText: /^Python$/ }).click()
  expect(await page.locator('#listRuns pre', { hasText: 'import json' }).isVisible()).toBe(true)
})

test('the search on /docs finds an operation, a schema and a failure by its words, by keyboard alone', async () => {
  const page = await open()
  await page.keyboard.press('/')
  for (const [words, found] of [
    ['rotate agent key', 'Rotate agent key'],
    ['listedcall', 'ListedCall'],
    ['queue_full', 'Failures'],
  ] as const) {
    await page.keyboard.press('ControlOrMeta+A')
    await page.keyboard.type(words)
    const links = page.locator('nav.side a:visible')
    expect(await links.allTextContents()).toEqual([found])
  }
  await page.keyboard.press('ControlOrMeta+A')
  await page.keyboard.type('zebra crossing')
  expect(await page.getByText('Nothing on this page contains all of these words.').isVisible()).toBe(true)
  await page.keyboard.press('ControlOrMeta+A')
  await page.keyboard.press('Delete')
  expect(await page.locator('nav.side details details[open] summary').allTextContents()).toEqual(['Calls'])
})

test('a copy button copies the request beside it', async () => {
  const page = await open('', { permissions: ['clipboard-read', 'clipboard-write'] })
  await page.locator('#listCalls').getByRole('button', { name: 'Copy' }).first().click()
  const copied = await page.evaluate<string>('navigator.clipboard.readText()')
  expect(copied).toContain(`curl -sS '${new URL('/v1/calls', fixtures.url).href}`)
  expect(await page.locator('#listCalls').getByRole('button', { name: 'Copied' }).count()).toBe(1)
})
