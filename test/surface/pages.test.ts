// The approval page in a real browser: on a phone, by keyboard, without JavaScript, with hostile arguments. What a machine can't run here fails.

import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Browser, chromium, type Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Desk, granted } from '../support/desk.ts'
import { sharedStack } from '../support/stack.ts'

const desk = new Desk('pages', sharedStack())
const agent = await desk.agent()
const tool = await desk.tool({ capabilities: ['network'] })
const pictures = mkdtempSync(join(tmpdir(), 'countersign-pages-'))
let browser: Browser

beforeAll(async () => {
  const args = [
    '--no-sandbox',
    '--disable-gpu',
    '--disable-quic',
    '--no-first-run',
    '--disable-background-networking',
    '--disable-component-update',
    '--disable-sync',
  ]
  browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args })
})
afterAll(() => browser.close())

const PHONE = { viewport: { width: 375, height: 740 }, javaScriptEnabled: false } as const

async function open(text: string, dark = false): Promise<{ page: Page; id: string }> {
  const { id } = (await desk.asked(agent.client, tool, { text })).approval
  const context = await browser.newContext({ ...PHONE, colorScheme: dark ? 'dark' : 'light' })
  const page = await context.newPage()
  await page.goto(await desk.link(desk.root, id))
  return { page, id }
}
const statusOf = async (id: string) => granted(await desk.root('readApproval', { params: { id } })).status

test('a phone without JavaScript approves by keyboard, and the page stays inert afterwards', async () => {
  const { page, id } = await open('hello')
  await page.screenshot({ path: join(pictures, 'ask.png'), fullPage: true })
  expect(await page.evaluate<number>('document.documentElement.scrollWidth')).toBeLessThanOrEqual(375)
  for (const name of ['Deny', 'Approve once']) {
    const box = await page.getByRole('button', { name }).boundingBox()
    expect(box?.height).toBeGreaterThanOrEqual(44)
  }
  const focused = () => page.evaluate<string>('document.activeElement.textContent.trim()')
  for (let presses = 0; presses < 10 && (await focused()) !== 'Approve once'; presses++) await page.keyboard.press('Tab')
  expect(await focused()).toBe('Approve once')
  await Promise.all([page.waitForNavigation(), page.keyboard.press('Enter')])
  expect(await page.getByRole('status').textContent()).toMatch(/^Approved/)
  expect(await page.locator('form').count()).toBe(0)
  expect(await statusOf(id)).toBe('approved')
  await page.screenshot({ path: join(pictures, 'approved.png'), fullPage: true })
})

test('a denial with a reason, in the dark', async () => {
  const { page, id } = await open('hello', true)
  await page.getByLabel(/Reason/).fill('not today')
  await page.screenshot({ path: join(pictures, 'dark.png'), fullPage: true })
  await Promise.all([page.waitForNavigation(), page.getByRole('button', { name: 'Deny' }).click()])
  expect(await page.getByRole('status').textContent()).toMatch(/^Denied/)
  const { answers } = granted(await desk.root('readApproval', { params: { id } }))
  expect(answers).toMatchObject([{ decision: 'deny', reason: 'not today', channel: 'link' }])
})

test('G09 hostile arguments are text: no element, no link, no turned direction comes of them', async () => {
  const hostile =
    '</pre><script>document.title="owned"</script><img src=x onerror=1> <!channel> <https://evil.example|click> \u202eevil\u2066 [a](b)'
  const { page } = await open(hostile)
  const shown = await page.getByLabel('Arguments of the call').textContent()
  expect(shown).toContain('</pre><script>')
  expect(shown).not.toMatch(/[\u202e\u2066]/)
  expect(await page.locator('script, img, a').count()).toBe(0)
  await page.screenshot({ path: join(pictures, 'hostile.png'), fullPage: true })
})

/** Runs in the page: elements whose text stands out too little from what is behind it (WCAG 2.2, 1.4.3). */
const POOR_CONTRAST = `(() => {
  const channels = (colour) => (colour.match(/[\\d.]+/g) ?? []).map(Number)
  const linear = (value) => (value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4)
  const luminance = (colour) => {
    const [r, g, b] = channels(colour).map((value) => linear(value / 255))
    return 0.2126 * r + 0.7152 * g + 0.0722 * b
  }
  const behind = (element) => {
    if (element === null) return matchMedia('(prefers-color-scheme: dark)').matches ? 'rgb(0,0,0)' : 'rgb(255,255,255)'
    const colour = getComputedStyle(element).backgroundColor
    return (channels(colour)[3] ?? 1) > 0 ? colour : behind(element.parentElement)
  }
  return [...document.querySelectorAll('main *')].flatMap((element) => {
    if (![...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim() !== '')) return []
    const [light, dark] = [luminance(getComputedStyle(element).color), luminance(behind(element))].sort((a, b) => b - a)
    const ratio = (light + 0.05) / (dark + 0.05)
    return ratio < 4.5 ? [element.tagName + ' ' + element.className + ' ' + ratio.toFixed(2)] : []
  })
})()`

test('every text on the page has a contrast of 4.5 at the least, in light and in dark', async () => {
  for (const dark of [false, true]) {
    const { page } = await open('hello', dark)
    const poor = await page.evaluate<string[]>(POOR_CONTRAST)
    expect(poor).toEqual([])
  }
})
