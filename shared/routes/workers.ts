// Routes of workers.

import { z } from 'zod'
import { CallId, Sha256 } from '../fields.ts'
import { LIMITS } from '../limits.ts'
import * as wire from '../wire/workers.ts'
import { Bytes, routes } from './route.ts'

export const WORKERS = routes({
  enrol: {
    method: 'POST',
    path: '/v1/worker/enrol',
    callers: ['anyone'],
    action: null,
    summary: 'Enrol a worker with a one-time token',
    body: wire.Enrolment,
    status: 201,
    result: wire.Enrolled,
    failures: ['enrolment_invalid'],
  },
  claim: {
    method: 'POST',
    path: '/v1/worker/claims',
    callers: ['worker'],
    action: 'worker.claim',
    summary: 'Claim a call; succeeds once',
    body: wire.ClaimRequest,
    status: 200,
    result: wire.Claim,
    failures: ['not_claimable', 'already_claimed', 'sandbox_unavailable', 'storage_full'],
  },
  readInput: {
    method: 'GET',
    path: '/v1/worker/calls/{call}/files/{sha256}/{part}',
    callers: ['worker'],
    action: 'worker.settle', // a running call may read its files while its tenant is suspended
    params: z.strictObject({
      call: CallId,
      sha256: Sha256,
      part: z.string().regex(/^(?:0|[1-9][0-9]{0,3})$/),
    }),
    summary: 'Fetch a part of an input file of a running call',
    status: 200,
    result: wire.FilePart,
    failures: ['not_found'],
  },
  putOutput: {
    method: 'PUT',
    path: '/v1/worker/calls/{call}/files/{sha256}',
    callers: ['worker'],
    action: 'worker.settle',
    params: z.strictObject({ call: CallId, sha256: Sha256 }),
    summary: 'Upload an output file of a running call; the body is its bytes',
    body: Bytes,
    raw: true,
    body_bytes: LIMITS.file_bytes,
    status: 200,
    result: z.strictObject({ sha256: Sha256, bytes: z.int() }),
    failures: ['not_found', 'digest_mismatch', 'too_many_files', 'storage_full'],
  },
  output: {
    method: 'POST',
    path: '/v1/worker/calls/{call}/output',
    callers: ['worker'],
    action: 'worker.settle',
    params: z.strictObject({ call: CallId }),
    summary: 'Upload output of a running call as it is written',
    body: wire.OutputChunk,
    status: 200,
    result: z.strictObject({ next: z.int(), stop: z.boolean() }),
    failures: ['stale_fence', 'already_ended'],
  },
  settle: {
    method: 'POST',
    path: '/v1/worker/attestations',
    callers: ['worker'],
    action: 'worker.settle',
    summary: 'Settle a call with its attestation',
    body: wire.Settlement,
    body_bytes: LIMITS.settlement_bytes,
    status: 200,
    result: wire.Settled,
    failures: ['stale_fence', 'already_ended', 'attestation_invalid'],
  },
  prove: {
    method: 'POST',
    path: '/v1/worker/proofs',
    callers: ['worker'],
    action: 'worker.heartbeat',
    summary:
      'Submit the signed results of the canaries; a worker gets no calls of a tier that it has not proven',
    body: wire.ProofSubmission,
    body_bytes: 256 * 1024,
    status: 200,
    result: wire.ProvenTiers,
    failures: ['proof_invalid'],
  },
  heartbeat: {
    method: 'POST',
    path: '/v1/worker/heartbeat',
    callers: ['worker'],
    action: 'worker.heartbeat',
    summary: 'Report the running calls; the response says which to stop',
    body: wire.Heartbeat,
    status: 200,
    result: wire.HeartbeatAnswer,
    failures: [],
  },
})
