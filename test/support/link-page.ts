// The page behind an approval's link, as a person opens it: on a phone and without JavaScript, if the test says no more.

import type { Browser, BrowserContextOptions, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll } from 'vitest'
import { openBrowser } from './browser.ts'
import { PHONE } from './console-page.ts'

/** A browser for the tests of one file; what a test has open ends with it. */
export function browsing(): (url: string, options?: BrowserContextOptions) => Promise<Page> {
  let browser: Browser | undefined
  beforeAll(async () => {
    browser = await openBrowser()
  })
  afterAll(() => browser?.close())
  afterEach(async () => {
    for (const context of browser?.contexts() ?? []) await context.close()
  })
  return (url, options) => {
    if (browser === undefined) throw new Error('the browser is opened before the first test')
    return openPage(browser, url, options)
  }
}

export async function openPage(browser: Browser, url: string, options: BrowserContextOptions = {}): Promise<Page> {
  const context = await browser.newContext({ viewport: PHONE, javaScriptEnabled: false, ...options })
  const page = await context.newPage()
  await page.goto(url)
  return page
}

/** It throws where there is still something to press, to write in or to follow. */
export async function inert(page: Page): Promise<void> {
  const left = await page.locator('form, button, input, textarea, a').allTextContents()
  if (left.length > 0) throw new Error(`the page still offers ${JSON.stringify(left)}`)
}
