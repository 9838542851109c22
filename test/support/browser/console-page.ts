// A console page in the browser, as an operator sees it after signing in.

import type { Browser, BrowserContextOptions, Page } from 'playwright-core'

export const PHONE = { width: 390, height: 844 }
export const DESK = { width: 1280, height: 900 }

type ConsoleTarget = { readonly url: string; readonly path: string; readonly key: string }

/** Signs in and opens `path` in a new context; by default on a phone and without JavaScript. */
export async function signedIn(
  browser: Browser,
  { url, path, key }: ConsoleTarget,
  options: BrowserContextOptions = {},
): Promise<Page> {
  const context = await browser.newContext({ viewport: PHONE, javaScriptEnabled: false, ...options })
  const page = await context.newPage()
  await page.goto(new URL(path, url).href)
  await page.getByLabel('Operator key').fill(key)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('button', { name: 'Sign out' }).waitFor()
  return page
}

/** The visible controls that are less than 44 pixels high, as the beginnings of their HTML. */
export const smallControls = (page: Page, selector: string): Promise<string[]> =>
  page
    .locator(selector)
    .evaluateAll((controls) =>
      controls
        .filter(
          (control) => control.checkVisibility() && Math.round(control.getBoundingClientRect().height) < 44,
        )
        .map(({ outerHTML }) => outerHTML.slice(0, 80)),
    )
