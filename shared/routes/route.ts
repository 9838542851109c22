// What a route is: the shape of an entry in the tables beside this file, and the pieces that many of them share.

import { z } from 'zod'
import type { Code } from '../failures.ts'
/**
 * agent, operator: by API key. console: an operator, by the session of a browser. worker: by signature. link: by the token in the path.
 * slack: by Slack's signature over the body. installation: the operator of the installation, by its key. anyone: open.
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
  readonly callers: readonly Caller[]
  /** The Cedar action; `null` only where the caller is anyone, or where the decision is the route's own work. */
  readonly action: string | null
  readonly summary: string
  readonly params?: z.ZodObject
  readonly query?: z.ZodObject
  readonly body?: z.ZodType
  /** The body is bytes as they are, of `Bytes`, and no JSON. */
  readonly raw?: true
  /** Headers that it reads, by their names in lower case. */
  readonly headers?: z.ZodObject
  /** Where a body may be larger than others. */
  readonly body_bytes?: number
  readonly status: number
  readonly result: z.ZodType
  /** What a stream sends: the data of each event, by its name. */
  readonly events?: Readonly<Record<string, z.ZodType>>
  readonly failures: readonly Code[]
  /** Where the answer is not JSON. */
  readonly media?:
    | 'application/octet-stream'
    | 'text/event-stream'
    | 'text/html'
    | 'text/plain'
    | 'application/openapi+json'
}

export const Bytes = z.custom<Uint8Array<ArrayBuffer>>((value) => value instanceof Uint8Array)
/** Server-sent events, as they come: what the typed client hands out of a stream. */
export const Events = z.custom<ReadableStream<Uint8Array>>((value) => value instanceof ReadableStream)

export const routes = <const T extends Record<string, Route>>(table: T): T => table

export const list = <T extends z.ZodType>(item: T) => z.strictObject({ items: z.array(item) })
/** A whole number in a query. */
export const number = (max: number) => z.coerce.number().int().min(0).max(max)
