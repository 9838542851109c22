// Answers a request that has to wait: as server-sent events or as one JSON document, with a comment
// or a blank in between, so that nobody cuts a silent connection. Only a stream that is pulled
// notices in workerd that its client is gone, and only at the second write afterwards: the first
// one makes the client's host refuse.

import { failure } from '../../shared/failures.ts'
import { LIMITS } from '../../shared/limits.ts'
import { UNKNOWN_KEY } from '../http/intake.ts'
import { requestId } from '../http/request-id.ts'
import { headersOf } from '../http/response-headers.ts'
import { logError } from '../platform/error-log.ts'
import type { McpContext } from './context.ts'
import { errorMessage, failureError, type Id } from './rpc.ts'

export type LastMessage = {
  readonly message: string
  /** Called when the message has been written to a client that was still there. */
  readonly received?: () => Promise<unknown>
}

export type Held = {
  readonly id: Id
  /** Notifications, and at the end the answer. */
  readonly messages: AsyncGenerator<string, LastMessage, void>
  /** Called when the client closed the connection before it had the answer. */
  readonly gone: () => Promise<unknown>
  /** Called once, when the request is no longer held. */
  readonly released: () => Promise<unknown>
}

type Context = Pick<McpContext, 'request' | 'accepted' | 'stillCaller'>
type Step = IteratorResult<string, LastMessage>

/** How a kind of response carries messages, and what it sends to show that it is still there. */
type Framing = { readonly type: string; readonly still: string; readonly message: (text: string) => string }
const EVENTS: Framing = { type: 'text/event-stream', still: ':\n\n', message: (text) => `data: ${text}\n\n` }
/** JSON may begin with blanks. */
const DOCUMENT: Framing = { type: 'application/json', still: '\n', message: (text) => text }

/**
 * Before the answer we wait for the refusal of a client that is gone, for a part of the time that
 * the client has waited anyway.
 */
const PROBE_PART = 1 / 10
const PROBE_LEAST_MS = 30
const PROBE_MOST_MS = 250

export function answerHeld({ request, accepted, stillCaller }: Context, held: Held): Response {
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
        .catch((error: unknown) => ({ done: true, value: brokenOff(request, id, error) }))
      const step = await nextOrHeartbeat(next)
      if ((await stillCaller()) === null) {
        send(framing.message(errorMessage(id, failureError(UNKNOWN_KEY))))
        return end()
      }
      if (step === 'heartbeat') return send(framing.still)
      next = undefined
      if (step.done !== true) return send(accepted.stream ? framing.message(step.value) : framing.still)
      last = step.value
      state = 'probed'
      send(framing.still)
    },
    cancel: () => Promise.allSettled([released(), gone()]).then(() => undefined),
  })
  return new Response(stream, { headers: { ...headersOf(framing.type), 'x-accel-buffering': 'no' } })
}

const pause = (ms: number): Promise<void> => new Promise((go) => setTimeout(go, ms))

/** The wait failed, for example because the run's object restarted. The call itself goes on. */
function brokenOff(request: Request, id: Id, error: unknown): LastMessage {
  const request_id = requestId(request)
  logError(error, { request_id })
  const why = failure('internal', `the wait broke off, logged as ${request_id}; ask again to go on waiting`)
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
