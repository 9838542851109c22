// A field may occur only once in a form, on every route: `decision=approve&decision=deny` is
// refused.

import { describe, expect, test } from 'vitest'
import { readInteraction } from '../../../edge/channels/slack/request.ts'
import { LIMITS } from '../../../shared/limits.ts'
import { ConsoleSession } from '../../support/browser/console-session.ts'
import { Fixtures, unwrap } from '../../support/fixtures.ts'
import { sharedStack } from '../../support/stack/stack.ts'

const fixtures = new Fixtures('forms', sharedStack())
const agent = await fixtures.agent()
const sensitive = await fixtures.tool({ capabilities: ['process_exec'], input_schema: { type: 'object' } })
const newApproval = async () =>
  (await fixtures.proposeForApproval(agent.client, sensitive, { text: fixtures.name() })).approval.id
const statusOf = async (id: string) => unwrap(await fixtures.root('readApproval', { params: { id } })).status
const { origin } = new URL(fixtures.url)

type Fields = [name: string, value: string][]
const TWICE: readonly Fields[] = [
  [
    ['decision', 'approve'],
    ['decision', 'deny'],
  ],
  [
    ['decision', 'deny'],
    ['decision', 'approve'],
  ],
  [
    ['decision', 'approve'],
    ['decision', 'approve'],
  ],
  [
    ['decision', 'approve'],
    ['reason', 'yes'],
    ['reason', 'no'],
  ],
]
const CASES = TWICE.map((fields) => [new URLSearchParams(fields).toString(), fields] as const)

const FORM = { 'content-type': 'application/x-www-form-urlencoded', origin }
const body = (once: Record<string, string>, more: Fields): string =>
  new URLSearchParams([...Object.entries(once), ...more]).toString()

describe.each(CASES)('D13 G03 a form with %s records no answer:', (_text, fields) => {
  test('the page of a link refuses a form that repeats a field', async () => {
    const id = await newApproval()
    const link = await fixtures.link(fixtures.root, id)
    const nonce = /name="nonce" value="([^"]*)"/.exec(await (await fetch(link)).text())?.[1] ?? ''
    const sent = await fetch(link, { method: 'POST', headers: FORM, body: body({ nonce }, fields) })
    expect([sent.status, await sent.text()]).toEqual([
      400,
      expect.stringContaining('The form has a field twice'),
    ])
    expect(await statusOf(id)).toBe('pending')
    const once = await fetch(link, {
      method: 'POST',
      headers: FORM,
      body: body({ nonce, decision: 'deny' }, []),
    })
    expect([once.status, await statusOf(id)]).toEqual([200, 'denied'])
  })

  test('the console refuses a form that repeats a field', async () => {
    const [id, session] = [await newApproval(), await ConsoleSession.open(fixtures.url, fixtures.rootKey)]
    const page = `/console/approvals/${id}`
    const once = await session.fields(page)
    const posted: readonly (readonly [path: string, once: Record<string, string>])[] = [
      [page, once],
      ['/console/approvals', { ...once, id }],
    ]
    for (const [path, given] of posted) {
      const sent = await session.get(path, { method: 'POST', headers: FORM, body: body(given, fields) })
      expect([path, sent.status, await sent.text()]).toEqual([
        path,
        400,
        expect.stringContaining('The form has a field twice'),
      ])
    }
    expect(await statusOf(id)).toBe('pending')
  })
})

test('D13 a form may name several approvals, which are then denied together', async () => {
  const ids = [await newApproval(), await newApproval()]
  const session = await ConsoleSession.open(fixtures.url, fixtures.rootKey)
  const { form = '' } = await session.fields('/console')
  const fields = ids.map((id): [string, string] => ['id', id])
  const sent = await session.get('/console/approvals', {
    method: 'POST',
    headers: FORM,
    body: body({ form, decision: 'deny' }, fields),
  })
  expect([sent.status, await Promise.all(ids.map(statusOf))]).toEqual([200, ['denied', 'denied']])
})

test('a form of `LIMITS.page_edit_bytes` is not read, and a form of one byte less is', async () => {
  const id = await newApproval()
  const session = await ConsoleSession.open(fixtures.url, fixtures.rootKey)
  const path = `/console/approvals/${id}`
  const given = `${body(await session.fields(path), [['decision', 'deny']])}&x=`
  const post = (bytes: number) =>
    session.get(path, { method: 'POST', headers: FORM, body: given.padEnd(bytes, 'x') })
  expect((await post(LIMITS.page_edit_bytes)).status).toBe(403)
  expect(await statusOf(id)).toBe('pending')
  expect((await post(LIMITS.page_edit_bytes - 1)).status).toBe(303)
  expect(await statusOf(id)).toBe('denied')
})

test('D13 G03 signing in with two keys signs nobody in', async () => {
  const sent = await fetch(new URL('/console/sign-in', fixtures.url), {
    method: 'POST',
    redirect: 'manual',
    headers: FORM,
    body: `key=${fixtures.rootKey}&key=${fixtures.rootKey}`,
  })
  expect([sent.status, sent.headers.get('set-cookie')]).toEqual([400, null])
})

test('D13 G03 a request from Slack with a field twice is refused, and the error says so', () => {
  const payload = new URLSearchParams({ payload: JSON.stringify({ type: 'block_actions' }) }).toString()
  for (const text of [`${payload}&${payload}`, `${payload}&token=a&token=b`])
    expect(readInteraction(text)).toMatchObject({
      ok: false,
      error: { code: 'invalid_request', detail: expect.stringContaining('twice') },
    })
})
