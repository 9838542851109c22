// Answers a request that has to wait: as server-sent events with comments in between, so that we
// notice a client that is gone and nobody cuts a silent connection, or as one JSON document. Only a
// stream that is pulled notices in workerd that its client is gone, and only at its next write.

import { waitUntil } from 'cloudflare:workers'
import { randomUUID } from 'node:crypto'
import { failure } from '../../shared/failures.ts'
import { LIMITS } from '../../shared/limits.ts'
import { UNKNOWN_KEY } from '../http/intake.ts'
import { headersOf } from '../http/response-headers.ts'
import { logError } from '../platform/error-log.ts'
import type { McpContext } from './context.ts'
import { errorMessage, failureError, type Id, jsonAnswer } from './rpc.ts'

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

type Context = Pick<McpContext, 'accepted' | 'stillCaller'>
type Step = IteratorResult<string, LastMessage>

export const answerHeld = (context: Context, held: Held): Response | Promise<Response> =>
  context.accepted.stream ? streamed(context, held) : collected(context, held)

/** The wait failed, for example because the run's object restarted. The call itself goes on. */
function brokenOff(id: Id, error: unknown): LastMessage {
  const instance = randomUUID()
  logError(instance, error)
  const why = failure('internal', `the wait broke off, logged as ${instance}; ask again to go on waiting`)
  return { message: errorMessage(id, failureError(why)) }
}

const refused = (id: Id): string => errorMessage(id, failureError(UNKNOWN_KEY))

function streamed({ stillCaller }: Context, { id, messages, gone, released }: Held): Response {
  const text = new TextEncoder()
  let next: Promise<Step> | undefined
  let last: LastMessage | undefined
  let written = false
  const stream = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const send = (lines: string) => controller.enqueue(text.encode(`${lines}\n\n`))
      const end = async (...work: Array<Promise<unknown> | undefined>) => {
        await Promise.allSettled([released(), ...work])
        controller.close()
      }
      if (written) return end(last?.received?.())
      if (last !== undefined) {
        written = true // if the comment can be written, so could the answer before it
        return send(':')
      }
      next ??= messages.next().catch((error: unknown) => ({ done: true, value: brokenOff(id, error) }))
      const step = await nextOrHeartbeat(next)
      if ((await stillCaller()) === null) {
        send(`data: ${refused(id)}`)
        return end()
      }
      if (step === 'heartbeat') return send(':')
      next = undefined
      if (step.done === true) last = step.value
      send(`data: ${step.done === true ? step.value.message : step.value}`)
    },
    cancel: () => Promise.allSettled([released(), gone()]).then(() => undefined),
  })
  return new Response(stream, { headers: { ...headersOf('text/event-stream'), 'x-accel-buffering': 'no' } })
}

/** Nobody notices that such a client is gone: it receives no byte before the answer. */
async function collected({ stillCaller }: Context, { id, messages, released }: Held): Promise<Response> {
  try {
    for (let next = messages.next(); ; ) {
      const step = await nextOrHeartbeat(next)
      if ((await stillCaller()) === null) return jsonAnswer(refused(id), 401)
      if (step === 'heartbeat') continue
      if (step.done === true) {
        const { message, received } = step.value
        if (received !== undefined) waitUntil(received())
        return jsonAnswer(message)
      }
      next = messages.next()
    }
  } finally {
    waitUntil(released())
  }
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
