// Builds and signs the statement of one call's execution, in the form that the edge countersigns.
// The facts are copied from the grant, the execution from the sandbox's report. Pure.

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
import { attestationId, splitId } from '../../shared/ids.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Outcome, StreamSummary } from '../../shared/plan/plan.ts'
import type { Settlement } from '../../shared/wire/workers.ts'

/** The execution of a call, and the captured bytes of its output. */
export type ExecutionResult = {
  readonly execution: Execution
  readonly stdout: Uint8Array
  readonly stderr: Uint8Array
}

/**
 * The settlement of a call. If the edge could not parse the whole, it carries only the ending (L5).
 */
export function settlementOf(
  grant: Grant,
  grant_sha256: string,
  ran: ExecutionResult,
  signer: Signer,
): Settlement {
  const whole = fitted(grant, grant_sha256, ran, signer)
  return isReadable(whole) ? whole : (shortSettlement(whole, signer) ?? whole)
}

/**
 * The ending alone, without any text or file list that a tool influenced: for an edge that refuses
 * the whole. Output is reported by length and digest only. Undefined if this is not shorter.
 */
export function shortSettlement({ fence, envelope }: Settlement, signer: Signer): Settlement | undefined {
  const { predicate } = JSON.parse(Buffer.from(payloadBytes(envelope)).toString()) as Statement // we made it
  const { execution_sha256: _, timed_out: __, ...facts } = predicate
  const { files: ___, outcome, stdout, stderr, ...execution } = facts.execution
  const short = seal(
    STATEMENT_TYPE,
    statementOf({
      ...facts,
      execution: {
        ...execution,
        outcome: outcome !== null && 'detail' in outcome ? { ...outcome, detail: DETAIL_OMITTED } : outcome,
        stdout: withoutBytes(stdout),
        stderr: withoutBytes(stderr),
        connections: [],
      },
    }),
    signer,
  )
  return short.payload === envelope.payload
    ? undefined
    : { fence, envelope: short, output: { stdout: '', stderr: '' } }
}

const DETAIL_OMITTED = 'the edge refused this worker’s full report of the end; the worker’s log says why'

const withoutBytes = (of: StreamSummary | null): StreamSummary | null =>
  of && { ...of, kept: 0, truncated: of.bytes > 0 }

/** Applies the same checks as the edge. */
function isReadable({ envelope }: Settlement): boolean {
  const read = parseJson(payloadBytes(envelope))
  return read.ok && envelope.payload.length <= LIMITS.body_bytes && Statement.safeParse(read.value).success
}

function fitted(grant: Grant, grant_sha256: string, ran: ExecutionResult, signer: Signer): Settlement {
  const settlement = sign(grant, grant_sha256, ran, signer)
  const { envelope, output } = settlement
  const fixed = envelope.payload.length + ENVELOPE_BYTES
  if (fixed + output.stdout.length + output.stderr.length <= LIMITS.settlement_bytes) return settlement
  return sign(
    grant,
    grant_sha256,
    shortened(ran, Math.floor(((LIMITS.settlement_bytes - fixed) * 3) / 4)),
    signer,
  )
}

function sign(
  grant: Grant,
  grant_sha256: string,
  { execution, stdout, stderr }: ExecutionResult,
  signer: Signer,
): Settlement {
  const { facts, worker, fence, deadline_ms } = grant
  if (execution.outcome === null) throw new Error('a worker always saw an outcome')
  const statement = statementOf({
    attestation_id: attestationId(facts.run, splitId(facts.call).n),
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

/**
 * Room for the rest of a settlement: member names, a signature, and numbers that shortening may
 * lengthen.
 */
const ENVELOPE_BYTES = 1_024

/** Cuts the middle out of each stream until the settlement fits into one request. */
function shortened({ execution, stdout, stderr }: ExecutionResult, room: number): ExecutionResult {
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

/** The result of a call that this worker refused or could not start. */
export const notStarted = (
  outcome: Extract<Outcome, { kind: 'refused' | 'infra' | 'cancelled' }>,
  now_ms: number,
): ExecutionResult => ({
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
