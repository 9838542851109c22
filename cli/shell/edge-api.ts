// The edge as commands see it: input checked before it is sent, answers checked when they come, and every failure one `Trouble`.

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

/** How long an answer may take beyond the time that the edge was asked to wait. */
const PATIENCE_MS = 30_000

export function connect({ url, key }: Config): Api {
  const send = key === undefined ? client(url) : client(url, bearer(key))
  return async (name, input) => {
    const route: Route = ROUTES[name]
    const fault = faultIn(route, input)
    if (fault !== undefined) return err(usage(fault))
    const patience = new AbortController()
    const late = () => patience.abort(new DOMException('no answer in time', 'TimeoutError'))
    const timer = setTimeout(late, PATIENCE_MS + (input.wait ?? 0) * 1000)
    const signal =
      input.signal === undefined ? patience.signal : AbortSignal.any([patience.signal, input.signal])
    let answer: Awaited<ReturnType<typeof send<typeof name>>>
    try {
      answer = await send(name, { ...input, signal })
    } catch (thrown) {
      return err(unreachable(url, thrown))
    } finally {
      clearTimeout(timer) // what goes on after it has begun takes the time that it takes
    }
    if (!answer.ok) return err(refused(answer.error))
    const read = route.result.safeParse(answer.value)
    // A newer edge may say more than we know of; what we do know of must be as we know it.
    const other = read.error?.issues.some(({ code }) => code !== 'unrecognized_keys') ?? false
    if (other)
      return err(
        trouble('unexpected_answer', `${url} answered something else than this version of countersign knows`),
      )
    return read.success ? ok(read.data as Output<typeof name>) : answer // the route's own schema read it
  }
}

function faultIn(
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

function unreachable(url: string, thrown: unknown): Trouble {
  if (thrown instanceof SyntaxError)
    return trouble(
      'unexpected_answer',
      `${url} does not answer in JSON`,
      'check that COUNTERSIGN_URL names a Countersign edge',
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

/** What the edge advises is about HTTP; here the same is done otherwise. */
function todoHere(code: string, detail: string): string | undefined {
  if (code === 'unauthenticated') return 'set COUNTERSIGN_KEY to a key of this edge that is not revoked'
  if (code === 'not_found' && detail.startsWith('no version ')) return '`countersign policy list` shows them'
  return undefined
}

/** An edge's refusal. Another server's error page may be JSON too, of any shape. */
function refused(problem: Partial<Problem>): Trouble {
  const { code, detail, todo, errors } = problem
  if (typeof code !== 'string' || typeof detail !== 'string')
    return trouble('unexpected_answer', 'the answer is an error, but not one of a Countersign edge')
  const listed = Array.isArray(errors)
    ? errors.filter(({ at, message }) => typeof at === 'string' && typeof message === 'string')
    : undefined
  return {
    exit: 1,
    code,
    detail,
    todo: todoHere(code, detail) ?? (typeof todo === 'string' ? todo : undefined),
    errors: listed,
  }
}
