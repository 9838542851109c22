// The traces of what the tenant's retention rule has removed: when and why, as calls say it, and for
// bundles and exports a tombstone, which the edge signs whenever it is read. Without it anybody could
// remove a part and name the rule. The digests in it show to somebody who has a copy of the journal or
// the attestation that it is the one that was removed.

import { z } from 'zod'
import { canonical, parseJson } from '../bytes/json.ts'
import { CallId, RunId, Sha256, Time } from '../fields.ts'
import { PATTERNS } from '../ids.ts'
import { type Envelope, payloadBytes, type Signer, seal, signedByExactly } from './dsse.ts'
import { type Keys, undatedEdgeKeys } from './keys.ts'
import { CallState, type Facts } from './statement.ts'

/** `rule`: the number of the rule in the tenant. `days`: for how many days that rule keeps it. */
export const Removal = z.strictObject({ at_ms: Time, rule: z.int().min(1), days: z.int().min(1) })
export type Removal = z.infer<typeof Removal>

/** The parts that were removed of a call that still has its evidence. */
export const PartsRemoval = z.strictObject({ outputs: Removal.optional(), arguments: Removal.optional() })
export type PartsRemoval = z.infer<typeof PartsRemoval>

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

/** Of parts of a call, of its evidence, or of a run's journal up to `head`. */
export const Tombstone = z.discriminatedUnion('of', [
  z.strictObject({
    of: z.literal('parts'),
    tenant: z.string().regex(PATTERNS.tenant),
    call: CallId,
    digest: Sha256,
    removed: PartsRemoval,
  }),
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

export const sealTombstone = (tombstone: Tombstone, by: Signer): Envelope =>
  seal(TOMBSTONE_TYPE, tombstone, by)

/** The tombstone, if it is of the keys' tenant, and exactly one edge key of theirs signed it; else undefined. */
export function readTombstone(envelope: Envelope, keys: Keys): Tombstone | undefined {
  const kid = envelope.signatures[0]?.keyid ?? ''
  const x = undatedEdgeKeys(keys).find((key) => key.kid === kid)?.x
  if (x === undefined || !signedByExactly(envelope, TOMBSTONE_TYPE, new Map([[kid, x]]))) return undefined
  const bytes = payloadBytes(envelope)
  const parsed = parseJson(bytes)
  const read = Tombstone.safeParse(parsed.ok ? parsed.value : undefined)
  const isCanonical = read.success && canonical(read.data) === Buffer.from(bytes).toString()
  return isCanonical && read.data.tenant === keys.tenant ? read.data : undefined
}

/** The parts of this call of which the edge says that they were removed; undefined if it says nothing of it. */
export function partsRemoved(
  envelope: Envelope,
  { call, digest }: Pick<Facts, 'call' | 'digest'>,
  keys: Keys,
): PartsRemoval | undefined {
  const read = readTombstone(envelope, keys)
  return read?.of === 'parts' && read.call === call && read.digest === digest ? read.removed : undefined
}
