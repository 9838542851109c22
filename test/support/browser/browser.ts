// The system's Chromium for tests of our pages: Chromium's engine without its window, which uses a
// third of the CPU, with a temporary profile.

import { existsSync } from 'node:fs'
import { type Browser, chromium } from 'playwright-core'
import { afterEach } from 'vitest'

const PROGRAM = '/usr/bin/chromium-headless-shell'

function openBrowser(): Promise<Browser> {
  if (!existsSync(PROGRAM))
    throw new Error(
      'no Chromium on this machine; `npm test` installs it, or run `apt-get install chromium-headless-shell`',
    )
  // Chromium can't sandbox itself as root. It only opens our own pages on loopback.
  const asRoot = process.getuid?.() === 0 ? ['--no-sandbox'] : []
  return chromium.launch({ executablePath: PROGRAM, args: [...asRoot, ...QUIET] })
}

let shared: Browser | undefined

/**
 * One browser for the files of this vitest worker, one after the other, because a start costs 0.6 s
 * of CPU. Each test's pages are closed after it, and with them cookies and storage. Playwright ends
 * the browser with this process.
 */
export async function browserForTests(): Promise<Browser> {
  if (shared?.isConnected() !== true) shared = await openBrowser()
  const browser = shared
  afterEach(async () => {
    for (const context of browser.contexts()) await context.close()
  })
  return browser
}

const QUIET = [
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--renderer-process-limit=1', // each page would start up to three; a fifth of their CPU time
]
