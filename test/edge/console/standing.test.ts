// Standing answers in the console: what they cover, until when, and revoking them.

import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import type { Call } from '../../../shared/wire/calls.ts'
import type { RunSpec } from '../../../shared/wire/runs.ts'
import { browserForTests } from '../../support/browser/browser.ts'
import { signedIn } from '../../support/browser/console-page.ts'
import { ConsoleSession } from '../../support/browser/console-session.ts'
import { Fixtures, unwrap } from '../../support/fixtures.ts'
import { sharedStack } from '../../support/stack/stack.ts'

const fixtures = new Fixtures('console-standing', sharedStack())
const agent = await fixtures.agent()
const approver = await fixtures.operator(['approver'])
const tool = await fixtures.tool({ capabilities: ['network'] })

const browser = await browserForTests()

const PATH = '/console/standing'
const openConsole = (key = approver.key): Promise<Page> =>
  signedIn(browser, { url: fixtures.url, path: PATH, key })
const propose = async (run: RunSpec, of = tool): Promise<Call> =>
  unwrap(await agent.client('proposeCallInNewRun', { body: { tool: of, args: {}, run } }))

/** A session with a standing answer to the tool's calls, and its id. */
async function standingAnswer(
  decision: 'approve' | 'deny',
  reason = '',
  of = tool,
): Promise<{ run: RunSpec; id: string }> {
  const run = { session: fixtures.name() }
  const { approval } = await propose(run, of)
  const body = { decision, scope: 'timeboxed', ttl_s: 3_600, reason } as const
  unwrap(await approver.client('answerApproval', { params: { id: approval?.id ?? '' }, body }))
  const { items } = unwrap(await fixtures.root('listStanding', {}))
  return { run, id: items.find(({ session }) => session === run.session)?.id ?? '' }
}

test('the page of standing answers shows coverage, end and operator, and revokes without JavaScript', async () => {
  const { run, id } = await standingAnswer('approve', 'for the <b>migration</b>')
  expect((await propose(run)).state).toBe('granted')
  const page = await openConsole()
  const card = page.locator(`#${id}`)
  const text = (await card.textContent()) ?? ''
  expect(text).toContain(`Approval of ${tool} for ${agent.name}`)
  expect(text).toContain(`Every call of ${tool} version 1 by agent ${agent.name} in session ${run.session}`)
  expect(text).toMatch(/until \d{4}-\d\d-\d\d \d\d:\d\d UTC/)
  expect(text).toContain(`Given by ${approver.name} (api)`)
  expect(text).toContain('for the <b>migration</b>')
  await card.getByRole('button', { name: 'Revoke' }).click()
  expect(await page.getByRole('heading', { level: 1 }).textContent()).toBe('Revoked')
  expect((await propose(run)).state).toBe('awaiting_approval')
  await page.getByRole('link', { name: 'Back to the standing answers' }).click()
  expect(await page.locator(`#${id}`).count()).toBe(0)
})

test('a standing denial is listed too, and an answer that no longer covers anything says so', async () => {
  const of = await fixtures.tool({ capabilities: ['network'] })
  const { run, id } = await standingAnswer('deny', '', of)
  const page = await openConsole()
  expect(await page.locator(`#${id}`).textContent()).toMatch(new RegExp(`Denial of ${of}[\\s\\S]*denial`))
  expect(await page.locator(`#${id}`).textContent()).not.toContain('not in effect')
  await fixtures.tool({ capabilities: ['network'], description: 'another version' }, of)
  expect((await propose(run, of)).state).toBe('awaiting_approval')
  await page.reload()
  expect(await page.locator(`#${id}`).textContent()).toMatch(
    /not in effect.*This answer currently covers nothing/s,
  )
})

test('the standing answers are linked from the inbox, and each links to its approval', async () => {
  const { id } = await standingAnswer('approve')
  const page = await signedIn(browser, { url: fixtures.url, path: '/console', key: approver.key })
  await page.getByRole('link', { name: 'Standing answers', exact: true }).click()
  expect(await page.locator('nav a[aria-current=page]').textContent()).toBe('Standing answers')
  await page.locator(`#${id}`).getByRole('link', { name: 'this request' }).click()
  expect(await page.getByRole('heading', { level: 1 }).textContent()).toBe('Approved')
})

test('K05 revoking a standing answer needs form token, origin and permission; readers get no button', async () => {
  const { run, id } = await standingAnswer('approve')
  const session = await ConsoleSession.open(fixtures.url, approver.key)
  const auditor = await ConsoleSession.open(fixtures.url, (await fixtures.operator(['auditor'])).key)
  const nobody = await ConsoleSession.open(fixtures.url, (await fixtures.operator([])).key)
  const fields = { ...(await session.fields(PATH)), id }
  const seen = await Promise.all([
    session.post(PATH, fields, { cookie: '' }),
    session.post(PATH, { ...fields, form: '' }),
    session.post(PATH, fields, { origin: 'https://evil.example' }),
    auditor.post(PATH, { ...(await auditor.fields(PATH)), id }),
    session.post(PATH, { ...fields, id: 'std_0' }),
    session.get(`${PATH}?${new URLSearchParams(fields)}`),
    nobody.get(PATH),
  ])
  expect(seen.map(({ status }) => status)).toEqual([401, 403, 403, 403, 404, 200, 403])
  expect(await (await auditor.get(PATH)).text()).toMatch(new RegExp(`${id}(?![\\s\\S]*Revoke<)`))
  expect((await propose(run)).state).toBe('granted')
  expect((await session.post(PATH, fields)).status).toBe(200)
  expect((await propose(run)).state).toBe('awaiting_approval')
})
