// Answers requests that no route accepts, or that their route can't accept as they are: programs
// get JSON, people in a browser get a page.

import { adviceOf, entryOf, type Failure, failure } from '../../shared/failures.ts'
import { ROUTES } from '../../shared/routes/all.ts'
import type { Caller, Route } from '../../shared/routes/route.ts'
import { problem } from '../http/problem.ts'
import { requestId } from '../http/request-id.ts'
import { html, Page, Prose } from './approval-page.tsx'

/** Browsers say in `accept` that they want HTML. Below `/v1/` there are no pages. */
const isBrowser = (request: Request): boolean =>
  /\btext\/html\b/.test(request.headers.get('accept') ?? '') &&
  !new URL(request.url).pathname.startsWith('/v1/')

export function refusal(
  request: Request,
  publicUrl: string,
  why: Failure,
  headers: Record<string, string> = {},
): Response {
  if (!isBrowser(request)) return problem(why, { request_id: requestId(request), publicUrl }, headers)
  const page = html(<RefusalPage failure={why} />, entryOf(why.code).status)
  for (const [name, value] of Object.entries(headers)) page.headers.set(name, value)
  return page
}

function RefusalPage({ failure: why }: { failure: Failure }) {
  const title = TITLES[why.code] ?? 'That was not done'
  return (
    <Page title={title} sheet={LINK}>
      <section class="outcome pending" role="status">
        <h1>{title}</h1>
        <p>
          <Prose text={why.detail} />.
        </p>
        <p>
          <strong>What to do:</strong> <Prose text={adviceOf(why)} />.
        </p>
      </section>
      <a class="back" href="/console">
        Open the console
      </a>
    </Page>
  )
}

/** Large enough to tap. */
const LINK = '.back{display:inline-flex;align-items:center;min-height:2.75rem}'

const TITLES: Partial<Record<Failure['code'], string>> = {
  not_found: 'No such page',
  method_not_allowed: 'No such page',
}

const NO_ROUTE: Failure = {
  ...failure('not_found', 'there is no route with this path'),
  todo: 'check the path and its spelling; `/docs` lists every route',
}
const NO_PAGE: Failure = {
  ...failure('not_found', 'there is no page at this address'),
  todo: 'check the address, or start at the console’s inbox',
}

export function unrouted(request: Request, publicUrl: string): Response {
  const { pathname } = new URL(request.url)
  const browses = isBrowser(request)
  if (browses && pathname === '/')
    return new Response(null, { status: 302, headers: { location: '/console', 'cache-control': 'no-store' } })
  const methods = methodsAt(pathname).join(', ')
  if (methods === '') return refusal(request, publicUrl, browses ? NO_PAGE : NO_ROUTE)
  return refusal(
    request,
    publicUrl,
    failure('method_not_allowed', `${request.method} is not a method of this route; use ${methods}`),
    {
      allow: methods,
    },
  )
}

const methodsAt = (path: string): string[] =>
  Object.values(ROUTES as Record<string, Route>)
    .filter((route) =>
      new RegExp(`^${route.path.replace(/\./g, '\\.').replace(/\{\w+\}/g, '[^/]+')}$`).test(path),
    )
    .flatMap(({ method }) => (method === 'GET' ? ['GET', 'HEAD'] : [method]))

const OF: Partial<Record<Caller, string>> = {
  agent: 'an agent’s key',
  operator: 'an operator’s key',
  worker: 'the signature of a worker',
}

/** No policy can help here: the key is of the wrong kind. */
export function wrongKey(kind: 'agent' | 'operator' | 'worker', callers: readonly Caller[]): Failure {
  const needed = callers.map((caller) => OF[caller] ?? caller).join(' or ')
  return {
    ...failure('forbidden', `this route needs ${needed}; the request came with ${OF[kind]}`),
    todo: `send the request with ${needed}`,
  }
}
