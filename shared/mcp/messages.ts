// JSON-RPC messages of an MCP server. Everything in them is untrusted; a response must name our
// request. The edge and the worker read the answers of servers through this file.

import { type Json, type JsonBounds, parseJson } from '../bytes/json.ts'
import type { Result } from '../result.ts'
import { err, ok } from '../result.ts'
import { MAX_UPSTREAM_LIMITS } from '../upstream-limits.ts'

export type JsonObject = { readonly [member: string]: Json }
export type RpcError = { readonly code: number; readonly message: string; readonly data: Json }
/** `bytes`: the message as received, which is attested. */
export type Response =
  | { readonly kind: 'result'; readonly result: JsonObject; readonly bytes: Uint8Array }
  | { readonly kind: 'error'; readonly error: RpcError; readonly bytes: Uint8Array }
/** `wants_input`: the server sent a request of its own, which we never answer (U08). */
export type Unreadable = { readonly kind: 'unreadable' | 'too_large' | 'wants_input'; readonly why: string }

const BOUNDS: JsonBounds = { bytes: MAX_UPSTREAM_LIMITS.net_bytes, depth: 64, nodes: 200_000 }

export const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

export const unreadable = (why: string): Result<never, Unreadable> => err({ kind: 'unreadable', why })

export function parseMessage(bytes: Uint8Array): Result<JsonObject, Unreadable> {
  const parsed = parseJson(bytes, BOUNDS)
  if (!parsed.ok) return unreadable(`the answer is not JSON that we accept: ${parsed.error.detail}`)
  return isObject(parsed.value) && parsed.value['jsonrpc'] === '2.0'
    ? ok(parsed.value)
    : unreadable('the answer is not one JSON-RPC message')
}

/** The method of a request that the server sends us; undefined for any other message. */
export const serverRequest = ({ method, id }: JsonObject): string | undefined =>
  typeof method === 'string' && id !== undefined && method !== 'ping' ? method.slice(0, 64) : undefined

export const wantsInput = (method: string): Result<never, Unreadable> =>
  err({ kind: 'wants_input', why: `the server sent a request of its own, \`${method}\`` })

export function responseOf(message: JsonObject, id: string, bytes: Uint8Array): Result<Response, Unreadable> {
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
