// The edge as commands see it: checks input before sending it, checks answers against the route's
// schema, and turns every failure into a `Trouble`.

import type { z } from 'zod'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { RouteName } from '../../shared/routes/all.ts'
import { ROUTES } from '../../shared/routes/all.ts'
import type { Input, Output, Problem } from '../../shared/routes/client.ts'
import { bearer, client } from '../../shared/routes/client.ts'
import type { Route } from '../../shared/routes/route.ts'
import { inOneLine, readAs } from '../../shared/schema/field-errors.ts'
import type { Trouble } from './command.ts'
import { trouble, usage } from './command.ts'
import type { Config } from './config.ts'

export type Api = <N extends RouteName>(name: N, input: Input<N>) => Promise<Result<Output<N>, Trouble>>

/** The timeout for an answer, in addition to the time that the request asks the edge to wait. */
const ANSWER_TIMEOUT_MS = 30_000

export function connect({ url, key }: Config): Api {
  const send = key === undefined ? client(url) : client(url, bearer(key))
  return async (name, input) => {
    const route: Route = ROUTES[name]
    const fault = firstInputFault(route, input)
    if (fault !== undefined) return err(usage(fault))
    const timeout = new AbortController()
    const late = () => timeout.abort(new DOMException('no answer in time', 'TimeoutError'))
    const timer = setTimeout(late, ANSWER_TIMEOUT_MS + (input.wait ?? 0) * 1000)
    const signal =
      input.signal === undefined ? timeout.signal : AbortSignal.any([timeout.signal, input.signal])
    let answer: Awaited<ReturnType<typeof send<typeof name>>>
    try {
      answer = await send(name, { ...input, signal })
    } catch (thrown) {
      return err(transportTrouble(url, thrown))
    } finally {
      clearTimeout(timer) // only the start of an answer has a deadline; a stream may last longer
    }
    if (!answer.ok) return err(troubleOf(answer.error))
    const read = route.result.safeParse(answer.value)
    // A newer edge may send fields that we don't know; the fields that we do know must be valid.
    const other = read.error?.issues.some(({ code }) => code !== 'unrecognized_keys') ?? false
    if (other)
      return err(
        trouble(
          'unexpected_answer',
          `this version of countersign does not understand the answer of ${url}`,
          'use the countersign version that belongs to this edge',
        ),
      )
    return read.success ? ok(read.data as Output<typeof name>) : answer // the route's own schema read it
  }
}

function firstInputFault(
  route: Route,
  input: { params?: unknown; query?: unknown; body?: unknown },
): string | undefined {
  for (const part of ['params', 'query', 'body'] as const) {
    const schema: z.ZodType | undefined = route[part]
    const read =
      schema === undefined ? undefined : readAs(schema, input[part] ?? (part === 'body' ? undefined : {}))
    if (read?.ok === false) return inOneLine(read.error.slice(0, 1))
  }
  return undefined
}

function transportTrouble(url: string, thrown: unknown): Trouble {
  if (thrown instanceof SyntaxError)
    return trouble(
      'unexpected_answer',
      `the answer of ${url} is not JSON`,
      'check that COUNTERSIGN_URL is the address of a Countersign edge',
    )
  if (thrown instanceof DOMException && thrown.name === 'AbortError')
    return trouble('interrupted', 'interrupted')
  if (thrown instanceof DOMException && thrown.name === 'TimeoutError')
    return trouble('timed_out', `${url} did not answer in time`, 'try again')
  if (thrown instanceof TypeError)
    return trouble(
      'unreachable',
      `no edge answers at ${url}`,
      'start one with `npm start`, or set COUNTERSIGN_URL',
    )
  throw thrown
}

/** Advice in terms of this command line, where the edge's advice is in terms of HTTP. */
function adviceForCommandLine(code: string, detail: string): string | undefined {
  if (code === 'unauthenticated') return 'set COUNTERSIGN_KEY to a key of this edge that has not been revoked'
  if (code === 'not_found' && detail.startsWith('no version '))
    return '`countersign policy list` lists the versions'
  return undefined
}

/**
 * An error answer of the edge. Another server's error page may be JSON too, so no field is trusted.
 */
function troubleOf(problem: Partial<Problem>): Trouble {
  const { code, detail, todo, errors } = problem
  if (typeof code !== 'string' || typeof detail !== 'string')
    return trouble(
      'unexpected_answer',
      'the server answered with an error that is not from a Countersign edge',
      'check that COUNTERSIGN_URL is the address of a Countersign edge',
    )
  const listed = Array.isArray(errors)
    ? errors.filter(({ at, message }) => typeof at === 'string' && typeof message === 'string')
    : undefined
  return {
    exit: 1,
    code,
    detail,
    todo: adviceForCommandLine(code, detail) ?? (typeof todo === 'string' ? todo : undefined),
    errors: listed,
  }
}
