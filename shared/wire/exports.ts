// Exports: where a tenant's evidence is stored outside of the edge, and what one exported file
// contains. A file is JSON Lines; its name contains its digest, so that different bytes have different
// names.

import { z } from 'zod'
import { CallEvidence } from '../evidence/bundle.ts'
import { Envelope } from '../evidence/dsse.ts'
import { JournalEntry } from '../evidence/journal.ts'
import { PolicySnapshot } from '../evidence/policy-snapshot.ts'
import { CallState } from '../evidence/statement.ts'
import { CallId, Name, RunId, Sha256, Time } from '../fields.ts'
import { LIMITS } from '../limits.ts'
import { Run } from './runs.ts'

/** A bucket of an S3-compatible store, which is addressed as ENDPOINT/BUCKET/PREFIX…. */
const Bucket = z.strictObject({
  endpoint: z.url('is not a URL').max(LIMITS.channel_url_chars),
  region: z.string().regex(/^[a-z0-9-]{1,32}$/, 'is not a region, such as `eu-central-1` or `auto`'),
  bucket: z.string().regex(/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/, 'is not the name of a bucket'),
  prefix: z
    .string()
    .max(LIMITS.export_prefix_chars)
    .regex(/^(?:[A-Za-z0-9_-][A-Za-z0-9._-]*\/)*$/, 'must be empty, or end in `/`, such as `evidence/`')
    .default(''),
  access_key_id: z.string().regex(/^[A-Za-z0-9._+=@-]{3,128}$/, 'is not the id of an access key'),
})
export const ExportTargetSpec = Bucket.extend({
  secret_access_key: z
    .string()
    .regex(/^[!-~]{8,256}$/, 'is not the secret of an access key: 8 to 256 ASCII characters, no spaces'),
})
export type ExportTargetSpec = z.infer<typeof ExportTargetSpec>

/** As operators see it: without the secret. */
export const ExportTarget = Bucket.extend({ put_by: Name, put_at_ms: Time })
export type ExportTarget = z.infer<typeof ExportTarget>

export const EXPORT_FORMAT = 'countersign-export/v2'

/** How many runs of the object precede a part, and how many entries and calls of the run it begins in. */
export const ExportPosition = z
  .string()
  .regex(/^\d{1,6}\.\d{1,10}\.\d{1,7}$/, 'is not a position; send `next` of the part before it')
export const EXPORT_START = '0.0.0'

const Output = z.strictObject({ stdout: z.base64(), stderr: z.base64() })

/** One line of a file. The first is the `part`, the last the `end`. */
export const ExportLine = z.discriminatedUnion('kind', [
  z.strictObject({
    kind: z.literal('part'),
    format: z.literal(EXPORT_FORMAT),
    tenant: z.string(),
    /** The object of the runs: a run of its own, or several short runs of an agent. */
    object: z.string(),
    from: ExportPosition,
  }),
  /** The run that the next lines are about, as it is now. */
  z.strictObject({ kind: z.literal('run'), run: Run }),
  z.strictObject({ kind: z.literal('entry'), run: RunId, entry: JournalEntry }),
  /** The policy snapshot under which the next call was decided; each is in a part once. */
  z.strictObject({ kind: z.literal('snapshot'), snapshot: PolicySnapshot }),
  /** `evidence`: null as long as the call has not ended. */
  z.strictObject({
    kind: z.literal('call'),
    call: CallId,
    state: CallState,
    evidence: CallEvidence.nullable(),
    output: Output,
  }),
  /** In place of a call without evidence, or of the entries of a journal: a signed `Tombstone`. */
  z.strictObject({ kind: z.literal('tombstone'), envelope: Envelope }),
  /** `next`: where the next part begins; null if this is the last one. */
  z.strictObject({ kind: z.literal('end'), next: ExportPosition.nullable() }),
])
export type ExportLine = z.infer<typeof ExportLine>

/** A part that the edge has stored in the tenant's export target. */
export const StoredExport = z.strictObject({
  name: z.string(),
  sha256: Sha256,
  bytes: z.int(),
  next: ExportPosition.nullable(),
})

/** The name of a part, below the tenant's folder. */
export const exportName = (object: string, from: string, digest: string): string =>
  `${object}/${from}-${digest}.jsonl`
