// A call as server-sent events, for whoever follows it: read from its run a piece at a time, as fast as the reader takes them and no faster.
// Each event's id is the position behind it. Who may read, and in what words the output is told, is the caller's to say.

import { randomUUID } from 'node:crypto'
import { LIMITS } from '../../shared/limits.ts'
import type { Result } from '../../shared/result.ts'
import { ok } from '../../shared/result.ts'
import type { LiveEvent, LiveState } from '../../shared/wire/output-events.ts'
import type { runObject } from '../bindings.ts'
import { headersOf } from '../http/response-headers.ts'
import type { Heard, LivePiece, News } from '../run/output-subscribers.ts'

type Followed = {
  run: ReturnType<typeof runObject>
  n: number
  /** The agent that follows, or `null`: somebody who may read every agent's. */
  agent: string | null
  whose: string
  /** What has been heard already. */
  position: string
  /** Asked before anything is told: a stream outlives its request, so the key and the policy of now count. */
  still: () => Promise<boolean>
  piece: (piece: LivePiece) => unknown
  state?: (state: LiveState) => unknown
  /** Told last to who may not read it any more. */
  farewell?: string
}

const same = (state: LiveState): unknown => state

export async function outputStream({
  run,
  n,
  agent,
  whose,
  position,
  still,
  piece,
  state = same,
  farewell,
}: Followed): Promise<Result<Response>> {
  const listener = { id: randomUUID(), whose }
  const first = await run.hear(agent, n, listener, heardAt(position), 0)
  if (!first.ok) return first
  let next: Result<News> | undefined = first
  let heard = heardAt(position)
  const text = new TextEncoder()
  const leave = () => run.unfollow(listener)
  const stream = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const send = (...lines: string[]) => controller.enqueue(text.encode(`${lines.join('\n')}\n\n`))
      const news: Result<News> = next ?? (await run.hear(agent, n, listener, heard, LIMITS.console_wait_ms))
      next = undefined
      if (!news.ok || !(await still())) {
        if (farewell !== undefined) send(farewell)
        controller.close()
        return leave()
      }
      const { changed, pieces, end } = news.value
      heard = news.value.heard
      const at = { ...heard }
      for (const { stream, offset } of pieces) at[stream] = offset
      const told = (event: LiveEvent['event'], data: unknown) =>
        send(
          `id: ${at.attempt}.${at.stdout}.${at.stderr}`,
          `event: ${event}`,
          `data: ${JSON.stringify(data)}`,
        )
      if (changed && heard.state !== null) told('state', state(heard.state))
      for (const one of pieces) {
        at[one.stream] = heard[one.stream]
        told(one.stream, piece(one))
      }
      if (!changed && pieces.length === 0 && end === null) send(': still here') // keeps intermediaries from cutting a quiet stream
      if (end === null) return
      told('end', end)
      controller.close()
      await leave()
    },
    cancel: leave,
  })
  return ok(
    new Response(stream, { headers: { ...headersOf('text/event-stream'), 'x-accel-buffering': 'no' } }),
  )
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** Text where it is some, as results are told. */
export function inJson({ offset, bytes }: LivePiece) {
  try {
    return { offset, encoding: 'utf-8', data: utf8.decode(bytes) }
  } catch {
    return { offset, encoding: 'base64', data: Buffer.from(bytes).toString('base64') }
  }
}

/** From a position that its schema has read. */
export function heardAt(position: string): Heard {
  const [attempt = 0, stdout = 0, stderr = 0] = position.split('.').map(Number)
  return { attempt, stdout, stderr, state: null }
}
