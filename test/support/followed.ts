// A call as somebody follows it: its event stream, and each event by the schema that clients read it by.

import { LIVE_EVENTS } from '../../shared/live-output.ts'
import type { Call } from '../../shared/wire.ts'
import { EventStream, type StreamEvent } from './event-stream.ts'
import { eventually } from './lone-worker.ts'

type Named = Pick<Call, 'run' | 'id'>

export const outputOf = (base: string, { run, id }: Named, after?: string): URL =>
  new URL(`/v1/runs/${run}/calls/${id}/output${after === undefined ? '' : `?after=${after}`}`, base)

export const followCall = (base: string, key: string, call: Named, lastEventId?: string): Promise<EventStream> =>
  EventStream.open(outputOf(base, call), key, lastEventId)

/** Nothing else is sent than what its schema says. */
export function read({ event, data }: StreamEvent): Record<string, unknown> {
  const schema = LIVE_EVENTS[event as keyof typeof LIVE_EVENTS] // of another name there is none, and the parse fails
  return { event, ...schema.parse(JSON.parse(data)) }
}

export const ended = (stream: EventStream) => eventually('the stream ends', () => stream.ended, 30_000)
