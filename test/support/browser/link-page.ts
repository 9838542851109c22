// The page behind an approval link in the browser; by default on a phone and without JavaScript.

import type { Browser, BrowserContextOptions, Page } from 'playwright-core'
import { browserForTests } from './browser.ts'
import { PHONE } from './console-page.ts'

/** Returns a function that opens a link in the browser of this test file. */
export async function linkOpener(): Promise<(url: string, options?: BrowserContextOptions) => Promise<Page>> {
  const browser = await browserForTests()
  return (url, options) => openPage(browser, url, options)
}

export async function openPage(
  browser: Browser,
  url: string,
  options: BrowserContextOptions = {},
): Promise<Page> {
  const context = await browser.newContext({ viewport: PHONE, javaScriptEnabled: false, ...options })
  const page = await context.newPage()
  await page.goto(url)
  return page
}

/** Throws if the page still has a control or a link. */
export async function expectNoControls(page: Page): Promise<void> {
  const left = await page.locator('form, button, input, textarea, a').allTextContents()
  if (left.length > 0) throw new Error(`the page still offers ${JSON.stringify(left)}`)
}
