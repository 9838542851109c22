// Promise: a person in a browser who opens a wrong address gets a page that says what happened and
// where to go on; a program gets JSON.

import { describe, expect, test } from 'vitest'
import { Fixtures } from '../../support/fixtures.ts'
import { sharedStack } from '../../support/stack/stack.ts'

const fixtures = new Fixtures('error-pages', sharedStack())
const tool = await fixtures.tool()

const ask = (path: string, headers: Record<string, string> = {}): Promise<Response> =>
  fetch(new URL(path, fixtures.url), { redirect: 'manual', headers })

test('/docs shows for each code whether it is a failed request or the end of a call', async () => {
  const page = await (await ask('/docs')).text()
  const shown = (code: string) =>
    new RegExp(`<tr id="problem-${code}"><td><code>${code}</code></td><td>([^<]*)</td>`).exec(page)?.[1]
  expect(
    [
      'budget_spent',
      'egress_denied',
      'policy_error',
      'denied',
      'approval_expired',
      'forbidden',
      'cancelled',
    ].map(shown),
  ).toEqual([
    'end of a call',
    'end of a call',
    'end of a call',
    '403, or end of a call',
    '410, or end of a call',
    '403',
    'end of a call',
  ])
  const narrow = await fixtures.agent({ tools: [] })
  const denied = await fetch(new URL('/v1/calls', fixtures.url), {
    method: 'POST',
    headers: { authorization: `Bearer ${narrow.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ tool, args: {} }),
  })
  expect([denied.status, await denied.json()]).toMatchObject([
    200,
    { state: 'denied', result: { error: { code: 'denied' } } },
  ])
})

describe('a browser', () => {
  const BROWSER = { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' }
  test('`/` redirects a browser to the console’s sign-in; a program gets JSON', async () => {
    const home = await ask('/', BROWSER)
    expect([home.status, home.headers.get('location')]).toEqual([302, '/console'])
    expect(await (await ask('/console', BROWSER)).text()).toContain('Operator key')
    expect(await (await ask('/')).json()).toMatchObject({
      code: 'not_found',
      detail: 'there is no route with this path',
    })
  })

  test.each([
    ['/console/nowhere', 404, 'There is no page at this address'],
    ['/nowhere', 404, 'There is no page at this address'],
    ['/console/sign-out', 405, 'GET is not a method of this route; use POST'],
    ['/console?extra=1', 400, 'The query does not match what this route expects'],
  ])(
    'a browser gets a page for %s that says what to do and links to the console',
    async (path, status, sentence) => {
      const answer = await ask(path, BROWSER)
      const page = await answer.text()
      expect([answer.status, answer.headers.get('content-type')]).toEqual([
        status,
        'text/html; charset=utf-8',
      ])
      for (const part of [sentence, 'What to do:', 'href="/console"', '<header>'])
        expect(page).toContain(part)
      expect(answer.headers.get('content-security-policy')).toContain("default-src 'none'")
      const program = await ask(path)
      expect([program.status, program.headers.get('content-type')]).toEqual([
        status,
        'application/problem+json',
      ])
    },
  )

  test('a route of the API answers even a browser in JSON', async () => {
    expect((await ask('/v1/nowhere', BROWSER)).headers.get('content-type')).toBe('application/problem+json')
  })
})
