// Streams a call as server-sent events. The stream reads bounded pieces from the run only as fast
// as the reader consumes them. The id of an event is the position after it. The caller authorizes
// the reader and chooses the form of the events.

import { randomUUID } from 'node:crypto'
import { LIMITS } from '../../shared/limits.ts'
import type { Result } from '../../shared/result.ts'
import { ok } from '../../shared/result.ts'
import type { LiveEvent, LiveState } from '../../shared/wire/output-events.ts'
import type { runObject } from '../bindings.ts'
import type { RunOwner } from '../call/run.ts'
import { streamHeaders } from '../http/response-headers.ts'
import type { OutputPiece, OutputUpdate, StreamPosition } from '../run/output-subscribers.ts'

type CallSubscription = {
  run: ReturnType<typeof runObject>
  n: number
  /** The agent that reads, or `null` for a reader of every agent's calls. */
  agent: RunOwner | null
  /** Streams with the same owner are counted together. */
  owner: string
  /** The reader already has the events up to this position. */
  position: string
  /**
   * Checked before each send: a stream outlives its request, so the current key and policy count.
   */
  mayRead: () => Promise<boolean>
  formatPiece: (piece: OutputPiece) => unknown
  formatState?: (state: LiveState) => unknown
  /** The last event for a reader who may no longer read. */
  lastEvent?: string
}

const unchanged = (state: LiveState): unknown => state

export async function streamCall({
  run,
  n,
  agent,
  owner,
  position,
  mayRead,
  formatPiece,
  formatState = unchanged,
  lastEvent,
}: CallSubscription): Promise<Result<Response>> {
  const subscriber = { id: randomUUID(), owner }
  const first = await run.nextOutput(agent, n, subscriber, parsePosition(position), 0)
  if (!first.ok) return first
  let next: Result<OutputUpdate> | undefined = first
  let reached = parsePosition(position)
  const text = new TextEncoder()
  const leave = () => run.unsubscribe(subscriber)
  const stream = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const send = (...lines: string[]) => controller.enqueue(text.encode(`${lines.join('\n')}\n\n`))
      const news: Result<OutputUpdate> =
        next ?? (await run.nextOutput(agent, n, subscriber, reached, LIMITS.console_wait_ms))
      next = undefined
      if (!news.ok || !(await mayRead())) {
        if (lastEvent !== undefined) send(lastEvent)
        controller.close()
        return leave()
      }
      const { changed, pieces, end } = news.value
      reached = news.value.position
      const at = { ...reached }
      for (const { stream, offset } of pieces) at[stream] = offset
      const sendEvent = (event: LiveEvent['event'], data: unknown) =>
        send(
          `id: ${at.attempt}.${at.stdout}.${at.stderr}`,
          `event: ${event}`,
          `data: ${JSON.stringify(data)}`,
        )
      if (changed && reached.state !== null) sendEvent('state', formatState(reached.state))
      for (const one of pieces) {
        at[one.stream] = reached[one.stream]
        sendEvent(one.stream, formatPiece(one))
      }
      if (!changed && pieces.length === 0 && end === null) send(': still here') // keeps intermediaries from cutting a quiet stream
      if (end === null) return
      sendEvent('end', end)
      controller.close()
      await leave()
    },
    cancel: leave,
  })
  return ok(new Response(stream, { headers: streamHeaders() }))
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/**
 * Encodes a piece as text if it is valid UTF-8, and otherwise as base64, like the result of a call.
 */
export function pieceAsJson({ offset, bytes }: OutputPiece) {
  try {
    return { offset, encoding: 'utf-8', data: utf8.decode(bytes) }
  } catch {
    return { offset, encoding: 'base64', data: Buffer.from(bytes).toString('base64') }
  }
}

/** `position` has passed its schema. */
export function parsePosition(position: string): StreamPosition {
  const [attempt = 0, stdout = 0, stderr = 0] = position.split('.').map(Number)
  return { attempt, stdout, stderr, state: null }
}
