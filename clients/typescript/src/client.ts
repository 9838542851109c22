// The client of an agent: proposes calls to an edge, waits for their end, and verifies what was
// attested about them. Uses `fetch` and nothing else, so it runs wherever `fetch` does.

import type {
  Bundle,
  Call,
  DryRun,
  Keys,
  LiveEnd,
  LiveOutput,
  LiveState,
  ProposedCall,
  Run,
  RunSpec,
  ToolSummary,
} from './api.ts'
import { ConnectionError, ProblemError } from './errors.ts'
import { serverEvents } from './events.ts'
import { Files } from './files.ts'
import { type Options, pause, Transport, WAIT_S } from './transport.ts'
import type { Verdict } from './verify.ts'

export type * from './api.ts'
export { textFor } from './call-text.ts'
export type { FieldError } from './errors.ts'
export { ConnectionError, CountersignError, ProblemError } from './errors.ts'
export type { Options } from './transport.ts'
export type { Check, Verdict } from './verify.ts'

/** A call, or the two ids that name it. */
export type CallRef = Pick<Call, 'id' | 'run'>

export type ProposeOptions = {
  /** An existing run. Without it, the call gets a new run. */
  readonly run?: string | Pick<Run, 'id'>
  /** For a new run: its session, channel, device and budget. */
  readonly spec?: RunSpec
  /** Your own words for the people who approve: the task, and why it needs this call. */
  readonly reason?: string
  /** Files that were uploaded to the run before. */
  readonly files?: ProposedCall['files']
  /**
   * Names this proposal: the same key with the same call never runs twice. Default: a random one.
   */
  readonly idempotencyKey?: string
  /** How long the edge waits for the end before it answers, at most 60 s. */
  readonly waitS?: number
  readonly signal?: AbortSignal
}

export type LiveEvent =
  | { readonly event: 'state'; readonly data: LiveState; readonly id: string }
  | { readonly event: 'stdout' | 'stderr'; readonly data: LiveOutput; readonly id: string }
  | { readonly event: 'end'; readonly data: LiveEnd; readonly id: string }

/** Whether a call has ended. It never changes its ending. */
export const hasEnded = ({ ended_at_ms }: Call): boolean => ended_at_ms !== undefined

/** The edge sends a comment every 15 s, so a stream that is silent for longer is dead. */
const IDLE_MS = 45_000
const MAX_RECONNECTS = 5

/**
 * A random key that begins with the time (UUID version 7). The edge keeps calls of one time together,
 * which saves disk and time.
 */
function newKey(): string {
  const time = Date.now().toString(16).padStart(12, '0')
  return `${time.slice(0, 8)}-${time.slice(8)}-7${crypto.randomUUID().slice(15)}`
}

export class Countersign {
  readonly files: Files
  readonly #transport: Transport

  constructor(options: Options) {
    this.#transport = new Transport(options)
    this.files = new Files(this.#transport)
  }

  /** Opens a run: one task with one budget, in which several calls can be proposed. */
  async createRun(
    spec: RunSpec = {},
    { idempotencyKey = crypto.randomUUID(), signal }: Pick<ProposeOptions, 'idempotencyKey' | 'signal'> = {},
  ): Promise<Run> {
    const headers = { 'idempotency-key': idempotencyKey }
    return this.#transport.json('createRun', { body: spec, headers, signal })
  }

  /** Proposes a call and returns it as it is: denied, waiting for an approval, running or ended. */
  async propose(
    tool: string,
    args: Readonly<Record<string, unknown>>,
    options: ProposeOptions = {},
  ): Promise<Call> {
    const { run, spec, reason, files, idempotencyKey = newKey(), waitS, signal } = options
    const call = { tool, args, ...(reason === undefined ? {} : { reason }) }
    const common = {
      headers: { 'idempotency-key': idempotencyKey },
      signal,
      ...(waitS === undefined ? {} : { waitS: Math.min(waitS, WAIT_S) }),
    }
    if (run === undefined)
      return this.#transport.json('proposeCallInNewRun', {
        ...common,
        body: { ...call, ...(spec === undefined ? {} : { run: spec }) },
      })
    return this.#transport.json('proposeCall', {
      ...common,
      params: { run: typeof run === 'string' ? run : run.id },
      body: { ...call, ...(files === undefined ? {} : { files }) },
    })
  }

  /** Reads a call; with `waitS`, once it has ended or that time is over. */
  async read(
    { id, run }: CallRef,
    { waitS, signal }: Pick<ProposeOptions, 'waitS' | 'signal'> = {},
  ): Promise<Call> {
    return this.#transport.json('readCall', {
      params: { run, call: id },
      signal,
      ...(waitS === undefined ? {} : { waitS: Math.min(waitS, WAIT_S) }),
    })
  }

  /**
   * Waits for the end of a call. Every call ends: an approval expires, and an execution has a
   * deadline. With `timeoutMs` it returns the call as it is then.
   */
  async wait(
    call: CallRef,
    { timeoutMs = Number.POSITIVE_INFINITY, signal }: { timeoutMs?: number; signal?: AbortSignal } = {},
  ): Promise<Call> {
    const until = Date.now() + timeoutMs
    for (;;) {
      const waitS = Math.max(0, Math.min(WAIT_S, Math.ceil((until - Date.now()) / 1_000)))
      const asked = Date.now()
      const now = await this.read(call, { waitS, ...(signal === undefined ? {} : { signal }) })
      if (hasEnded(now) || Date.now() >= until) return now
      // An intermediary may answer before the time is up: pause, so that this loop does not spin.
      if (Date.now() - asked < 1_000) await pause(Math.min(1_000, until - Date.now()), signal)
    }
  }

  /** Proposes a call and waits for its end. */
  async call(
    tool: string,
    args: Readonly<Record<string, unknown>>,
    options: ProposeOptions & { readonly timeoutMs?: number } = {},
  ): Promise<Call> {
    const { timeoutMs, ...proposal } = options
    const waitS = Math.min(WAIT_S, Math.ceil((timeoutMs ?? WAIT_S * 1_000) / 1_000))
    const begun = Date.now()
    const call = await this.propose(tool, args, { waitS, ...proposal })
    if (hasEnded(call)) return call
    return this.wait(call, {
      ...(timeoutMs === undefined ? {} : { timeoutMs: Math.max(0, timeoutMs - (Date.now() - begun)) }),
      ...(options.signal === undefined ? {} : { signal: options.signal }),
    })
  }

  /**
   * Follows a call: its state, its output as the tool writes it, and its end. If the connection
   * breaks, it reconnects and continues after the last event. `after`: the id of the last event
   * that you have seen.
   */
  async *stream(
    { id, run }: CallRef,
    { after, signal }: { after?: string; signal?: AbortSignal } = {},
  ): AsyncGenerator<LiveEvent> {
    let last = after
    for (let broken = 0; ; broken++) {
      const response = await this.#transport.send('followCall', {
        params: { run, call: id },
        headers: { accept: 'text/event-stream', ...(last === undefined ? {} : { 'last-event-id': last }) },
        signal,
        stream: true,
      })
      let failed: unknown
      try {
        if (response.body !== null)
          for await (const { id: position, event, data } of serverEvents(response.body, IDLE_MS)) {
            last = position
            broken = 0
            yield { id: position, event, data: JSON.parse(data) } as LiveEvent // the edge's own form
            if (event === 'end') return
          }
      } catch (error) {
        signal?.throwIfAborted()
        failed = error
      }
      if (broken >= MAX_RECONNECTS)
        throw new ConnectionError('the stream of the call broke too many times', { cause: failed })
      await pause(250 * 2 ** broken, signal)
    }
  }

  /** Cancels a call. One that runs is stopped by its worker; wait for its end. */
  async cancel({ id, run }: CallRef, signal?: AbortSignal): Promise<Call> {
    try {
      return await this.#transport.json('cancelCall', { params: { run, call: id }, signal })
    } catch (error) {
      // It ended before we could cancel it, or the answer to our first request was lost.
      if (error instanceof ProblemError && error.code === 'already_ended')
        return this.read({ id, run }, signal === undefined ? {} : { signal })
      throw error
    }
  }

  /** The tools that this agent may call. */
  async tools(signal?: AbortSignal): Promise<readonly ToolSummary[]> {
    const { items } = await this.#transport.json<{ readonly items: readonly ToolSummary[] }>('listTools', {
      signal,
    })
    return items
  }

  /** How a call would be decided now, and why. Proposes nothing and changes nothing. */
  async decide(tool: string, args: Readonly<Record<string, unknown>>, signal?: AbortSignal): Promise<DryRun> {
    return this.#transport.json('decide', { body: { tool, args }, signal })
  }

  /** The attestation of an ended call, with everything that its verification needs. */
  async attestation({ id, run }: CallRef, signal?: AbortSignal): Promise<Bundle> {
    return this.#transport.json('readAttestation', { params: { run, call: id }, signal })
  }

  /**
   * The public keys of a tenant, as the edge shows them. Keep them: keys that the edge itself sends
   * at the moment of verification prove nothing against that edge.
   */
  async keys(tenant = 'default', signal?: AbortSignal): Promise<Keys> {
    return this.#transport.json('keys', { query: { tenant }, signal })
  }

  /** Reads the attestation of an ended call and verifies it against keys that you trust. */
  async verify(call: CallRef, keys: Keys, signal?: AbortSignal): Promise<Verdict> {
    const [bundle, { verify }] = await Promise.all([this.attestation(call, signal), import('./verify.ts')])
    return verify(bundle, keys, { call: call.id })
  }
}
