// What the open consoles of a tenant are told of its inbox: made once for all that ask the same, however many there are.

import type { Env } from '../bindings.ts'
import { tenantObject } from '../bindings.ts'
import type { InboxQuery } from '../tenant/inbox-store.ts'
import { InboxList, inWords } from './inbox-page.tsx'

export type Told = { words: string; list: string }

/** By what was asked, of which news. A result is kept, never a promise: no request waits for another's work, which may be broken off. */
const kept = new Map<string, { number: number; told: Told }>()
const KEPT = 50

export async function told(
  env: Env,
  tenant: string,
  number: number,
  asked: InboxQuery,
  mayAnswer: boolean,
): Promise<Told> {
  const name = JSON.stringify([tenant, asked, mayAnswer])
  const known = () => {
    const last = kept.get(name)
    return last?.number === number ? last.told : undefined
  }
  const before = known()
  if (before !== undefined) return before
  const page = await tenantObject(env, tenant).pending(asked)
  const meanwhile = known()
  if (meanwhile !== undefined) return meanwhile
  const made = {
    words: inWords(page),
    list: (<InboxList asked={asked} page={page} mayAnswer={mayAnswer} now={Date.now()} />).toString(),
  }
  if (kept.size >= KEPT) kept.clear()
  kept.set(name, { number, told: made })
  return made
}
