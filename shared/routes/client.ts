// The typed client for every route of `all.ts`, used by the CLI, the worker and the tests.

import type { z } from 'zod'
import type { Code, FieldError } from '../failures.ts'
import type { Result } from '../result.ts'
import { err, ok } from '../result.ts'
import type { RouteName, Routes } from './all.ts'
import { ROUTES } from './all.ts'
import type { Route } from './route.ts'

/** A response that is not a success (RFC 9457). */
export type Problem = {
  status: number
  code: Code
  detail: string
  todo?: string
  errors?: FieldError[]
  epoch?: string
}

type Part<R extends Route, K extends 'params' | 'query' | 'body'> = R[K] extends z.ZodType
  ? z.input<R[K]>
  : undefined
type OptionalIfEmpty<K extends string, T> = undefined extends T
  ? { [P in K]?: T }
  : Record<never, never> extends T
    ? { [P in K]?: T }
    : { [P in K]: T }
export type Input<N extends RouteName> = OptionalIfEmpty<'params', Part<Routes[N], 'params'>> &
  OptionalIfEmpty<'query', Part<Routes[N], 'query'>> &
  OptionalIfEmpty<'body', Part<Routes[N], 'body'>> & {
    headers?: RouteHeaders<Routes[N]>
    wait?: number
    signal?: AbortSignal
  }
/** The headers that the route declares, and any others. */
type RouteHeaders<R extends Route> = Record<string, string> &
  (R extends { headers: z.ZodType } ? z.input<R['headers']> : unknown)
export type Output<N extends RouteName> = z.output<Routes[N]['result']>

/**
 * Returns the headers that authenticate a request: an API key, or a worker's signature over the
 * whole request.
 */
export type Credentials = (request: { method: string; url: URL; body: Uint8Array }) => Record<string, string>
export const bearer =
  (key: string): Credentials =>
  () => ({ authorization: `Bearer ${key}` })

/**
 * Sends a request without following redirects: `fetch`, or a leaner client that keeps connections
 * open.
 */
export type Send = (
  url: URL,
  request: {
    method: string
    redirect: 'error'
    headers: Record<string, string>
    body?: Uint8Array<ArrayBuffer>
    signal?: AbortSignal
  },
) => Promise<{
  readonly ok: boolean
  json(): Promise<unknown>
  arrayBuffer(): Promise<ArrayBuffer>
  readonly body?: ReadableStream<Uint8Array> | null
}>

export type Client = <N extends RouteName>(name: N, input: Input<N>) => Promise<Result<Output<N>, Problem>>

export function client(base: string, credentials: Credentials = () => ({}), send: Send = fetch): Client {
  return async (name, input) => {
    const route: Route = ROUTES[name]
    const { params, query, body, headers, wait, signal } = input as {
      // TypeScript can't resolve the mapped type for a generic `N`
      params?: Record<string, string>
      query?: Record<string, unknown>
      body?: unknown
      headers?: Record<string, string>
      wait?: number
      signal?: AbortSignal
    }
    const url = new URL(
      route.path.replace(/\{(\w+)\}/g, (_, key: string) => encoded(params?.[key] ?? '', route)),
      base,
    )
    for (const [key, value] of Object.entries(query ?? {})) url.searchParams.set(key, String(value))
    const bytes =
      body instanceof Uint8Array
        ? Buffer.from(body)
        : Buffer.from(body === undefined ? '' : JSON.stringify(body))
    const answer = await send(url, {
      method: route.method,
      redirect: 'error',
      ...(signal === undefined ? {} : { signal }),
      ...(body === undefined ? {} : { body: bytes }),
      headers: {
        ...(body === undefined
          ? {}
          : { 'content-type': route.raw ? 'application/octet-stream' : 'application/json' }),
        ...(wait === undefined ? {} : { prefer: `wait=${wait}` }),
        ...credentials({ method: route.method, url, body: bytes }),
        ...headers,
      },
    })
    if (answer.ok && route.media === 'text/event-stream') return ok(answer.body as Output<typeof name>) // an event stream has a body
    const value: unknown = await (answer.ok ? contentOf(answer, route) : answer.json())
    return answer.ok ? ok(value as Output<typeof name>) : err(value as Problem) // the edge validated what it sent
  }
}

/** No parameter contains a slash, except for the last one of a route with `rest`. */
const encoded = (param: string, { rest }: Route): string =>
  rest === true ? param.split('/').map(encodeURIComponent).join('/') : encodeURIComponent(param)

async function contentOf(answer: Awaited<ReturnType<Send>>, { media }: Route): Promise<unknown> {
  if (media === undefined) return answer.json()
  const bytes = new Uint8Array(await answer.arrayBuffer())
  return media === 'application/octet-stream' ? bytes : new TextDecoder().decode(bytes)
}
