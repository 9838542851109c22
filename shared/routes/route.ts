// The type of a route, i.e. of an entry in the tables beside this file, and schemas that many
// share.

import { z } from 'zod'
import type { Code } from '../failures.ts'
import { Name } from '../fields.ts'
import { LIMITS } from '../limits.ts'

/**
 * How a caller authenticates. `agent`, `operator`: API key. `console`: an operator's browser
 * session. `worker`: HTTP signature. `link`: the token in the path. `slack`: Slack's signature over
 * the body. `installation`: the key of the installation's operator. `anyone`: not at all.
 */
export type Caller =
  | 'agent'
  | 'operator'
  | 'console'
  | 'worker'
  | 'link'
  | 'slack'
  | 'installation'
  | 'anyone'

export type Route = {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  readonly path: string
  /** The last parameter is the rest of the path and may have slashes. OpenAPI has no term for that. */
  readonly rest?: true
  readonly callers: readonly Caller[]
  /**
   * The Cedar action; `null` only if the caller is `anyone` or if the route itself asks the policy.
   */
  readonly action: string | null
  readonly summary: string
  readonly params?: z.ZodObject
  readonly query?: z.ZodObject
  readonly body?: z.ZodType
  /** The body is raw bytes (`Bytes`), not JSON. */
  readonly raw?: true
  /** Headers that the route reads, by lower-case name. */
  readonly headers?: z.ZodObject
  /** The largest body, if this route accepts more than others. */
  readonly body_bytes?: number
  readonly status: number
  /** The status is 202 as long as the result lacks this field. */
  readonly pending_until?: string
  /** The path of what 201 and 202 are about, with fields of the result in braces. */
  readonly location?: string
  /**
   * Standard headers of requests that the verb reads: `Idempotency-Key`, `Prefer: wait=N`,
   * `Last-Event-ID`.
   */
  readonly reads?: readonly ('idempotency-key' | 'prefer' | 'last-event-id')[]
  readonly result: z.ZodType
  /** For an event stream: the data of each event, by its name. */
  readonly events?: Readonly<Record<string, z.ZodType>>
  readonly failures: readonly Code[]
  /**
   * Refusals in the form of the route's protocol. The hook's are documents with status 200, because
   * its reader takes any other status for a failure of the hook and goes on; the header `REFUSAL`
   * names the code.
   */
  readonly refusals?: 'claude-code-hook' | 'json-rpc'
  /** The media type of the response, if it isn't JSON. */
  readonly media?:
    | 'application/octet-stream'
    | 'text/event-stream'
    | 'text/html'
    | 'text/plain'
    | 'application/openapi+json'
    | 'application/schema+json'
}

/** The header with the code of a refusal that is answered with status 200. */
export const REFUSAL = 'countersign-refusal'

export const Bytes = z.custom<Uint8Array<ArrayBuffer>>((value) => value instanceof Uint8Array)
/** A stream of server-sent events, which the typed client returns unparsed. */
export const Events = z.custom<ReadableStream<Uint8Array>>((value) => value instanceof ReadableStream)

export const routes = <const T extends Record<string, Route>>(table: T): T => table

export const list = <T extends z.ZodType>(item: T) => z.strictObject({ items: z.array(item) })
/**
 * One page of a list that is too long for one answer. `next`: the cursor of the next page, if there
 * is one.
 */
export const paged = <T extends z.ZodType>(item: T) =>
  z.strictObject({ items: z.array(item), next: z.string().nullable() })
/** The query of a paged list, newest first. An agent lists only its own items. */
export const Paging = z.strictObject({
  agent: Name.optional(),
  /** Created at this time or later, in milliseconds since 1970. */
  since: z.coerce.number().int().min(0).max(Number.MAX_SAFE_INTEGER).optional(),
  limit: z.coerce.number().int().min(1).max(LIMITS.page).default(LIMITS.page),
  /** `next` of the previous page. */
  cursor: z
    .string()
    .regex(/^[1-9][0-9]{0,15}$/, 'is not a cursor; send `next` of the previous page')
    .transform(Number)
    .optional(),
})
/** A whole number in a query. */
export const number = (max: number) => z.coerce.number().int().min(0).max(max)
