// What workers ask.

import { z } from 'zod'
import { LIMITS } from '../limits.ts'
import { CallId, Sha256 } from '../wire.ts'
import * as wire from '../worker-wire.ts'
import { routes } from './route.ts'

export const WORKERS = routes({
  enroll: {
    method: 'POST',
    path: '/v1/worker/enroll',
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
    summary: 'Claim a call, once',
    body: wire.ClaimRequest,
    status: 200,
    result: wire.Claim,
    failures: ['not_claimable', 'already_claimed', 'sandbox_unavailable'],
  },
  readInput: {
    method: 'GET',
    path: '/v1/worker/calls/{call}/files/{sha256}/{part}',
    callers: ['worker'],
    action: 'worker.claim',
    params: z.strictObject({ call: CallId, sha256: Sha256, part: z.string().regex(/^(?:0|[1-9][0-9]{0,3})$/) }),
    summary: 'Fetch a part of a file that a running call brings',
    status: 200,
    result: wire.FilePart,
    failures: ['not_found'],
  },
  output: {
    method: 'POST',
    path: '/v1/worker/calls/{call}/output',
    callers: ['worker'],
    action: 'worker.settle',
    params: z.strictObject({ call: CallId }),
    summary: 'Stream output of a running call',
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
  heartbeat: {
    method: 'POST',
    path: '/v1/worker/heartbeat',
    callers: ['worker'],
    action: 'worker.heartbeat',
    summary: 'Say what is running; hear what to stop',
    body: wire.Heartbeat,
    status: 200,
    result: wire.HeartbeatAnswer,
    failures: [],
  },
})
