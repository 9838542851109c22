// Follows a call's event stream, and parses each event with the schema that clients use.

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

/** The edge sends no fields that the schema lacks. */
export function read({ event, data }: StreamEvent): Record<string, unknown> {
  const schema = LIVE_EVENTS[event as keyof typeof LIVE_EVENTS] // an event with an unknown name fails the parse
  return { event, ...schema.parse(JSON.parse(data)) }
}

/** Joins the pieces of a stream by their positions. Throws if one is missing or arrives twice. */
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
