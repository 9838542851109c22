// The journal of a run: its entries, the hash that chains them, and the check of a chain. Pure. The
// order is the sequence, never the time (L9).

import { z } from 'zod'
import { digestOf } from '../bytes/json.ts'
import { CallId, Sha256, Time } from '../fields.ts'
import type { Result } from '../result.ts'
import { err, ok } from '../result.ts'
import { Effect } from './statement.ts'

/**
 * The decision that a policy set in shadow would have made. `salt` keeps its digest in the journal
 * from revealing the decision.
 */
export const ShadowDecision = z.strictObject({
  version: z.int(),
  since_ms: Time,
  from: Effect,
  to: Effect,
  code: z.string(),
  policies: z.array(z.string()),
  salt: z.string(),
})
export type ShadowDecision = z.infer<typeof ShadowDecision>

/** One entry of a run's journal, as the event stream sends it. */
export const JournalEntry = z.strictObject({
  seq: z.int().min(1),
  at_ms: Time,
  kind: z.string(),
  call: CallId.nullable(),
  body: z.record(z.string(), z.unknown()),
  prev: Sha256,
  hash: Sha256,
  /**
   * For operators only, so `hash` does not cover it. The hash covers its digest, which is
   * `shadow_sha256` of the body.
   */
  shadow: ShadowDecision.optional(),
})
export type JournalEntry = z.infer<typeof JournalEntry>

/**
 * The end of a chain: the last sequence number, and the hash that the next entry names as `prev`.
 */
export type Head = { readonly seq: number; readonly hash: string }
export const GENESIS: Head = { seq: 0, hash: '0'.repeat(64) }

export type UnhashedEntry = Omit<JournalEntry, 'hash'>
export const entryHash = ({ seq, at_ms, kind, call, body, prev }: UnhashedEntry): string =>
  digestOf({ at_ms, body, call, kind, prev, seq })

export type ChainBreak = { readonly seq: number; readonly reason: string }

/**
 * Whether `entries` follow `from` without a gap and each hash fits; the value is the new head. A
 * truncated chain, or one rewritten from its start, is consistent; only a head stored elsewhere
 * reveals it (J01).
 */
export function verifyChain(
  entries: readonly JournalEntry[],
  from: Head = GENESIS,
): Result<Head, ChainBreak> {
  let head = from
  for (const entry of entries) {
    const broken = (reason: string) => err({ seq: head.seq + 1, reason })
    if (entry.seq !== head.seq + 1)
      return broken(`entry ${head.seq + 1} is missing or out of order: \`seq\` is ${entry.seq}`)
    if (entry.prev !== head.hash) return broken('`prev` is not the hash of the entry before it')
    if (entry.hash !== entryHash(entry)) return broken('`hash` does not match the entry')
    if (entry.shadow !== undefined && entry.body['shadow_sha256'] !== digestOf(entry.shadow))
      return broken('`shadow` is not what was journalled')
    head = { seq: entry.seq, hash: entry.hash }
  }
  return ok(head)
}
