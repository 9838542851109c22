// Turns a failure into a problem document (RFC 9457). This is the only place that maps codes to
// statuses.

import type { Failure } from '../../shared/failures.ts'
import { adviceOf, entryOf } from '../../shared/failures.ts'
import { headersOf } from './response-headers.ts'

/** The request that is refused, and the address of the edge, whose `/docs` describes the code. */
export type Occasion = { readonly request_id: string; readonly publicUrl: string }

export function problem(
  failure: Failure,
  { request_id, publicUrl }: Occasion,
  headers: Record<string, string> = {},
): Response {
  const { code, detail, errors, epoch } = failure
  const { status, retry, after_s } = entryOf(code)
  const body = {
    type: `${publicUrl}/docs#problem-${code}`,
    title: code.replaceAll('_', ' '),
    status: httpStatus(status),
    code,
    detail,
    todo: adviceOf(failure),
    retry,
    request_id,
    ...(errors === undefined ? {} : { errors }),
    ...(epoch === undefined ? {} : { epoch }),
  }
  return new Response(JSON.stringify(body), {
    status: httpStatus(status),
    headers: {
      ...headersOf('application/problem+json'),
      ...(status === 401 ? { 'www-authenticate': 'Bearer realm="countersign"' } : {}),
      ...(after_s === undefined ? {} : { 'retry-after': String(after_s) }),
      ...headers,
    },
  })
}

/**
 * A code that only describes how a call ended (status 200) is not a refusal: returning one is our
 * bug.
 */
const httpStatus = (status: number): number => (status === 200 ? 500 : status)
