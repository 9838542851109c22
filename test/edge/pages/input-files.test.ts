// Approvers download the exact input files of a call from its page, never shown inline, if policy
// lets them, and only those of this call.

import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { sha256 } from '../../../shared/bytes/json.ts'
import { browserForTests } from '../../support/browser/browser.ts'
import { DESK, PHONE, signedIn } from '../../support/browser/console-page.ts'
import { ConsoleSession } from '../../support/browser/console-session.ts'
import { faintTexts, sideways } from '../../support/browser/in-page.ts'
import { openPage } from '../../support/browser/link-page.ts'
import { Fixtures, unwrap } from '../../support/fixtures.ts'
import { sharedStack } from '../../support/stack/stack.ts'

const fixtures = new Fixtures('brought-files', sharedStack())
const agent = await fixtures.agent()
const tool = await fixtures.tool({ input_files: true, capabilities: ['process_exec'] })
const approver = await fixtures.operator(['approver'])
const browser = await browserForTests()

const SCRIPT = '<script>alert(1)</script>\n'
const NOTES = 'what it is for\n'
const OTHER = 'of the same run, and not of the call'

async function askApproval() {
  const run = unwrap(await agent.client('createRun', { body: {} })).id
  for (const text of [SCRIPT, NOTES, OTHER])
    unwrap(await agent.client('putFile', { params: { run, sha256: sha256(text) }, body: Buffer.from(text) }))
  const files = [
    { path: 'in/deploy "now".html', sha256: sha256(SCRIPT) },
    { path: 'notes.txt', sha256: sha256(NOTES) },
  ]
  const { approval } = unwrap(
    await agent.client('proposeCall', { params: { run }, body: { tool, args: {}, files } }),
  )
  if (approval === undefined) throw new Error('nobody is asked')
  return { id: approval.id, link: await fixtures.link(approver.client, approval.id) }
}

const SAVED = {
  'content-type': 'application/octet-stream',
  'content-disposition': `attachment; filename*=UTF-8''deploy%20%22now%22.html`,
  'content-security-policy': "default-src 'none'; sandbox",
  'x-content-type-options': 'nosniff',
  'cache-control': 'no-store',
}

test('the input files of a call can be downloaded in the console and through its link, and no others', async () => {
  const { id, link } = await askApproval()
  const session = await ConsoleSession.open(fixtures.url, approver.key)
  const doors = {
    console: { page: `/console/approvals/${id}`, get: (path: string) => session.get(path) },
    link: { page: new URL(link).pathname, get: (path: string) => fetch(new URL(path, fixtures.url)) },
  }
  for (const { page, get } of Object.values(doors)) {
    const at = `${page}/files/${sha256(SCRIPT)}`
    const shown = await (await get(page)).text()
    expect(shown).toContain(`<a href="${at}" download="">in/deploy &quot;now&quot;.html</a>`)
    expect(shown).toContain(`${SCRIPT.length} bytes, SHA-256 <code>${sha256(SCRIPT)}</code>`)
    const file = await get(at)
    expect(Object.fromEntries(file.headers)).toMatchObject(SAVED)
    expect(await file.text()).toBe(SCRIPT)
    const notes = await get(`${page}/files/${sha256(NOTES)}`)
    expect([notes.headers.get('content-disposition'), await notes.text()]).toEqual([
      `attachment; filename*=UTF-8''notes.txt`,
      NOTES,
    ])
    for (const digest of [sha256(OTHER), sha256('never put'), 'x'.repeat(64)])
      expect((await get(`${page}/files/${digest}`)).status).toBe(404)
  }
  const { prompt } = unwrap(await approver.client('readApproval', { params: { id } }))
  expect(prompt.files).toEqual([
    { path: 'in/deploy "now".html', sha256: sha256(SCRIPT), bytes: SCRIPT.length },
    { path: 'notes.txt', sha256: sha256(NOTES), bytes: NOTES.length },
  ])
})

test('input files need a session or a valid link, and permission to read runs', async () => {
  const { id, link } = await askApproval()
  const [console, linked] = [
    `${fixtures.url}/console/approvals/${id}/files/${sha256(SCRIPT)}`,
    `${link}/files/${sha256(SCRIPT)}`,
  ]
  const session = await ConsoleSession.open(fixtures.url, approver.key)
  expect((await fetch(console)).status).toBe(401)
  expect((await fetch(console, { headers: { authorization: `Bearer ${agent.key}` } })).status).toBe(401)
  expect((await fetch(linked.replace('/files/', 'x/files/'))).status).toBe(401)
  const blind = `forbid (principal == Operator::"${approver.name}", action == Action::"run.read", resource);`
  await fixtures.withPolicies({ blind }, async () => {
    expect([(await session.get(console)).status, (await fetch(linked)).status]).toEqual([403, 403])
    for (const page of [await session.get(`/console/approvals/${id}`), await fetch(link)]) {
      const text = await page.text()
      expect(text).toContain('in/deploy &quot;now&quot;.html')
      expect(text).not.toContain('/files/')
    }
  })
  expect((await fetch(linked)).status).toBe(200)
  unwrap(await fixtures.root('revokeLinks', { params: { id } }))
  expect([(await fetch(linked)).status, (await session.get(console)).status]).toEqual([410, 200])
})

test('a tap downloads an input file, on a phone and on a desktop', {
  timeout: 60_000,
}, async () => {
  const { id, link } = await askApproval()
  const options = { javaScriptEnabled: true, acceptDownloads: true }
  const pages = [
    await openPage(browser, link, { ...options, viewport: PHONE, colorScheme: 'dark' }),
    await signedIn(
      browser,
      { url: fixtures.url, path: `/console/approvals/${id}`, key: approver.key },
      { ...options, viewport: DESK },
    ),
  ]
  for (const page of pages) {
    const named = page.getByRole('link', { name: 'in/deploy "now".html' })
    expect(Math.round((await named.boundingBox())?.height ?? 0)).toBeGreaterThanOrEqual(44)
    expect(await page.evaluate(faintTexts)).toEqual([])
    const [saved] = await Promise.all([page.waitForEvent('download'), named.click()])
    expect(saved.suggestedFilename()).toMatch(/^deploy .now.\.html$/)
    expect(readFileSync(await saved.path(), 'utf8')).toBe(SCRIPT)
    expect(await page.evaluate(sideways, '200%')).toBe(0)
  }
})
