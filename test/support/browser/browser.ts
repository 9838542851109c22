// A real browser for the tests of our pages: the system's Chromium, without a head, with a profile that goes with it.

import { existsSync } from 'node:fs'
import { type Browser, chromium } from 'playwright-core'
import { afterAll, afterEach } from 'vitest'

const PROGRAMS = ['/usr/bin/chromium', '/usr/bin/google-chrome', '/usr/bin/chrome']

function openBrowser(): Promise<Browser> {
  const executablePath = PROGRAMS.find((path) => existsSync(path))
  if (executablePath === undefined)
    throw new Error('no Chromium on this machine; `npm test` installs it, or run `apt-get install chromium`')
  // Chromium refuses to sandbox itself as root. What it opens here is our own page on loopback; it looks for nothing else.
  const asRoot = process.getuid?.() === 0 ? ['--no-sandbox'] : []
  return chromium.launch({ executablePath, args: [...asRoot, ...QUIET] })
}

/** One browser for the tests of a file, in which no page outlives its test. */
export async function browserForTests(): Promise<Browser> {
  const browser = await openBrowser()
  afterAll(() => browser.close())
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
]
