// Requests of a worker about a call that it has claimed, until it settles it: fetch input files,
// put output files, stream output, renew the lease. Each request is checked against the stored
// call.

import { failure } from '../../shared/failures.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { CallRecord } from '../call/lifecycle.ts'
import { heldBy, keepsOutputFiles } from './commands/settle.ts'
import type { RunContext } from './context.ts'
import type { StoredFile } from './file-uploads.ts'

const NO_PART = failure('not_found', 'no running call of this worker has an input file with this part')
const NO_FILE_CALL = failure(
  'not_found',
  'no running call of this worker has this id and collects output files',
)
const NOT_RUNNING = failure('stale_fence', 'the call is not running under this fence')

const runsAt = ({ status }: CallRecord, worker: string): boolean =>
  status.state === 'running' && status.worker === worker

/** One part of an input file, for the worker that runs the call. */
export function readInputPart(
  run: RunContext,
  n: number,
  worker: string,
  digest: string,
  part: number,
): Result<{ data: string }> {
  const record = run.store.call(n)
  const isInput = record?.proposal.files?.some(({ sha256 }) => sha256 === digest) ?? false
  if (record === undefined || !isInput || !runsAt(record, worker)) return err(NO_PART)
  const bytes = run.store.files.part(digest, part)
  return bytes === undefined ? err(NO_PART) : ok({ data: bytes.toString('base64') })
}

/** Stores an output file. No reader sees it until the call's settlement names it. */
export function putOutputFile(
  run: RunContext,
  n: number,
  worker: string,
  digest: string,
  bytes: Uint8Array,
): Promise<Result<StoredFile>> {
  const refusal = () => {
    const record = run.store.call(n)
    return record !== undefined && runsAt(record, worker) && keepsOutputFiles(record)
      ? undefined
      : NO_FILE_CALL
  }
  return run.uploads.put(run, refusal, digest, bytes)
}

/** A chunk of output, with its worker, fence and offset. */
export type OutputChunk = {
  readonly worker: string
  readonly fence: number
  readonly stream: 'stdout' | 'stderr'
  readonly offset: number
  readonly data: Uint8Array
}

/**
 * Stores a chunk of streamed output and renews the lease. A stream is stored without gaps: bytes
 * after a gap, repeated bytes and bytes beyond the plan's limit are dropped. `next` is the offset
 * to continue from.
 */
export async function storeOutput(
  run: RunContext,
  n: number,
  { worker, fence, stream, offset, data }: OutputChunk,
): Promise<Result<{ next: number; stop: boolean }>> {
  return run.transact((tx) => {
    const record = run.store.call(n)
    const running = record === undefined ? err(NOT_RUNNING) : heldBy(record, { worker, fence })
    if (record === undefined || !running.ok) return err(NOT_RUNNING)
    run.leases.hold(n, running.value.deadline)
    const end = run.store.outputEnd(n, stream)
    const limit = record.proposal.plan?.limits.output_bytes ?? 0
    const fresh = offset > end ? Buffer.alloc(0) : Buffer.from(data.subarray(end - offset, limit - offset))
    if (fresh.byteLength > 0) tx.saveOutput(n, stream, end, fresh)
    return ok({ next: end + fresh.byteLength, stop: running.value.cancelRequested })
  })
}

/**
 * Renews the leases of calls that a worker runs; returns the numbers of the calls that it must
 * stop. Leases are in memory: after a restart of this object each call has a new one.
 */
export function renewLeases(
  run: RunContext,
  worker: string,
  running: ReadonlyArray<{ n: number; fence: number }>,
): number[] {
  return running.flatMap(({ n, fence }) => {
    const record = run.store.call(n)
    const held = record === undefined ? undefined : heldBy(record, { worker, fence })
    if (held?.ok !== true) return [n]
    run.leases.hold(n, held.value.deadline)
    return held.value.cancelRequested ? [n] : []
  })
}
