// Keep-alive HTTP connections to the edge, by node's own client, which takes a quarter of the time
// and CPU of `fetch`. Network failures end as `Unreachable`; any other exception is a bug.

import { type IncomingMessage, Agent as PlainAgent, request as plainRequest } from 'node:http'
import { Agent as TlsAgent, request as tlsRequest } from 'node:https'
import { LIMITS } from '../../shared/limits.ts'
import type { Send } from '../../shared/routes/client.ts'

/** No answer, or none that the edge could have sent. Whether the request took effect is unknown. */
export class Unreachable extends Error {
  /** The peer had closed a kept-open connection; a retry opens a new one. */
  readonly stale: boolean

  constructor(message: string, { cause, stale = false }: { cause: unknown; stale?: boolean }) {
    super(message, { cause })
    this.stale = stale
  }
}

const ANSWER_WITHIN_MS = 10_000
/** A claim is the largest answer: arguments, a plan with its argv, a grant. */
const ANSWER_MAX_BYTES = 4 * LIMITS.body_bytes
const IDLE_SOCKETS = 64

export type Transport = { readonly send: Send; readonly close: () => void }

export type TransportOptions = {
  /** Receives the `date` header of every 401, from which a wrong clock is corrected. */
  readonly refusedAt?: (date: string | undefined) => void
  readonly within_ms?: number
}

export function openTransport(
  base: URL,
  { refusedAt, within_ms = ANSWER_WITHIN_MS }: TransportOptions = {},
): Transport {
  const tls = base.protocol === 'https:'
  const options = {
    keepAlive: true,
    noDelay: true,
    maxFreeSockets: IDLE_SOCKETS,
    scheduling: 'lifo',
  } as const
  const agent = tls ? new TlsAgent(options) : new PlainAgent(options)
  const begin = tls ? tlsRequest : plainRequest

  const send: Send = (url, { method, headers, body, signal }) =>
    new Promise((settle, refuse) => {
      const request = begin(url, {
        agent,
        method,
        headers: { ...headers, 'content-length': body?.byteLength ?? 0 },
        ...(signal === undefined ? {} : { signal }),
      })
      const fail = (error: Error): void =>
        refuse(new Unreachable(error.message, { cause: error, stale: request.reusedSocket && !answered }))
      let answered = false
      const timer = setTimeout(
        () => request.destroy(new Error(`no answer within ${within_ms / 1000} s`)),
        within_ms,
      )
      request.once('close', () => clearTimeout(timer))
      request.once('error', fail)
      request.once('response', (answer) => {
        answered = true
        const status = answer.statusCode ?? 0
        if (status === 401) refusedAt?.(answer.headers.date)
        const toResponse = (bytes: Buffer) => ({
          ok: status >= 200 && status < 300,
          json: async () => parsed(bytes.toString('utf8'), status),
          arrayBuffer: async () => new Uint8Array(bytes).buffer,
        })
        collect(answer, (bytes) => settle(toResponse(bytes)), fail)
      })
      request.end(body)
    })

  return { send, close: () => agent.destroy() }
}

function collect(answer: IncomingMessage, done: (bytes: Buffer) => void, fail: (error: Error) => void): void {
  const chunks: Buffer[] = []
  let bytes = 0
  answer.on('data', (chunk: Buffer) => {
    chunks.push(chunk)
    bytes += chunk.byteLength
    if (bytes > ANSWER_MAX_BYTES)
      answer.destroy(new Error(`the answer is longer than ${ANSWER_MAX_BYTES} bytes`))
  })
  answer.once('error', fail)
  answer.once('end', () => done(Buffer.concat(chunks)))
}

/** An answer without JSON does not come from the edge: a proxy's error page, a captive portal. */
function parsed(text: string, status: number): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new Unreachable(`answered ${status} without JSON`, { cause: error })
  }
}
