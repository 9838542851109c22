// The traces of what the tenant's retention rule has removed: when and why, as calls and bundles say it,
// and for evidence a tombstone, which the edge signs for exports. Its digests show to somebody who has
// a copy of the journal or the attestation that it is the one that was removed.

import { z } from 'zod'
import { canonical, parseJson } from '../bytes/json.ts'
import { CallId, RunId, Sha256, Time } from '../fields.ts'
import { PATTERNS } from '../ids.ts'
import { type Envelope, payloadBytes, signedByExactly } from './dsse.ts'
import { CallState } from './statement.ts'

/** `rule`: the number of the rule in the tenant. `days`: for how many days that rule keeps it. */
export const Removal = z.strictObject({ at_ms: Time, rule: z.int().min(1), days: z.int().min(1) })
export type Removal = z.infer<typeof Removal>

const Position = z.strictObject({ seq: z.int().min(1), hash: Sha256 })

/**
 * The removal of the evidence of a call. `statement_sha256`: of the signed bytes of its attestation.
 * `entry`: the journal entry that ended it, whose hash is a leaf of the log. `head`: the last entry of
 * the run's journal.
 */
export const EvidenceRemoval = Removal.extend({
  statement_sha256: Sha256,
  entry: Position,
  head: Position,
})
export type EvidenceRemoval = z.infer<typeof EvidenceRemoval>

export const TOMBSTONE_TYPE = 'application/vnd.countersign.tombstone+json'

/** Of a call, or of a run's journal up to `head`. */
export const Tombstone = z.discriminatedUnion('of', [
  z.strictObject({
    of: z.literal('call'),
    tenant: z.string().regex(PATTERNS.tenant),
    call: CallId,
    state: CallState,
    digest: Sha256,
    attestation: z.string(),
    removed: EvidenceRemoval,
  }),
  z.strictObject({
    of: z.literal('journal'),
    tenant: z.string().regex(PATTERNS.tenant),
    run: RunId,
    head: Position,
    removed: Removal,
  }),
])
export type Tombstone = z.infer<typeof Tombstone>

/** The tombstone, if exactly one of these edge keys (kid → public key) signed it; else undefined. */
export function readTombstone(envelope: Envelope, edges: ReadonlyMap<string, string>): Tombstone | undefined {
  const kid = envelope.signatures[0]?.keyid ?? ''
  const x = edges.get(kid)
  if (x === undefined || !signedByExactly(envelope, TOMBSTONE_TYPE, new Map([[kid, x]]))) return undefined
  const bytes = payloadBytes(envelope)
  const parsed = parseJson(bytes)
  const read = Tombstone.safeParse(parsed.ok ? parsed.value : undefined)
  return read.success && canonical(read.data) === Buffer.from(bytes).toString() ? read.data : undefined
}
