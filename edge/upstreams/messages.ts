// The answer of an upstream over HTTP: one JSON body, or events of a stream until the response.
// Everything in it is untrusted (shared/mcp/messages.ts reads the messages).

import {
  isObject,
  type JsonObject,
  parseMessage,
  type Response,
  responseOf,
  serverRequest,
  type Unreadable,
  unreadable,
  wantsInput,
} from '../../shared/mcp/messages.ts'
import type { Result } from '../../shared/result.ts'
import { err } from '../../shared/result.ts'
import { type HttpAnswer, TooManyBytes } from './requests.ts'

export type Notification = { readonly method: string; readonly params: JsonObject }

export async function readResponse(
  { headers, body }: Pick<HttpAnswer, 'headers' | 'body'>,
  id: string,
  heard: (notification: Notification) => Promise<void>,
): Promise<Result<Response, Unreadable>> {
  const [type = ''] = (headers.get('content-type') ?? '').toLowerCase().split(';')
  try {
    if (type.trim() === 'application/json') return responseIn(await wholeOf(body), id)
    if (type.trim() === 'text/event-stream') return await fromStream(body, id, heard)
    return unreadable('the answer is neither JSON nor an event stream')
  } catch (thrown) {
    if (thrown instanceof TooManyBytes) return err({ kind: 'too_large', why: thrown.message })
    return unreadable('the answer ended early')
  }
}

async function wholeOf(body: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  const chunks: Uint8Array[] = []
  for await (const chunk of body) chunks.push(chunk)
  return Buffer.concat(chunks)
}

async function fromStream(
  body: AsyncIterable<Uint8Array>,
  id: string,
  heard: (notification: Notification) => Promise<void>,
): Promise<Result<Response, Unreadable>> {
  for await (const data of eventsIn(body)) {
    const message = parseMessage(Buffer.from(data))
    if (!message.ok) return message
    const { method, params } = message.value
    if (typeof method !== 'string') return responseOf(message.value, id, Buffer.from(data)) // leaving the loop closes the stream
    const wanted = serverRequest(message.value)
    if (wanted !== undefined) return wantsInput(wanted)
    if (!('id' in message.value)) await heard({ method, params: isObject(params) ? params : {} })
  }
  return unreadable('the stream ended without an answer')
}

const LINE_END = /\r\n|\n|\r(?!$)/

/** The data of each event. Ids, names, retry times and comments are ignored. */
async function* eventsIn(body: AsyncIterable<Uint8Array>): AsyncIterable<string> {
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: false })
  let unfinished: string[] = [] // joined only at a line's end: a server may send single bytes
  let data: string[] = []
  for await (const chunk of body) {
    const text = decoder.decode(chunk, { stream: true })
    unfinished.push(text)
    if (!LINE_END.test(text)) continue
    const lines = unfinished.join('').split(LINE_END)
    unfinished = [lines.pop() ?? '']
    for (const line of lines) {
      if (line.startsWith('data:')) data.push(line.slice(line.startsWith('data: ') ? 6 : 5))
      if (line !== '' || data.length === 0) continue
      const text = data.join('\n')
      data = []
      if (text !== '') yield text
    }
  }
}

const responseIn = (bytes: Uint8Array, id: string): Result<Response, Unreadable> => {
  const message = parseMessage(bytes)
  return message.ok ? responseOf(message.value, id, bytes) : message
}
