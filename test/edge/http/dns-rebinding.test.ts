// DNS rebinding (N16): a page whose name resolves to this host reaches the edge and gains nothing.
// Every route that acts for somebody needs a key in a header, which no browser adds, and the
// console's cookie belongs to the name that set it.

import { request } from 'node:http'
import { expect, test } from 'vitest'
import { entryOf } from '../../../shared/failures.ts'
import { ROUTES } from '../../../shared/routes/all.ts'
import { REFUSAL } from '../../../shared/routes/route.ts'
import { Fixtures } from '../../support/fixtures.ts'
import { sharedStack } from '../../support/stack/stack.ts'

const fixtures = new Fixtures('rebinding', sharedStack())
const agent = await fixtures.agent()

/** A request as the browser sends it for the page: with the page's name as host and as origin. */
function asThePage(
  method: string,
  path: string,
  more: Record<string, string> = {},
): Promise<number | undefined> {
  const { hostname, port } = new URL(fixtures.url)
  const page = `rebound.example:${port}`
  const headers = {
    host: page,
    origin: `http://${page}`,
    'sec-fetch-site': 'same-origin',
    'content-type': 'application/json',
    ...more,
  }
  return new Promise((settle, fail) => {
    const asked = request({ hostname, port, method, path, headers }, (answer) => {
      answer.resume()
      // Refusals of a hook have the status 200.
      const code = answer.headers[REFUSAL]
      settle(code === 'unauthenticated' ? entryOf(code).status : answer.statusCode)
    })
    asked.on('error', fail).end(method === 'GET' || method === 'HEAD' ? undefined : '{}')
  })
}

const keyed = Object.entries(ROUTES).filter(([, { callers }]) =>
  callers.every((caller) => caller === 'agent' || caller === 'operator' || caller === 'worker'),
)

test('N16 every route that acts for somebody refuses a page whose name was rebound to this host', async () => {
  expect(keyed.length).toBeGreaterThan(30)
  const answers = new Map<string, number | undefined>()
  for (const [name, { method, path }] of keyed)
    answers.set(name, await asThePage(method, path.replaceAll(/\{\w+\}|:\w+/g, 'x')))
  // Some routes check more than the path before they identify the caller.
  expect([...answers].filter(([, status]) => status !== 401 && status !== 400)).toEqual([])
  expect([...answers.values()].filter((status) => status === 401).length).toBeGreaterThan(0.8 * keyed.length)
})

test('N16 without the need for a key: a rebound page is not refused by its host name', async () => {
  expect(await asThePage('GET', '/v1/tools', { authorization: `Bearer ${agent.key}` })).toBe(200)
})
