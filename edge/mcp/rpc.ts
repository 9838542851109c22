// Answers in JSON-RPC: results by era, errors with their HTTP status, and our failures as errors.

import { adviceOf, entryOf, type Failure } from '../../shared/failures.ts'
import { headersOf } from '../http/response-headers.ts'
import { type Era, META, RPC, SERVER_INFO } from './protocol.ts'

export type Id = string | number
export type RpcError = {
  readonly status: number
  readonly code: number
  readonly message: string
  readonly data?: Readonly<Record<string, unknown>>
}

export const rpcError = (
  status: number,
  code: number,
  message: string,
  data?: Readonly<Record<string, unknown>>,
): RpcError => ({ status, code, message, ...(data === undefined ? {} : { data }) })

/** A fault in the parameters. Its status keeps clients from retrying with an older revision. */
export const invalidParams = (message: string): RpcError => rpcError(200, RPC.invalidParams, message)

export type Result = Readonly<Record<string, unknown>> & {
  readonly _meta?: Readonly<Record<string, unknown>>
}

/** A result in its era's form: only a modern result names its type and the server. */
export const resultFor = (era: Era, result: Result): Result =>
  era === 'legacy'
    ? result
    : { resultType: 'complete', ...result, _meta: { ...result._meta, [META.serverInfo]: SERVER_INFO } }

export const resultMessage = (id: Id, result: Result): string =>
  JSON.stringify({ jsonrpc: '2.0', id, result })

export const errorMessage = (id: Id | null, { code, message, data }: RpcError): string =>
  JSON.stringify({ jsonrpc: '2.0', id, error: { code, message, ...(data === undefined ? {} : { data }) } })

export const notification = (method: string, params: Readonly<Record<string, unknown>>): string =>
  JSON.stringify({ jsonrpc: '2.0', method, params })

export const jsonAnswer = (text: string, status = 200, headers: Record<string, string> = {}): Response =>
  new Response(text, { status, headers: { ...headersOf('application/json'), ...headers } })

export const errorAnswer = (id: Id | null, error: RpcError): Response =>
  jsonAnswer(errorMessage(id, error), error.status)

/**
 * A failure as an error. The code is the HTTP status that the same failure has in our own API: a
 * positive number, because the negative ones belong to the specification.
 */
export function failureError(failure: Failure): RpcError {
  const { code, detail, errors } = failure
  const { status, retry } = entryOf(code)
  const own = status === 200 ? 500 : status
  return rpcError(own, own >= 500 ? RPC.internal : own, `${detail}; ${adviceOf(failure)}`, {
    code,
    retry,
    ...(errors === undefined ? {} : { errors }),
  })
}

/**
 * The answer to a request that is refused before its message is read. It has the status and headers
 * that our own API would answer with.
 */
export function refusedRequest(failure: Failure, { status, headers: own }: Response): Response {
  const headers = new Headers(own)
  headers.set('content-type', 'application/json')
  return new Response(errorMessage(null, failureError(failure)), { status, headers })
}
