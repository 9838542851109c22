// The errors that the client throws: `ProblemError` if the edge refused a request,
// `ConnectionError` if no usable answer came. A call that was denied or failed is not an error; it
// is a call with that state.

import type { Code } from './api.ts'

/** A field of the request that was refused. `at` is its path. */
export type FieldError = { readonly at: string; readonly message: string; readonly hint?: string }

/** The body of a refusal (RFC 9457). Only what we use is read, so a newer edge may send more. */
type Problem = {
  readonly code: string
  readonly detail: string
  readonly todo: string
  readonly retry: boolean
  readonly errors: readonly FieldError[]
}

export class CountersignError extends Error {
  override readonly name: string = 'CountersignError'
}

/** The edge answered, and refused. */
export class ProblemError extends CountersignError {
  override readonly name = 'ProblemError'
  readonly status: number
  /** Stable. `unknown` if the answer was not from an edge, but from something in between. */
  readonly code: Code | 'unknown'
  readonly detail: string
  /** Advice on what to do next. */
  readonly todo: string
  /** Whether the same request can succeed later. The client has already tried again. */
  readonly retry: boolean
  readonly retryAfterMs: number | undefined
  readonly errors: readonly FieldError[]
  /** Names this request in the edge's log. */
  readonly requestId: string | undefined

  constructor(response: Response, problem: Problem) {
    super(`${problem.code}: ${problem.detail}${problem.todo === '' ? '' : ` (${problem.todo})`}`)
    this.status = response.status
    this.code = problem.code as Code | 'unknown' // a code that a newer edge has is kept as it is
    this.detail = problem.detail
    this.todo = problem.todo
    this.retry = problem.retry
    this.retryAfterMs = retryAfterOf(response.headers.get('retry-after'))
    this.errors = problem.errors
    this.requestId = response.headers.get('request-id') ?? undefined
  }
}

/** The edge could not be reached, or what answered was not an edge. */
export class ConnectionError extends CountersignError {
  override readonly name = 'ConnectionError'
}

/** Statuses with which an intermediary says that a later attempt may succeed. */
const PASSING: ReadonlySet<number> = new Set([408, 429, 502, 503, 504])
const MAX_PROBLEM_CHARS = 65_536

export async function problemOf(response: Response): Promise<ProblemError> {
  const body = await parsed(response)
  const text = (value: unknown): string => (typeof value === 'string' ? value : '')
  const known = body !== undefined && typeof body['code'] === 'string'
  return new ProblemError(response, {
    code: known ? text(body['code']) : 'unknown',
    detail: known ? text(body['detail']) : `the answer has status ${response.status} and no problem document`,
    todo: known ? text(body['todo']) : 'check the address of the edge and any proxy in front of it',
    retry: known ? body['retry'] === true : PASSING.has(response.status),
    errors: Array.isArray(body?.['errors']) ? (body['errors'] as FieldError[]) : [], // the edge's own form
  })
}

async function parsed(response: Response): Promise<Record<string, unknown> | undefined> {
  if (!(response.headers.get('content-type') ?? '').includes('json')) {
    await response.body?.cancel()
    return undefined
  }
  try {
    const text = await response.text()
    const value: unknown = text.length > MAX_PROBLEM_CHARS ? undefined : JSON.parse(text)
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined // checked here
  } catch {
    return undefined
  }
}

/** `Retry-After` is a number of seconds or a date. */
function retryAfterOf(header: string | null): number | undefined {
  if (header === null) return undefined
  const ms = /^[0-9]{1,6}$/.test(header) ? Number(header) * 1_000 : Date.parse(header) - Date.now()
  return Number.isFinite(ms) ? Math.max(0, ms) : undefined
}
