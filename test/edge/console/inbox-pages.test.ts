// An inbox of several pages shows each approval once, in either order; and so does the API's list.

import { expect, test } from 'vitest'
import { LIMITS } from '../../../shared/limits.ts'
import { ConsoleSession } from '../../support/browser/console-session.ts'
import { eventually } from '../../support/eventually.ts'
import { Fixtures, unwrap } from '../../support/fixtures.ts'
import { sharedStack } from '../../support/stack/stack.ts'

const fixtures = new Fixtures('inbox-pages', sharedStack())
const agent = await fixtures.agent()
const input_schema = { type: 'object' }
const tools = [
  await fixtures.tool({ capabilities: ['process_exec'], input_schema }),
  await fixtures.tool({ capabilities: ['network'], input_schema }),
]
const ALL = LIMITS.page + 12

test('each pending approval is on exactly one page of the inbox, in either order and filtered', async () => {
  const ids: string[] = []
  for (let from = 0; from < ALL; from += 16) {
    const some = Array.from({ length: Math.min(16, ALL - from) }, (_, i) =>
      fixtures.proposeForApproval(agent.client, tools[(from + i) % 2] ?? '', { n: from + i }),
    )
    ids.push(...(await Promise.all(some)).map(({ approval }) => approval.id))
  }
  const session = await ConsoleSession.open(fixtures.url, fixtures.rootKey)
  const page = async (path: string) => {
    const text = await (await session.get(path)).text()
    const cards = [...text.matchAll(/<li class="card (\w+)">[\s\S]*?<a id="(apr_\w+)"/g)].map(
      ([, risk = '', id = '']) => ({ risk, id }),
    )
    const next = /href="([^"]+)">Next page/.exec(text)?.[1]?.replaceAll('&amp;', '&')
    return {
      cards,
      next,
      words: /id="words"[^>]*>([^<]*)</.exec(text)?.[1] ?? '',
      first: text.includes('First page'),
    }
  }
  await eventually(
    'all are in the inbox',
    async () => (await page(`/console?agent=${agent.name}`)).words.startsWith(`${ALL} `),
    30_000,
  )
  for (const order of ['oldest', 'riskiest']) {
    const one = await page(`/console?agent=${agent.name}&order=${order}`)
    const two = await page(one.next ?? '')
    expect([one.cards.length, one.first, two.cards.length, two.first, two.next]).toEqual([
      LIMITS.page,
      false,
      12,
      true,
      undefined,
    ])
    expect(one.words).toContain(`${LIMITS.page} on this page`)
    const all = [...one.cards, ...two.cards]
    expect(all.map(({ id }) => id).sort()).toEqual([...ids].sort())
    if (order === 'riskiest')
      expect(all.map(({ risk }) => risk)).toEqual([
        ...Array(ALL / 2).fill('high'),
        ...Array(ALL / 2).fill('medium'),
      ])
  }
  const listed: string[] = []
  for (;;) {
    const after = listed.at(-1)
    const { items } = unwrap(
      await fixtures.root('listApprovals', {
        query: { status: 'all', ...(after === undefined ? {} : { after }) },
      }),
    )
    if (items.length === 0) break
    listed.push(...items.map(({ id }) => id))
  }
  expect(new Set(listed).size).toBe(listed.length)
  expect(ids.every((id) => listed.includes(id))).toBe(true)
})
