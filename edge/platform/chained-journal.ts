// A journal that is chained by the hashes of its entries, so that nobody can change its past
// unnoticed. Pure: each object has a table of its own.

import type { JournalEntry } from '../../shared/evidence/journal.ts'
import { entryHash, GENESIS } from '../../shared/evidence/journal.ts'

export type StoredEntry = {
  readonly seq: number
  readonly at: number
  readonly kind: string
  readonly body: Record<string, unknown>
  readonly hash: string
}

/** The entry after `last`. Store it in the transaction of the change that it records. */
export function nextEntry(
  last: Pick<StoredEntry, 'seq' | 'hash'> | undefined,
  kind: string,
  body: Record<string, unknown>,
): StoredEntry {
  const { seq: before, hash: prev } = last ?? GENESIS
  const [seq, at] = [before + 1, Date.now()]
  return { seq, at, kind, body, hash: entryHash({ seq, at_ms: at, kind, call: null, body, prev }) }
}

/** Entries in order, after `last`. */
export function entriesAfter(
  last: Pick<StoredEntry, 'hash'> | undefined,
  rows: readonly StoredEntry[],
): JournalEntry[] {
  let prev = (last ?? GENESIS).hash
  return rows.map(({ seq, at, kind, body, hash }) => {
    const entry = { seq, at_ms: at, kind, call: null, body, prev, hash }
    prev = hash
    return entry
  })
}
