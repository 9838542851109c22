// Owns the worker's conversation with the edge: every request signed (RFC 9421), clock and epoch corrected when the edge refuses them, and asked
// again, always signed anew, where asking twice is the same as asking once. What comes back and is not what the route says is not the
// edge's: nothing after this file reads such an answer. It decides nothing about calls.

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

export type Link = {
  readonly clock: EdgeClock
  /** Sends one request. If the edge refuses our epoch, clock or nonce, corrects it and sends the request again. */
  readonly ask: Client
  /** Asks until the answer is final, `patience_ms` is over, or `signal` says to ask no more. Only for what is safe to ask twice. */
  readonly insist: <N extends RouteName>(
    name: N,
    input: Input<N>,
    patience: Patience,
  ) => Promise<Result<Output<N>, Problem>>
  readonly close: () => void
}

export type Patience = { readonly patience_ms: number; readonly signal: AbortSignal }

/** Nothing came back that the edge could have said. `Problem` has no word for it on the wire; status 0 is ours. */
export const unreachable = ({ status }: Problem): boolean =>
  status === 0 || status === 502 || status === 503 || status === 504
/** The edge may say otherwise later. Every other refusal is final. */
export const mayChange = (problem: Problem): boolean =>
  unreachable(problem) || problem.status >= 500 || problem.status === 429

export function openLink(
  url: string,
  { tenant, worker, signer }: Pick<Identity, 'tenant' | 'worker' | 'signer'>,
  within_ms?: number,
): Link {
  const clock = new EdgeClock()
  let refusedAt: string | undefined
  let epoch = ''
  const carrier = openTransport(new URL(url), {
    refusedAt: (date) => {
      refusedAt = date
    },
    ...(within_ms === undefined ? {} : { within_ms }),
  })
  const who = { tenant, worker, key: signer.key }
  const signed: Credentials = ({ method, url: { host, pathname }, body }) =>
    signRequest({ method, authority: host, path: pathname, body }, { ...who, epoch }, clock.now())
  const once = answering(client(url, signed, carrier.send))

  const corrected = (problem: Problem): boolean => {
    const { code, epoch: named } = problem
    if (code === 'clock_skew') clock.learnFromHeader(refusedAt)
    else if (code === 'stale_epoch' && typeof named === 'string' && EPOCH.test(named)) epoch = named
    else return code === 'replayed'
    return true
  }
  const ask: Client = async (name, input) => {
    let answer = await once(name, input)
    for (let again = 0; again < CORRECTIONS && !answer.ok && corrected(answer.error); again++)
      answer = await once(name, input)
    return answer
  }

  const insist: Link['insist'] = async (name, input, { patience_ms, signal }) => {
    const until = performance.now() + patience_ms
    for (const rest of backoff()) {
      if (signal.aborted) return err(UNASKED)
      const answer = await ask(name, input)
      if (
        answer.ok ||
        !mayChange(answer.error) ||
        performance.now() + rest > until ||
        !(await waited(rest, signal))
      )
        return answer
    }
    throw new Error('the backoff never ends')
  }

  return { clock, ask, insist, close: carrier.close }
}

/** A starting worker may have to learn the edge's epoch and then its clock. */
const CORRECTIONS = 2
/** An epoch and a nonce together have to fit the edge's limit. */
const EPOCH = /^[A-Za-z0-9_-]{1,32}$/

/** For the two questions that an unenrolled worker may ask: no signature, and no second attempt. */
export const openUnsigned = (url: string): { ask: Client; close: () => void } => {
  const carrier = openTransport(new URL(url))
  return { ask: answering(client(url, () => ({}), carrier.send)), close: carrier.close }
}

/** Turns what the network did into a value. A kept-open connection that was closed on us is no outage: one more try, on a new one. */
function answering(call: Client): Client {
  const attempt: Client = async (name, input) => {
    try {
      const answer = await call(name, input)
      if (!answer.ok) return err(understood(answer.error))
      return isOfRoute(name, answer.value) ? answer : err(NOT_THE_EDGES)
    } catch (thrown) {
      if (!(thrown instanceof Unreachable)) throw thrown
      return thrown.stale
        ? attempt(name, input)
        : err({ status: 0, code: 'unavailable', detail: thrown.message })
    }
  }
  return attempt
}

const UNASKED: Problem = { status: 0, code: 'unavailable', detail: 'it was not asked any more' }

/** What is between the edge and us has answered in its place. */
export const NOT_THE_EDGES: Problem = {
  status: 0,
  code: 'unavailable',
  detail: 'an answer that is not the edge’s',
}

/** Large, and read whole where it is judged (grant.ts, settling.ts). */
const JUDGED: Partial<Record<RouteName, z.ZodType>> = {
  claim: z.looseObject({ grant: Envelope }),
  settle: z.looseObject({ attestation: Envelope }),
}

/** A success that is none comes from something between. An edge that is newer than we are may say more than we know. */
function isOfRoute(name: RouteName, value: unknown): boolean {
  const expected: z.ZodType = JUDGED[name] ?? ROUTES[name].result
  const read = expected.safeParse(value)
  return read.success || read.error.issues.every(({ code }) => code === 'unrecognized_keys')
}

/** JSON that is no problem document does too. */
const understood = (problem: Partial<Problem> | null): Problem =>
  typeof problem?.code === 'string' && typeof problem.status === 'number'
    ? { ...problem, code: problem.code, status: problem.status, detail: String(problem.detail ?? '') }
    : NOT_THE_EDGES

const FIRST_REST_MS = 50
const LONGEST_REST_MS = 2_000

/** Twice as long each time, and never in step with other workers. */
export function* backoff(longest_ms = LONGEST_REST_MS): Generator<number, never> {
  for (let rest = FIRST_REST_MS; ; rest = Math.min(rest * 2, longest_ms))
    yield rest * (0.5 + Math.random() / 2)
}

/** Whether the whole time passed. */
export const waited = (ms: number, signal: AbortSignal): Promise<boolean> =>
  pause(ms, true, { signal }).catch(() => false)
