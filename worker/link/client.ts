// The worker's client for the edge. Signs every request (RFC 9421), corrects clock and epoch when
// the edge refuses them, and retries what is safe to send twice, with a new signature each time. An
// answer that does not match its route is treated as coming from a middlebox, not the edge.

import { setTimeout as pause } from 'node:timers/promises'
import { z } from 'zod'
import { Envelope } from '../../shared/evidence/dsse.ts'
import { signRequest } from '../../shared/evidence/http-signature.ts'
import { err, type Result } from '../../shared/result.ts'
import { ROUTES, type RouteName } from '../../shared/routes/all.ts'
import {
  type Client,
  type Credentials,
  client,
  type Input,
  type Output,
  type Problem,
} from '../../shared/routes/client.ts'
import { EdgeClock } from './edge-clock.ts'
import type { Identity } from './identity.ts'
import { openTransport, Unreachable } from './transport.ts'

export type EdgeLink = {
  readonly clock: EdgeClock
  /**
   * Sends one request. If the edge refuses our epoch, clock or nonce, corrects it and sends again.
   */
  readonly request: Client
  /**
   * Retries until the answer is final, `patience_ms` is over, or `signal` aborts. For idempotent
   * requests only.
   */
  readonly requestUntilFinal: <N extends RouteName>(
    name: N,
    input: Input<N>,
    patience: Patience,
  ) => Promise<Result<Output<N>, Problem>>
  readonly close: () => void
}

export type Patience = { readonly patience_ms: number; readonly signal: AbortSignal }

/**
 * No answer from the edge itself: a gateway's status, or our own status 0 for a failed connection.
 */
export const isUnreachable = ({ status }: Problem): boolean =>
  status === 0 || status === 502 || status === 503 || status === 504
/** The edge may answer differently later. Every other refusal is final. */
export const isTransient = (problem: Problem): boolean =>
  isUnreachable(problem) || problem.status >= 500 || problem.status === 429

export function openEdgeLink(
  url: string,
  { tenant, worker, signer }: Pick<Identity, 'tenant' | 'worker' | 'signer'>,
  within_ms?: number,
): EdgeLink {
  const clock = new EdgeClock()
  let refusedAt: string | undefined
  let epoch = ''
  const transport = openTransport(new URL(url), {
    refusedAt: (date) => {
      refusedAt = date
    },
    ...(within_ms === undefined ? {} : { within_ms }),
  })
  const signerParameters = { tenant, worker, key: signer.key }
  const signed: Credentials = ({ method, url: { host, pathname }, body }) =>
    signRequest(
      { method, authority: host, path: pathname, body },
      { ...signerParameters, epoch },
      clock.now(),
    )
  const sendOnce = withNetworkErrors(client(url, signed, transport.send))

  const applyCorrection = (problem: Problem): boolean => {
    const { code, epoch: newEpoch } = problem
    if (code === 'clock_skew') clock.learnFromHeader(refusedAt)
    else if (code === 'stale_epoch' && typeof newEpoch === 'string' && EPOCH.test(newEpoch)) epoch = newEpoch
    else return code === 'replayed'
    return true
  }
  const ask: Client = async (name, input) => {
    let answer = await sendOnce(name, input)
    for (let again = 0; again < CORRECTIONS && !answer.ok && applyCorrection(answer.error); again++)
      answer = await sendOnce(name, input)
    return answer
  }

  const insist: EdgeLink['requestUntilFinal'] = async (name, input, { patience_ms, signal }) => {
    const until = performance.now() + patience_ms
    for (const pause_ms of backoff()) {
      if (signal.aborted) return err(ABORTED)
      const answer = await ask(name, input)
      if (
        answer.ok ||
        !isTransient(answer.error) ||
        performance.now() + pause_ms > until ||
        !(await pauseUnlessAborted(pause_ms, signal))
      )
        return answer
    }
    throw new Error('the backoff never ends')
  }

  return { clock, request: ask, requestUntilFinal: insist, close: transport.close }
}

/** A starting worker may have to learn the edge's epoch first and then its clock. */
const CORRECTIONS = 2
/** Epoch and nonce together must fit the edge's limit. */
const EPOCH = /^[A-Za-z0-9_-]{1,32}$/

/**
 * A client without a key, for the two routes that an unenrolled worker may call. It does not retry.
 */
export const openUnsignedLink = (url: string): { ask: Client; close: () => void } => {
  const transport = openTransport(new URL(url))
  return { ask: withNetworkErrors(client(url, () => ({}), transport.send)), close: transport.close }
}

/**
 * Turns network failures into values. Retries at once if a kept-open connection turns out to be
 * closed.
 */
function withNetworkErrors(call: Client): Client {
  const attempt: Client = async (name, input) => {
    try {
      const answer = await call(name, input)
      if (!answer.ok) return err(asProblem(answer.error))
      return isOfRoute(name, answer.value) ? answer : err(NOT_FROM_EDGE)
    } catch (thrown) {
      if (!(thrown instanceof Unreachable)) throw thrown
      return thrown.stale
        ? attempt(name, input)
        : err({ status: 0, code: 'unavailable', detail: thrown.message })
    }
  }
  return attempt
}

const ABORTED: Problem = { status: 0, code: 'unavailable', detail: 'stopped before the request was sent' }

/** A middlebox between the edge and us answered instead of the edge. */
export const NOT_FROM_EDGE: Problem = {
  status: 0,
  code: 'unavailable',
  detail: 'an answer that is not the edge’s',
}

/**
 * Large answers: only their shape is checked here, their content by verify-grant.ts and
 * settlements.ts.
 */
const CHECKED_LATER: Partial<Record<RouteName, z.ZodType>> = {
  claim: z.looseObject({ grant: Envelope }),
  settle: z.looseObject({ attestation: Envelope }),
}

/** Unknown fields are allowed, because the edge may be newer than this worker. */
function isOfRoute(name: RouteName, value: unknown): boolean {
  const expected: z.ZodType = CHECKED_LATER[name] ?? ROUTES[name].result
  const read = expected.safeParse(value)
  return read.success || read.error.issues.every(({ code }) => code === 'unrecognized_keys')
}

/** JSON that is not a problem document comes from a middlebox, too. */
const asProblem = (problem: Partial<Problem> | null): Problem =>
  typeof problem?.code === 'string' && typeof problem.status === 'number'
    ? { ...problem, code: problem.code, status: problem.status, detail: String(problem.detail ?? '') }
    : NOT_FROM_EDGE

const FIRST_PAUSE_MS = 50
const LONGEST_PAUSE_MS = 2_000

/** Exponential backoff with jitter, so that workers don't retry in step. */
export function* backoff(longest_ms = LONGEST_PAUSE_MS): Generator<number, never> {
  for (let pause_ms = FIRST_PAUSE_MS; ; pause_ms = Math.min(pause_ms * 2, longest_ms))
    yield pause_ms * (0.5 + Math.random() / 2)
}

/** Pauses; false if `signal` ended the pause early. */
export const pauseUnlessAborted = (ms: number, signal: AbortSignal): Promise<boolean> =>
  pause(ms, true, { signal }).catch(() => false)
