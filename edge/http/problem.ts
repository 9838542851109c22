// Failures as the wire sees them (RFC 9457): the one place where a code becomes a status.

import type { Failure } from '../../shared/failures.ts'
import { FAILURES } from '../../shared/failures.ts'
import { headersOf } from './response-headers.ts'

export function problem(
  { code, detail, errors, epoch }: Failure,
  headers: Record<string, string> = {},
): Response {
  const { status, todo, retry } = FAILURES[code]
  const body = {
    type: `https://countersign.dev/problems/${code}`,
    title: code.replaceAll('_', ' '),
    status: httpStatus(status),
    code,
    detail,
    todo,
    retry,
    ...(errors === undefined ? {} : { errors }),
    ...(epoch === undefined ? {} : { epoch }),
  }
  return new Response(JSON.stringify(body), {
    status: httpStatus(status),
    headers: {
      ...headersOf('application/problem+json'),
      ...(status === 401 ? { 'www-authenticate': 'Bearer realm="countersign"' } : {}),
      ...(isForNow(status) ? { 'retry-after': '1' } : {}),
      ...headers,
    },
  })
}

/** Codes that only tell how a call ended are no refusals; one that gets here is a bug of ours. */
const httpStatus = (status: number): number => (status === 200 ? 500 : status)

/** What is refused for now is told when to try again. */
export const isForNow = (status: number): boolean => status === 503 || status === 429
