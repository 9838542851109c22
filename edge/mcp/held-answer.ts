// Answers a request that has to wait: as server-sent events or as one JSON document. While it waits
// it sends comments or line breaks, so that intermediaries don't close a silent connection. The
// writes also detect a closed client: the first write after the close still succeeds and makes the
// peer reset the connection, so workerd cancels the stream at the second one.

import { failure } from '../../shared/failures.ts'
import { LIMITS } from '../../shared/limits.ts'
import { UNKNOWN_KEY } from '../http/intake.ts'
import { requestId } from '../http/request-id.ts'
import { streamHeaders } from '../http/response-headers.ts'
import { logError } from '../platform/error-log.ts'
import type { McpContext } from './context.ts'
import { errorMessage, failureError, type Id } from './rpc.ts'

export type LastMessage = {
  readonly message: string
  /** Called when the message has been written to a client that was still there. */
  readonly received?: () => Promise<unknown>
}

export type HeldRequest = {
  readonly id: Id
  /** Yields notifications, and returns the answer. */
  readonly messages: AsyncGenerator<string, LastMessage, void>
  /** Called when the client closed the connection before it had the answer. */
  readonly gone: () => Promise<unknown>
  /** Called once, when the request is no longer held. */
  readonly released: () => Promise<unknown>
}

type Context = Pick<McpContext, 'request' | 'accepted' | 'stillCaller'>
type Step = IteratorResult<string, LastMessage>

/** How a kind of response carries messages, and what it sends while there is none. */
type Framing = { readonly type: string; readonly idle: string; readonly message: (text: string) => string }
const EVENTS: Framing = { type: 'text/event-stream', idle: ':\n\n', message: (text) => `data: ${text}\n\n` }
/** JSON may begin with whitespace. */
const DOCUMENT: Framing = { type: 'application/json', idle: '\n', message: (text) => text }

/**
 * How long to wait, before the answer, for a closed client to reset the connection, as a part of
 * the time that the client has already waited.
 */
const PROBE_PART = 1 / 10
const PROBE_LEAST_MS = 30
const PROBE_MOST_MS = 250

export function answerHeld({ request, accepted, stillCaller }: Context, held: HeldRequest): Response {
  const { id, messages, gone, released } = held
  const framing = accepted.stream ? EVENTS : DOCUMENT
  const text = new TextEncoder()
  const since = Date.now()
  let next: Promise<Step> | undefined
  let last: LastMessage | undefined
  let state: 'waiting' | 'probed' | 'answered' = 'waiting'
  const stream = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const send = (frame: string) => controller.enqueue(text.encode(frame))
      const end = async (...work: Array<Promise<unknown> | undefined>) => {
        await Promise.allSettled([released(), ...work])
        controller.close()
      }
      if (state === 'answered') return end(last?.received?.())
      if (state === 'probed' && last !== undefined) {
        await pause(Math.min(Math.max((Date.now() - since) * PROBE_PART, PROBE_LEAST_MS), PROBE_MOST_MS))
        state = 'answered'
        return send(framing.message(last.message))
      }
      next ??= messages
        .next()
        .catch((error: unknown) => ({ done: true, value: interruptedWait(request, id, error) }))
      const step = await nextOrHeartbeat(next)
      if ((await stillCaller()) === null) {
        send(framing.message(errorMessage(id, failureError(UNKNOWN_KEY))))
        return end()
      }
      if (step === 'heartbeat') return send(framing.idle)
      next = undefined
      if (step.done !== true) return send(accepted.stream ? framing.message(step.value) : framing.idle)
      last = step.value
      state = 'probed'
      send(framing.idle)
    },
    cancel: () => Promise.allSettled([released(), gone()]).then(() => undefined),
  })
  return new Response(stream, { headers: streamHeaders(framing.type) })
}

const pause = (ms: number): Promise<void> => new Promise((go) => setTimeout(go, ms))

/** The wait failed, for example because the run's object restarted. The call itself goes on. */
function interruptedWait(request: Request, id: Id, error: unknown): LastMessage {
  const request_id = requestId(request)
  logError(error, { request_id })
  const why = failure(
    'internal',
    `the wait was interrupted, logged as ${request_id}; repeat the request to continue waiting`,
  )
  return { message: errorMessage(id, failureError(why)) }
}

async function nextOrHeartbeat(next: Promise<Step>): Promise<Step | 'heartbeat'> {
  const beat = Promise.withResolvers<'heartbeat'>()
  const timer = setTimeout(() => beat.resolve('heartbeat'), LIMITS.mcp_heartbeat_ms)
  try {
    return await Promise.race([next, beat.promise])
  } finally {
    clearTimeout(timer)
  }
}
