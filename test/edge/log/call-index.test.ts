// Promise: a page of a list of calls costs the same however many calls there are.

import { join } from 'node:path'
import { expect, test } from 'vitest'
import { ROOT } from '../../../infra/state.ts'
import { callId } from '../../../shared/ids.ts'
import { newDatabase } from '../../support/stack/object-storage.ts'

type Query = {
  readonly tool?: string
  readonly agent?: string
  readonly before?: number
  readonly limit: number
}
/** By a variable path, because the type check of tests lacks the types of workerd that stores need. */
const { CallIndex } = (await import(/* @vite-ignore */ join(ROOT, 'edge/log/call-index-store.ts'))) as {
  CallIndex: new (
    db: unknown,
  ) => {
    put: (reports: { run: null; calls: readonly object[] }) => void
    calls: (query: Query) => { items: { readonly id: string }[]; next: string | null }
  }
}

test('a second filter is compared with 10,000 rows (`list_scan`), and the next page goes on behind them', () => {
  const index = new CallIndex(newDatabase('log'))
  const call = (n: number): string => callId('run_01KA5XJ3M0000000000000000A', n)
  const [OLDEST, LAST_OF_SCAN, FIRST_BEHIND] = [1, 3, 2]
  /** The latest 10,000 are those from 3 on. */
  const calls = Array.from({ length: 10_002 }, (_, i) => {
    const n = i + 1
    const tool = n <= LAST_OF_SCAN ? 'rare' : 'frequent'
    return { call: call(n), seq: 1, agent: 'one', tool, state: 'succeeded', createdAt: n, endedAt: n }
  })
  index.put({ run: null, calls })
  const page = (query: Query) => {
    const { items, next } = index.calls(query)
    return { ids: items.map(({ id }) => id), next }
  }
  const filters = { agent: 'one', tool: 'rare', limit: 100 }
  const first = page(filters)
  expect(first.ids).toEqual([call(LAST_OF_SCAN)])
  expect(page({ ...filters, before: Number(first.next) })).toEqual({
    ids: [call(FIRST_BEHIND), call(OLDEST)],
    next: null,
  })
  // One filter uses its index, however far its rows are apart.
  expect(page({ tool: 'rare', limit: 100 }).ids).toEqual([3, 2, 1].map(call))
})
