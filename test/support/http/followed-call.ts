// A call as somebody follows it: its event stream, and each event by the schema that clients read it by.

import type { Call } from '../../../shared/wire/calls.ts'
import { LIVE_EVENTS } from '../../../shared/wire/output-events.ts'
import { eventually } from '../eventually.ts'
import { EventStream, type StreamEvent } from './event-stream.ts'

type Named = Pick<Call, 'run' | 'id'>

export const outputOf = (base: string, { run, id }: Named, after?: string): URL =>
  new URL(`/v1/runs/${run}/calls/${id}/output${after === undefined ? '' : `?after=${after}`}`, base)

export const followCall = (
  base: string,
  key: string,
  call: Named,
  lastEventId?: string,
): Promise<EventStream> => EventStream.open(outputOf(base, call), key, lastEventId)

/** Nothing else is sent than what its schema says. */
export function read({ event, data }: StreamEvent): Record<string, unknown> {
  const schema = LIVE_EVENTS[event as keyof typeof LIVE_EVENTS] // of another name there is none, and the parse fails
  return { event, ...schema.parse(JSON.parse(data)) }
}

/** What the events say that a stream was, each piece where it says that it stands: none is missing, and none comes twice. */
export function joined(events: readonly StreamEvent[], name: 'stdout' | 'stderr'): Buffer {
  let all = Buffer.alloc(0)
  for (const { event, data } of events) {
    if (event !== name) continue
    const piece = LIVE_EVENTS[name].parse(JSON.parse(data))
    if (piece.offset !== all.byteLength)
      throw new Error(`${name} goes on at ${piece.offset}, and ${all.byteLength} bytes had come`)
    all = Buffer.concat([all, Buffer.from(piece.data, piece.encoding === 'base64' ? 'base64' : 'utf8')])
  }
  return all
}

export const ended = (stream: EventStream) => eventually('the stream ends', () => stream.ended, 30_000)
