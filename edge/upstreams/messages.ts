// JSON-RPC messages of an upstream's answer: one JSON body, or events of a stream until the
// response. Everything in it is untrusted. The response must name our request; a request of the
// server's own is never answered (U08).

import { type Json, type JsonBounds, parseJson } from '../../shared/bytes/json.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import { MAX_UPSTREAM_LIMITS } from '../../shared/upstream-limits.ts'
import { isObject } from './definition.ts'
import { type HttpAnswer, TooManyBytes } from './requests.ts'

type JsonObject = { readonly [member: string]: Json }
export type RpcError = { readonly code: number; readonly message: string; readonly data: Json }
/** `bytes`: the message as received, which is attested. */
export type Response =
  | { readonly kind: 'result'; readonly result: JsonObject; readonly bytes: Uint8Array }
  | { readonly kind: 'error'; readonly error: RpcError; readonly bytes: Uint8Array }
export type Unreadable = { readonly kind: 'unreadable' | 'too_large' | 'wants_input'; readonly why: string }
export type Notification = { readonly method: string; readonly params: JsonObject }

const BOUNDS: JsonBounds = { bytes: MAX_UPSTREAM_LIMITS.net_bytes, depth: 64, nodes: 200_000 }
const unreadable = (why: string): Result<never, Unreadable> => err({ kind: 'unreadable', why })

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
    const message = messageIn(Buffer.from(data))
    if (!message.ok) return message
    const { method, params } = message.value
    if (typeof method !== 'string') return responseOf(message.value, id, Buffer.from(data)) // leaving the loop closes the stream
    if (!('id' in message.value)) await heard({ method, params: isObject(params) ? params : {} })
    else if (method !== 'ping')
      return err({
        kind: 'wants_input',
        why: `the server sent a request of its own, \`${method.slice(0, 64)}\``,
      })
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
  const message = messageIn(bytes)
  return message.ok ? responseOf(message.value, id, bytes) : message
}

function messageIn(bytes: Uint8Array): Result<JsonObject, Unreadable> {
  const parsed = parseJson(bytes, BOUNDS)
  if (!parsed.ok) return unreadable(`the answer is not JSON that we accept: ${parsed.error.detail}`)
  return isObject(parsed.value) && parsed.value['jsonrpc'] === '2.0'
    ? ok(parsed.value)
    : unreadable('the answer is not one JSON-RPC message')
}

function responseOf(message: JsonObject, id: string, bytes: Uint8Array): Result<Response, Unreadable> {
  const { result, error } = message
  if (error !== undefined && result === undefined && isObject(error)) {
    const { code, message: text, data = null } = error
    const named = message['id'] === id || message['id'] === null || message['id'] === undefined
    if (typeof code === 'number' && typeof text === 'string' && named)
      return ok({ kind: 'error', error: { code, message: text, data }, bytes })
  }
  if (message['id'] !== id) return unreadable('the server answered another request')
  return isObject(result) && error === undefined
    ? ok({ kind: 'result', result, bytes })
    : unreadable('the answer has no result')
}
