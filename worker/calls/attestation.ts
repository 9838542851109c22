// Owns what this worker signs: the statement of what it saw of one call, in the shape that the edge countersigns. Pure.
// The facts are the grant's, verbatim; the execution is what the sandbox reported. It adds no opinion of its own.

import { parseJson } from '../../shared/bytes/json.ts'
import { payloadBytes, type Signer, seal } from '../../shared/evidence/dsse.ts'
import {
  type Execution,
  endingOf,
  type Grant,
  STATEMENT_TYPE,
  Statement,
  statementOf,
  UNSTARTED,
} from '../../shared/evidence/statement.ts'
import { attestationId, split } from '../../shared/ids.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Outcome, StreamSummary } from '../../shared/plan/plan.ts'
import type { Settlement } from '../../shared/wire/workers.ts'

/** What came of a call, and the bytes that were kept of its output. */
export type Ran = { readonly execution: Execution; readonly stdout: Uint8Array; readonly stderr: Uint8Array }

/** What no edge could read is not sent: then it says less, and the same ending (L5). */
export function settlementOf(grant: Grant, grant_sha256: string, ran: Ran, signer: Signer): Settlement {
  const whole = bounded(grant, grant_sha256, ran, signer)
  return isReadable(whole) ? whole : (inShort(whole, signer) ?? whole)
}

/**
 * The ending alone, and nothing that anybody else had a say in: for an edge that does not take the whole. What was written is told by
 * length and digest. Undefined where it is no shorter.
 */
export function inShort({ fence, envelope }: Settlement, signer: Signer): Settlement | undefined {
  const { predicate } = JSON.parse(Buffer.from(payloadBytes(envelope)).toString()) as Statement // our own
  const { execution_sha256: _, timed_out: __, ...of } = predicate
  const { files: ___, outcome, stdout, stderr, ...execution } = of.execution
  const short = seal(
    STATEMENT_TYPE,
    statementOf({
      ...of,
      execution: {
        ...execution,
        outcome: outcome !== null && 'detail' in outcome ? { ...outcome, detail: UNTOLD } : outcome,
        stdout: leftOut(stdout),
        stderr: leftOut(stderr),
        connections: [],
      },
    }),
    signer,
  )
  return short.payload === envelope.payload
    ? undefined
    : { fence, envelope: short, output: { stdout: '', stderr: '' } }
}

const UNTOLD = 'the edge could not read what this worker told of the end; the worker’s log says why'

const leftOut = (of: StreamSummary | null): StreamSummary | null =>
  of && { ...of, kept: 0, truncated: of.bytes > 0 }

/** As the edge reads it. */
function isReadable({ envelope }: Settlement): boolean {
  const read = parseJson(payloadBytes(envelope))
  return read.ok && envelope.payload.length <= LIMITS.body_bytes && Statement.safeParse(read.value).success
}

function bounded(grant: Grant, grant_sha256: string, ran: Ran, signer: Signer): Settlement {
  const settlement = sealed(grant, grant_sha256, ran, signer)
  const { envelope, output } = settlement
  const beside = envelope.payload.length + BESIDE_BYTES
  if (beside + output.stdout.length + output.stderr.length <= LIMITS.settlement_bytes) return settlement
  return sealed(
    grant,
    grant_sha256,
    shortened(ran, Math.floor(((LIMITS.settlement_bytes - beside) * 3) / 4)),
    signer,
  )
}

function sealed(
  grant: Grant,
  grant_sha256: string,
  { execution, stdout, stderr }: Ran,
  signer: Signer,
): Settlement {
  const { facts, worker, fence, deadline_ms } = grant
  if (execution.outcome === null) throw new Error('a worker always saw an outcome')
  const statement = statementOf({
    attestation_id: attestationId(facts.run, split(facts.call).n),
    ...endingOf(execution.outcome),
    facts,
    grant: { sha256: grant_sha256, worker, fence, deadline_ms },
    execution,
  })
  return {
    fence,
    envelope: seal(STATEMENT_TYPE, statement, signer),
    output: { stdout: base64(stdout), stderr: base64(stderr) },
  }
}

/** What a settlement holds besides the payload and the output: names, a signature, and numbers that shortening may lengthen. */
const BESIDE_BYTES = 1_024

/** A settlement is one request, and a request has a bound: what does not fit of the output is cut out of the middle of each stream. */
function shortened({ execution, stdout, stderr }: Ran, room: number): Ran {
  const share = (mine: Uint8Array, other: Uint8Array): number =>
    Math.min(mine.byteLength, Math.max(Math.floor(room / 2), room - other.byteLength))
  const cut = (bytes: Uint8Array, most: number): Uint8Array => {
    const tail = Math.floor(most / 4)
    return bytes.byteLength <= most
      ? bytes
      : Buffer.concat([bytes.subarray(0, most - tail), bytes.subarray(bytes.byteLength - tail)])
  }
  const [out, error] = [cut(stdout, share(stdout, stderr)), cut(stderr, share(stderr, stdout))]
  const summary = (of: StreamSummary | null, kept: Uint8Array): StreamSummary | null =>
    of && { ...of, kept: kept.byteLength, truncated: kept.byteLength < of.bytes }
  return {
    execution: {
      ...execution,
      stdout: summary(execution.stdout, out),
      stderr: summary(execution.stderr, error),
    },
    stdout: out,
    stderr: error,
  }
}

const base64 = (bytes: Uint8Array): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64')

const NOTHING = new Uint8Array()

/** A call that this worker would not run, or could not begin. */
export const unrun = (
  outcome: Extract<Outcome, { kind: 'refused' | 'infra' | 'cancelled' }>,
  now_ms: number,
): Ran => ({
  execution: {
    outcome,
    stdout: null,
    stderr: null,
    connections: [],
    executor: UNSTARTED,
    sandbox_enforcement: 'none',
    profile_sha256: null,
    argv_sha256: null,
    started_at_ms: null,
    ended_at_ms: now_ms,
  },
  stdout: NOTHING,
  stderr: NOTHING,
})
