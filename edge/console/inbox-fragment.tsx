// The inbox as the live streams of a tenant's open consoles send it, rendered once per query and
// change, however many consoles are open.

import type { Env } from '../bindings.ts'
import { tenantObject } from '../bindings.ts'
import type { InboxQuery } from '../tenant/inbox-store.ts'
import { InboxList, inWords } from './inbox-page.tsx'

export type InboxFragment = { words: string; list: string }

/**
 * By query, with the number of the change that it shows. It holds results, never promises: a
 * request must not wait for the work of another request, which may be aborted.
 */
const cache = new Map<string, { number: number; fragment: InboxFragment }>()
const CACHE_ENTRIES = 50

export async function inboxFragment(
  env: Env,
  tenant: string,
  number: number,
  asked: InboxQuery,
  mayAnswer: boolean,
): Promise<InboxFragment> {
  const name = JSON.stringify([tenant, asked, mayAnswer])
  const cached = () => {
    const entry = cache.get(name)
    return entry?.number === number ? entry.fragment : undefined
  }
  const before = cached()
  if (before !== undefined) return before
  const page = await tenantObject(env, tenant).pending(asked)
  const concurrent = cached()
  if (concurrent !== undefined) return concurrent
  const fragment = {
    words: inWords(page),
    list: (<InboxList asked={asked} page={page} mayAnswer={mayAnswer} now={Date.now()} />).toString(),
  }
  if (cache.size >= CACHE_ENTRIES) cache.clear()
  cache.set(name, { number, fragment })
  return fragment
}
