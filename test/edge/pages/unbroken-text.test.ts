// Fills every field with the longest text that has no place to break, and checks that no page
// scrolls sideways, on a phone or on a desktop. The texts come from a hostile agent, publisher,
// worker and operator.

import type { Page } from 'playwright-core'
import { beforeAll, expect, test } from 'vitest'
import { LIMITS } from '../../../shared/limits.ts'
import type { Call } from '../../../shared/wire/calls.ts'
import { browserForTests } from '../../support/browser/browser.ts'
import { signedIn } from '../../support/browser/console-page.ts'
import { sideways, unfold } from '../../support/browser/in-page.ts'
import { Fixtures, unwrap } from '../../support/fixtures.ts'
import { component, Publisher } from '../../support/skills/skill.ts'
import { sharedStack } from '../../support/stack/stack.ts'
import { PeerWorker } from '../../support/worker/peer-worker.ts'

const WIDTHS = [360, 1280]
const long = (letter: string, length: number): string => letter.repeat(length)
const REASON = long('R', LIMITS.reason_chars)

/**
 * Names have the maximal length, except the pool's, which has the prefix and `-pool`. A skill's
 * tools have the id before their names.
 */
const fixtures = new Fixtures(`unbroken-${long('n', 48)}`, sharedStack())
const agent = await fixtures.agent()
const operator = await fixtures.operator(['approver', 'admin'])
const maker = await fixtures.operator(['admin'])
const tool = await fixtures.tool(
  {
    capabilities: ['network'],
    input_schema: { type: 'object' },
    description: long('D', 500),
    executor: { argv: ['echo', '{...words}'] },
  },
  `unbroken-${long('t', 41)}`,
)
/** Each in another session, so that no standing answer covers another. */
const runSpec = () => ({
  session: `${long('S', 60)}${fixtures.name()}`,
  device: long('d', 128),
  channel: long('c', 64),
})
const ARGS = { words: [long('W', 5_000), '</p><b>'], [long('k', 5_000)]: long('v', 5_000) }

const browser = await browserForTests()
const at = (path: string): string => new URL(path, fixtures.url).href
const propose = async (args: Record<string, unknown> = ARGS): Promise<Call> =>
  unwrap(await agent.client('proposeCallInNewRun', { body: { tool, args, run: runSpec(), reason: REASON } }))

async function answered(body: { decision: 'approve' | 'deny'; scope?: 'session' }): Promise<Call> {
  const call = await propose({ ...ARGS, n: fixtures.name() })
  unwrap(
    await operator.client('answerApproval', {
      params: { id: call.approval?.id ?? '' },
      body: { ...body, reason: REASON },
    }),
  )
  return call
}

let paths: string[] = []
let [waiting, link, linkOver] = ['', '', '']
beforeAll(async () => {
  const open = await propose()
  waiting = open.approval?.id ?? ''
  link = await fixtures.link(operator.client, waiting)
  const over = await propose({ ...ARGS, over: true })
  linkOver = await fixtures.link(operator.client, over.approval?.id ?? '')
  unwrap(
    await operator.client('answerApproval', {
      params: { id: over.approval?.id ?? '' },
      body: { decision: 'deny', reason: REASON },
    }),
  )
  const ended = await answered({ decision: 'deny' })
  const standing = await answered({ decision: 'approve', scope: 'session' })
  const peer = await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool)
  const failed = {
    ok: false,
    lack: null,
    checks: [{ name: long('N', 100), ok: false, seen: long('s', 200) }],
  }
  unwrap(await peer.prove(['B'], (proof) => ({ ...proof, egress: failed, cgroups: failed })))
  const publisher = await Publisher.listed(`unbroken-${long('p', 55)}`, fixtures.root)
  const id = `unbroken-${long('i', 37)}`
  const manifest = publisher.manifest(id, {
    description: long('D', 2_000),
    tools: [{ name: 'run', description: long('T', 1_000), input_schema: { type: 'object' } }],
    capabilities: {
      http: { hosts: [`${Array(3).fill(long('h', 60)).join('.')}.example:443`], methods: ['GET'] },
      kv: [long('k', 60)],
    },
  })
  unwrap(await maker.client('publishSkill', { body: publisher.pack(manifest, await component()) }))
  unwrap(await operator.client('enableSkill', { params: { id, version: '1.0.0' }, body: { reason: REASON } }))
  unwrap(
    await operator.client('disableSkill', { params: { id, version: '1.0.0' }, body: { reason: REASON } }),
  )
  paths = [
    `/console?agent=${agent.name}`,
    `/console/approvals/${waiting}`,
    `/console/approvals/${ended.approval?.id}`,
    `/console/calls/${ended.id}`,
    `/console/calls/${standing.id}`,
    '/console/standing',
    '/console/history',
    '/console/workers',
    '/console/skills',
    `/console/skills/${id}/1.0.0`,
    `/console/approvals/${long('x', 60)}`, // does not exist
  ]
})

/** The elements that are wider than the window, with all folded parts opened. */
async function reachesOut(page: Page): Promise<number> {
  await page.evaluate(unfold)
  return page.evaluate(sideways, '100%')
}

const openConsole = (width: number, path: string): Promise<Page> =>
  signedIn(
    browser,
    { url: fixtures.url, path, key: operator.key },
    { viewport: { width, height: 800 }, javaScriptEnabled: true },
  )

test.each(WIDTHS)('D14 no page of the console overflows a window of %i pixels', async (width) => {
  const page = await openConsole(width, '/console')
  const seen: [string, number][] = []
  for (const path of paths) {
    await page.goto(at(path))
    seen.push([path, await reachesOut(page)])
  }
  expect(seen).toEqual(paths.map((path) => [path, 0]))
})

test.each(WIDTHS)('D14 no result page of a console form overflows a window of %i pixels', async (width) => {
  // Every field that the reader can fill.
  const shorter = await propose({ words: [long('W', 3_000)], [long('k', 2_000)]: long('v', 2_000), width })
  const page = await openConsole(width, `/console/approvals/${shorter.approval?.id}`)
  await page.getByRole('textbox', { name: 'Reason' }).fill(REASON)
  await page.getByText('Approve with changed arguments').click()
  await page
    .locator('textarea[name=arguments]')
    .fill(JSON.stringify({ words: [long('W', 2_000)], [long('k', 2_000)]: long('v', 1_000) }))
  await page.locator('button[name=step]').click()
  expect(await page.getByRole('heading', { level: 1 }).textContent()).toBe('Approve with these changes?')
  expect(await reachesOut(page)).toBe(0)

  const kept = await answered({ decision: 'approve', scope: 'session' })
  const { items } = unwrap(await fixtures.root('listStanding', {}))
  const standing = items.find(({ approval }) => approval === kept.approval?.id)
  await page.goto(at('/console/standing'))
  await page.locator(`#${standing?.id}`).getByRole('button', { name: 'Revoke' }).click()
  expect(await page.getByRole('heading', { level: 1 }).textContent()).toBe('Revoked')
  expect(await reachesOut(page)).toBe(0)

  const another = await propose({ ...ARGS, width })
  await page.goto(at(`/console?agent=${agent.name}`))
  await page.locator(`#choose-${another.approval?.id}`).check()
  await page.locator('#deny-chosen summary').click()
  await page.getByRole('button', { name: 'Deny selected' }).click()
  expect(await page.getByRole('heading', { level: 1 }).textContent()).toMatch(/denied/)
  expect(await reachesOut(page)).toBe(0)
})

test.each(WIDTHS)(
  'D14 no page behind a link and no refusal page overflows a window of %i pixels',
  async (width) => {
    const context = await browser.newContext({ viewport: { width, height: 800 } })
    const page = await context.newPage()
    for (const url of [link, linkOver, `${link}x`, at(`/console?agent=${long('x', 64)}`), at('/docs')]) {
      await page.goto(url)
      expect([url, await reachesOut(page)]).toEqual([url, 0])
    }
  },
)
