// The answer of a route in JSON. The route's entry in the table says when it is 202, and which
// address 201 and 202 name in `Location`.

import type { Route } from '../../shared/routes/route.ts'
import { headersOf } from './response-headers.ts'

export function jsonAnswer({ status, pending_until, location }: Route, value: unknown): Response {
  const fields = value as Record<string, unknown> // results are objects
  const isPending = pending_until !== undefined && fields[pending_until] === undefined
  const made = isPending || status === 201 ? location : undefined
  return new Response(JSON.stringify(value), {
    status: isPending ? 202 : status,
    headers: {
      ...headersOf('application/json'),
      ...(made === undefined
        ? {}
        : { location: made.replace(/\{(\w+)\}/g, (_, name) => String(fields[name])) }),
    },
  })
}
