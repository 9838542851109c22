// Executes one call of an upstream's tool: one request, one answer, and a record of both. It never
// throws and never repeats a request that the server may have acted on (U07, L2): without a usable
// answer the outcome is `no_answer`, which ends the call `indeterminate`.

import type { Json } from '../../shared/bytes/json.ts'
import { sha256 } from '../../shared/bytes/json.ts'
import { SIGNED_TEXT_CHARS, toSignableText } from '../../shared/bytes/signable-text.ts'
import type { UpstreamExchange } from '../../shared/evidence/statement.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Response } from '../../shared/mcp/messages.ts'
import { refusal, toolResult } from '../../shared/mcp/tool-result.ts'
import { maskedHost } from '../../shared/plan/egress-hosts.ts'
import type { Connection, Outcome, UpstreamPlan } from '../../shared/plan/plan.ts'
import type { Outside, StandIns } from '../platform/outbound-fetch.ts'
import { KnownValues } from '../secrets/known-values.ts'
import { type Era, type Fault, mirroredHeaders, UpstreamClient } from './client.ts'
import { publishedText } from './definition.ts'
import type { Notification } from './messages.ts'
import { UpstreamRequests } from './requests.ts'

export type UpstreamCall = {
  readonly id: string
  readonly plan: UpstreamPlan
  readonly args: Readonly<Record<string, unknown>>
  readonly era: Era
  /** The value of the secret with which the edge authenticates. */
  readonly secret: string | null
  /** Every secret of the tenant, to mask what the server returns. */
  readonly known: KnownValues
  readonly outside: Outside
  readonly standIns: StandIns | undefined
  /** `cancelled` and the deadline end the call. */
  readonly cancelled: AbortSignal
  readonly deadline: number
  /**
   * Finds out again which protocol the server speaks, after it refused the one that we used. Null if
   * that is unknown, or if the tool may not be called as the server shows it now (U01).
   */
  readonly lookAgain: () => Promise<Era | null>
  /** Shows live output; `text` is masked. */
  readonly show: (text: string) => Promise<void>
}
export type UpstreamExecution = {
  readonly outcome: Outcome
  /** Masked and whole; the caller cuts it. */
  readonly stdout: Buffer
  readonly stderr: Buffer
  readonly exchange: UpstreamExchange
  readonly connections: readonly Connection[]
  /** The last look is out of date: the server said so, or refused the request. */
  readonly outdated: boolean
}

type Ending = {
  readonly outcome: Outcome
  readonly output: string
  readonly era: Era | null
  readonly sent: Uint8Array | string | null
  readonly answered: Uint8Array | null
  /** The server refused the request, as a server of another protocol does. */
  readonly refused: boolean
}

function exchangeOf({ executor }: UpstreamPlan): UpstreamExchange {
  const { upstream: name, url, definition } = executor
  return {
    name,
    origin: new URL(url).origin,
    era: null,
    definition_sha256: definition,
    request_sha256: null,
    response_sha256: null,
  }
}

/** An execution that sent nothing. */
export const unsentExecution = (plan: UpstreamPlan, outcome: Outcome): UpstreamExecution => ({
  outcome,
  stdout: Buffer.alloc(0),
  stderr: Buffer.alloc(0),
  exchange: exchangeOf(plan),
  connections: [],
  outdated: false,
})

export async function executeUpstreamCall(call: UpstreamCall): Promise<UpstreamExecution> {
  const { plan, known, cancelled, deadline, outside, standIns, secret } = call
  const { hosts } = plan.egress
  const { net_bytes: bytes, net_connections: most } = plan.limits
  const signal = AbortSignal.any([cancelled, AbortSignal.timeout(Math.max(0, deadline - Date.now()))])
  const requests = new UpstreamRequests({ hosts, bytes, requests: most, outside, standIns, signal })
  const { url, auth } = plan.executor
  const client = new UpstreamClient(requests, { url, ...(auth && { auth }), secret })
  const masked = <T>(value: T): T => {
    const token = new KnownValues(client.token === null ? [] : [client.token])
    return token.hiddenIn(known.hiddenIn(value, MARK), MARK) as T // masking keeps the shape
  }
  const notes = new Notes(
    async (text) => call.show(text),
    masked,
    Math.min(LIMITS.upstream_notes_chars, plan.limits.output_bytes),
  )
  const first = await attempt(client, call, call.era, notes, masked)
  const ending =
    'misjudged' in first ? await secondAttempt(client, call, first.misjudged, notes, masked) : first
  const { outcome, output, era, sent, answered, refused } = ending
  return {
    outcome: cancelled.aborted && answered === null ? { kind: 'cancelled' } : clean(outcome, masked),
    stdout: Buffer.from(output),
    stderr: Buffer.from(notes.text),
    exchange: {
      ...exchangeOf(plan),
      era: sent === null ? null : era,
      request_sha256: sent === null ? null : sha256(sent),
      response_sha256: answered === null ? null : sha256(answered),
    },
    connections: requests.connections.map((one) => ({ ...one, host: maskedHost(hosts, one, masked) })),
    outdated: notes.listChanged || refused,
  }
}

const MARK = (): string => '«secret»'

/** Masks before it cuts: part of a secret is secret too (V01). */
const clean = (outcome: Outcome, masked: <T>(value: T) => T): Outcome =>
  'detail' in outcome
    ? { ...outcome, detail: toSignableText(masked(outcome.detail), SIGNED_TEXT_CHARS.detail) }
    : outcome

/** Codes by which a modern server refuses a request before it reads the call. */
const UNPROCESSED: readonly number[] = [-32020, -32022]

async function secondAttempt(
  client: UpstreamClient,
  call: UpstreamCall,
  refused: Ending,
  notes: Notes,
  masked: <T>(value: T) => T,
): Promise<Ending> {
  const era = await call.lookAgain()
  if (era === null || era === call.era) return refused
  const again = await attempt(client, call, era, notes, masked)
  return 'misjudged' in again ? again.misjudged : again
}

async function attempt(
  client: UpstreamClient,
  { id, plan, args }: UpstreamCall,
  era: Era,
  notes: Notes,
  masked: <T>(value: T) => T,
): Promise<Ending | { readonly misjudged: Ending }> {
  const { executor } = plan
  const unsent = (outcome: Outcome): Ending => ({
    outcome,
    output: '',
    era,
    sent: null,
    answered: null,
    refused: false,
  })
  const session = await client.prepare(era)
  if (!session.ok)
    return {
      misjudged: unsent({
        kind: 'refused',
        code: 'upstream_unavailable',
        detail: `nothing was executed: ${session.error.why}`,
      }),
    }
  const given = args as { readonly [name: string]: Json } // they came in through parseJson
  const body = client.callBody(id, executor.tool, given, session.value)
  const mirrored = mirroredHeaders(executor, given)
  const answer = await client.call({ id, tool: executor.tool, body, mirrored }, session.value, (note) =>
    notes.add(note),
  )
  if (!answer.ok) return withoutAnswer(answer.error, era, body)
  const ending = answered(plan, answer.value, era, body, masked)
  const { value } = answer
  return value.kind === 'error' && UNPROCESSED.includes(value.error.code) ? { misjudged: ending } : ending
}

function answered(
  plan: UpstreamPlan,
  response: Response,
  era: Era,
  sent: string,
  masked: <T>(value: T) => T,
): Ending {
  const result =
    response.kind === 'error'
      ? { outcome: refusal(response.error), output: '' }
      : toolResult(plan.executor.output, response.result, masked)
  const isUsable = result.outcome.kind !== 'no_answer'
  const refused = response.kind === 'error'
  return { ...result, era, sent, answered: isUsable ? response.bytes : null, refused }
}

function withoutAnswer({ kind, why, sent, refused: isRefused }: Fault, era: Era, body: string): Ending {
  const bytes = sent ? body : null
  const ending = (outcome: Outcome): Ending => ({
    outcome,
    output: '',
    era,
    sent: bytes,
    answered: null,
    refused: isRefused === true,
  })
  if (!sent)
    return ending({ kind: 'refused', code: 'upstream_unavailable', detail: `nothing was executed: ${why}` })
  if (kind === 'wants_input') return ending({ kind: 'upstream_wants_input', detail: why })
  if (kind === 'too_large') return ending({ kind: 'output_cap' })
  if (isRefused === true) return ending({ kind: 'upstream_error', detail: why })
  return ending({ kind: 'no_answer', detail: why })
}

/** Progress and log messages of the server, as lines of live output. */
class Notes {
  text = ''
  listChanged = false
  #count = 0
  readonly #show: (text: string) => Promise<void>
  readonly #masked: <T>(value: T) => T
  readonly #most: number

  constructor(show: (text: string) => Promise<void>, masked: <T>(value: T) => T, most: number) {
    this.#show = show
    this.#masked = masked
    this.#most = most
  }

  async add({ method, params }: Notification): Promise<void> {
    if (method === 'notifications/tools/list_changed') this.listChanged = true
    const line = lineOf(method, params)
    if (line === undefined || this.#count >= LIMITS.upstream_notes) return
    this.#count += 1
    const text = `${publishedText(this.#masked(line)).replaceAll('\n', ' ')}\n`
    if (Buffer.byteLength(this.text) + Buffer.byteLength(text) > this.#most) return
    this.text += text
    await this.#show(text)
  }
}

function lineOf(
  method: string,
  { progress, total, message, data, level }: Notification['params'],
): string | undefined {
  if (method === 'notifications/message')
    return `${typeof level === 'string' ? `${level}: ` : ''}${typeof data === 'string' ? data : JSON.stringify(data ?? null)}`
  if (method !== 'notifications/progress' || typeof progress !== 'number') return undefined
  const done = `${progress}${typeof total === 'number' ? `/${total}` : ''}`
  return typeof message === 'string' ? `${done} ${message}` : done
}
