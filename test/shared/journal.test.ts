// Promise: any change, removal, insertion or reordering in a journal breaks its chain; truncation
// is detected by comparison with a stored head.

import { describe, expect, test } from 'vitest'
import { canonical, sha256 } from '../../shared/bytes/json.ts'
import type { JournalEntry } from '../../shared/evidence/journal.ts'
import { JournalEntry as Entry, entryHash, GENESIS, verifyChain } from '../../shared/evidence/journal.ts'
import { changed, others, paths, reached } from './tamper.ts'

const CALL = 'call_01KA5XJ3M0000000000000000A_1'
type Draft = Pick<JournalEntry, 'kind' | 'call' | 'body'>

function chained(drafts: readonly Draft[], from = GENESIS): JournalEntry[] {
  const entries: JournalEntry[] = []
  let head = from
  for (const draft of drafts) {
    const link = { ...draft, seq: head.seq + 1, at_ms: 1_763_000_000_000 - head.seq, prev: head.hash } // the clock may go back
    const entry = { ...link, hash: entryHash(link) }
    entries.push(entry)
    head = entry
  }
  return entries
}

const DRAFTS: readonly Draft[] = [
  { kind: 'run_created', call: null, body: { agent: 'dev' } },
  {
    kind: 'approval_requested',
    call: CALL,
    body: { policies: ['a', 'b'], approval: 'apr_01KA5XJ3M0000000000000000A_1' },
  },
  { kind: 'approved', call: CALL, body: { by: 'root', n: 1 } },
  { kind: 'claimed', call: CALL, body: { worker: 'wrk_01KA5XJ3M0000000000000000A', fence: 1 } },
  { kind: 'succeeded', call: CALL, body: {} },
]
const journal = chained(DRAFTS)
const head = { seq: 5, hash: journal[4]?.hash ?? '' }
/**
 * Checks a journal from an untrusted source: parses it, follows the chain, and compares the head
 * with the stored one.
 */
const intact = (entries: readonly unknown[], from = GENESIS, kept = head): boolean => {
  const parsed = Entry.array().safeParse(entries)
  const chain = parsed.success ? verifyChain(parsed.data, from) : undefined
  return chain?.ok === true && chain.value.hash === kept.hash
}

describe('a journal', () => {
  test('a journal begins with a hash of zeros, and each hash covers the canonical form of its entry', () => {
    expect(GENESIS).toEqual({ seq: 0, hash: '0'.repeat(64) })
    for (const { hash, ...link } of journal) expect(hash).toBe(sha256(canonical(link)))
    expect(verifyChain(journal)).toEqual({ ok: true, value: head })
    expect(verifyChain([])).toEqual({ ok: true, value: GENESIS })
  })

  test('a journal can be verified page by page', () => {
    for (let cut = 0; cut <= journal.length; cut++) {
      const first = verifyChain(journal.slice(0, cut))
      if (!first.ok) throw new Error(first.error.reason)
      expect(verifyChain(journal.slice(cut), first.value)).toEqual({ ok: true, value: head })
    }
  })

  test('J01 a journal with any member of any entry changed or removed is refused', () => {
    expect(intact(journal)).toBe(true)
    for (const path of paths(journal)) {
      for (const to of others(reached(journal, path))) {
        const forged = changed(journal, path, to)
        if (canonical(forged) !== canonical(journal) && intact(forged))
          throw new Error(`believed with ${path.join('.')} = ${String(to)}`)
      }
    }
  })

  test('J01 a journal with a flipped bit in any byte of its file is refused', () => {
    const bytes = Buffer.from(canonical(journal))
    for (let at = 0; at < bytes.length; at++) {
      for (let bit = 1; bit < 256; bit *= 2) {
        bytes[at] = (bytes[at] ?? 0) ^ bit
        let read: unknown
        try {
          read = JSON.parse(bytes.toString())
        } catch {
          read = undefined
        }
        if (Array.isArray(read) && intact(read))
          throw new Error(`believed with bit ${bit} of byte ${at} flipped`)
        bytes[at] = (bytes[at] ?? 0) ^ bit
      }
    }
  })

  test('J01 a journal with a deleted, repeated, moved or inserted entry is refused', () => {
    const [stranger] = chained([{ kind: 'approved', call: CALL, body: {} }], {
      seq: 2,
      hash: journal[1]?.hash ?? '',
    })
    for (let i = 0; i < journal.length; i++) {
      expect(intact(journal.toSpliced(i, 1)), `without ${i}`).toBe(false)
      expect(intact(journal.toSpliced(i, 0, ...journal.slice(i, i + 1))), `${i} twice`).toBe(false)
      expect(
        intact(journal.toSpliced(i, 0, ...(stranger === undefined ? [] : [stranger]))),
        `one more at ${i}`,
      ).toBe(false)
      for (let j = 0; j < i; j++)
        expect(
          intact(journal.with(i, journal[j] as JournalEntry).with(j, journal[i] as JournalEntry)),
          `${i} and ${j}`,
        ).toBe(false) // both in range
    }
  })

  test('J01 a truncated, forked or rewritten journal is consistent in itself but differs from the stored head', () => {
    const cut = journal.slice(0, 4)
    const forked = [
      ...journal.slice(0, 2),
      ...chained(DRAFTS.slice(3), { seq: 2, hash: journal[1]?.hash ?? '' }),
    ]
    const rewritten = chained(DRAFTS.with(2, { kind: 'approved', call: CALL, body: { by: 'nobody', n: 1 } }))
    for (const forged of [cut, forked, rewritten]) {
      expect(verifyChain(forged).ok).toBe(true)
      expect(intact(forged)).toBe(false)
    }
  })

  test('the refusal of a journal names the entry at which the chain breaks', () => {
    expect(verifyChain(journal.toSpliced(2, 1))).toEqual({
      ok: false,
      error: { seq: 3, reason: expect.stringContaining('missing') },
    })
    expect(verifyChain(journal.with(3, { ...(journal[3] as JournalEntry), kind: 'x' }))).toEqual({
      ok: false,
      error: { seq: 4, reason: '`hash` does not match the entry' },
    }) // in range
    expect(verifyChain(journal, { seq: 0, hash: sha256('other') })).toEqual({
      ok: false,
      error: { seq: 1, reason: '`prev` is not the hash of the entry before it' },
    })
  })
})

test('J01 a journal with a changed shadow decision is refused, because the entry contains its digest', () => {
  const shadow = {
    version: 2,
    since_ms: 1,
    from: 'allow',
    to: 'deny',
    code: 'denied',
    policies: ['a'],
    salt: 's',
  } as const
  const body = { shadow_sha256: sha256(canonical(shadow)) }
  const [bound, unbound] = [body, {}].map((body) => chained([{ kind: 'allowed', call: CALL, body }]))
  const beside = (entries: JournalEntry[] = [], said: JournalEntry['shadow']) =>
    verifyChain(entries.map((entry) => ({ ...entry, shadow: said })))
  expect(beside(bound, { ...shadow, policies: ['a'] })).toMatchObject({ ok: true })
  expect(beside(bound, { ...shadow, policies: ['a'], to: 'allow' })).toMatchObject({
    ok: false,
    error: { seq: 1 },
  })
  expect(beside(unbound, { ...shadow, policies: ['a'] })).toMatchObject({ ok: false, error: { seq: 1 } })
})
