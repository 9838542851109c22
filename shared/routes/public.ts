// Routes without a key: approval links, whose token is the authority, and public documents.

import { z } from 'zod'
import { Keys } from '../evidence/keys.ts'
import { PROOF_HASHES } from '../evidence/merkle.ts'
import { parseTilePath, type Tile } from '../evidence/tiles.ts'
import { WitnessState } from '../evidence/witnesses.ts'
import { CallId, Sha256 } from '../fields.ts'
import { Bytes, routes } from './route.ts'

const LogName = z.strictObject({ tenant: z.string().max(32) })
const TilePath = z
  .string()
  .transform(parseTilePath)
  .pipe(z.custom<Tile>((tile) => tile !== undefined))

/**
 * The proof that a log has the end of a call. `hash`: of the journal entry that ends the call; the
 * leaf is made of its 32 bytes. `proof`: of inclusion in exactly the tree that `checkpoint` signs.
 */
export const LogProof = z.strictObject({
  index: z.int().min(0),
  hash: Sha256,
  proof: z.array(Sha256).max(PROOF_HASHES),
  checkpoint: z.string(),
})
export type LogProof = z.infer<typeof LogProof>

export const PUBLIC = routes({
  keys: {
    method: 'GET',
    path: '/.well-known/countersign/keys.json',
    callers: ['anyone'],
    action: null,
    summary: 'Read the public keys for offline verification',
    query: z.strictObject({ tenant: z.string().max(32).default('default') }),
    status: 200,
    result: Keys,
    failures: ['not_found'],
  },
  attestationFormat: {
    method: 'GET',
    path: '/attestation/v1',
    callers: ['anyone'],
    action: null,
    media: 'text/plain',
    summary: 'Read the format of evidence and how to verify it, as Markdown',
    status: 200,
    result: z.string(),
    failures: [],
  },
  evidenceSchema: {
    method: 'GET',
    path: '/schemas/{name}',
    callers: ['anyone'],
    action: null,
    params: z.strictObject({ name: z.string().max(64) }),
    media: 'application/schema+json',
    summary: 'Read the JSON Schema of a format of evidence, such as `bundle.json`',
    status: 200,
    result: z.string(),
    failures: ['not_found'],
  },
  logCheckpoint: {
    method: 'GET',
    path: '/log/{tenant}/checkpoint',
    callers: ['anyone'],
    action: null,
    params: LogName,
    media: 'text/plain',
    summary: 'Read the signed head of the tenant’s Merkle log, a C2SP checkpoint',
    status: 200,
    result: z.string(),
    failures: ['not_found'],
  },
  logTile: {
    method: 'GET',
    path: '/log/{tenant}/tile/{tile}',
    rest: true,
    callers: ['anyone'],
    action: null,
    params: LogName.extend({ tile: TilePath }),
    media: 'application/octet-stream',
    summary: 'Read a tile of the tree (`LEVEL/N`) or a bundle of entries (`entries/N`), by C2SP tlog-tiles',
    status: 200,
    result: Bytes,
    failures: ['not_found'],
  },
  logProof: {
    method: 'GET',
    path: '/log/{tenant}/proof/{call}',
    callers: ['anyone'],
    action: null,
    params: LogName.extend({ call: CallId }),
    summary: 'Read the proof that the log has the end of a call',
    status: 200,
    result: LogProof,
    failures: ['not_found'],
  },
  logWitnesses: {
    method: 'GET',
    path: '/log/{tenant}/witnesses',
    callers: ['anyone'],
    action: null,
    params: LogName,
    summary: 'Read which head of the tenant’s log each witness has cosigned, and whether one refuses the log',
    status: 200,
    result: z.strictObject({ items: z.array(WitnessState) }),
    failures: ['not_found'],
  },
  showApproval: {
    method: 'GET',
    path: '/approve/{token}',
    callers: ['link'],
    action: null,
    params: z.strictObject({ token: z.string().max(300) }),
    media: 'text/html',
    summary: 'Show the page behind an approval link; opening it changes nothing',
    status: 200,
    result: z.string(),
    failures: ['link_invalid', 'link_revoked', 'approval_expired'],
  },
  submitApproval: {
    method: 'POST',
    path: '/approve/{token}',
    callers: ['link'],
    action: 'approval.decide',
    params: z.strictObject({ token: z.string().max(300) }),
    media: 'text/html',
    summary: 'Submit the answer on that page',
    status: 200,
    result: z.string(),
    failures: [
      'link_invalid',
      'link_revoked',
      'approval_expired',
      'approval_cancelled',
      'already_answered',
      'cross_origin',
      'forbidden',
    ],
  },
  followApproval: {
    method: 'GET',
    path: '/approve/{token}/events',
    callers: ['link'],
    action: null,
    params: z.strictObject({ token: z.string().max(300) }),
    media: 'text/event-stream',
    summary:
      'Stream the answers of others while the page is open; the stream ends when the approval or the link does',
    status: 200,
    result: z.string(),
    failures: ['link_invalid', 'link_revoked', 'too_many_streams'],
  },
  readLinkedFile: {
    method: 'GET',
    path: '/approve/{token}/files/{sha256}',
    callers: ['link'],
    action: 'run.read',
    params: z.strictObject({ token: z.string().max(300), sha256: z.string().max(64) }),
    media: 'application/octet-stream',
    summary: 'Read an input file of the call, unchanged, as an approver who may read runs',
    status: 200,
    result: Bytes,
    failures: ['link_invalid', 'link_revoked', 'approval_expired', 'not_found'],
  },
  openapi: {
    method: 'GET',
    path: '/openapi.json',
    callers: ['anyone'],
    action: null,
    media: 'application/openapi+json',
    summary: 'Read this API as OpenAPI 3.1',
    status: 200,
    result: z.string(),
    failures: [],
  },
  docs: {
    method: 'GET',
    path: '/docs',
    callers: ['anyone'],
    action: null,
    media: 'text/html',
    summary: 'Read this API as a page for people',
    status: 200,
    result: z.string(),
    failures: [],
  },
  metrics: {
    method: 'GET',
    path: '/metrics',
    callers: ['anyone'],
    action: null,
    media: 'text/plain',
    summary: 'Read counters in the Prometheus text format',
    status: 200,
    result: z.string(),
    failures: [],
  },
  healthz: {
    method: 'GET',
    path: '/healthz',
    callers: ['anyone'],
    action: null,
    summary: 'Check that the process responds',
    status: 200,
    result: z.strictObject({ ok: z.literal(true) }),
    failures: [],
  },
  readyz: {
    method: 'GET',
    path: '/readyz',
    callers: ['anyone'],
    action: null,
    summary: 'Check that the store and the queue respond',
    status: 200,
    result: z.strictObject({ ok: z.boolean(), store: z.boolean(), queue: z.boolean() }),
    failures: ['unavailable'],
  },
})
