// Checks before each console page: session → policy → origin of the form. A page requires the same
// action as the API's route that does the same.

import type { Failure } from '../../../shared/failures.ts'
import { FAILURES, failure } from '../../../shared/failures.ts'
import { PATTERNS, splitId } from '../../../shared/ids.ts'
import type { Result } from '../../../shared/result.ts'
import { err, ok } from '../../../shared/result.ts'
import { CONSOLE } from '../../../shared/routes/console.ts'
import type { Env } from '../../bindings.ts'
import { identityOf, runObject } from '../../bindings.ts'
import { refusedPage, signInPage } from '../../console/frame.tsx'
import type { Session } from '../../console/session.ts'
import { isFormOf, sessionOf } from '../../console/session.ts'
import { authorize } from '../../decision/decide.ts'
import { fromOurPage } from '../../http/form-origin.ts'
import { readForm } from '../../http/intake.ts'
import { html } from '../../pages/approval-page.tsx'
import { isRunOf } from '../../run/run-id.ts'
import type { Incoming, Verb } from '../verb.ts'

type RouteNames = keyof typeof CONSOLE

type PageHandler<N extends RouteNames> = (
  incoming: Incoming<N>,
  session: Session,
) => Promise<Result<Response>>
type FormHandler<N extends RouteNames> = (
  incoming: Incoming<N>,
  session: Session,
  given: URLSearchParams,
) => Promise<Result<Response>>

/** A page for a session whose operator may perform the route's action. */
export function page<N extends RouteNames>(name: N, show: PageHandler<N>): Verb<N> {
  return async (incoming) => {
    const { env, request } = incoming
    const { pathname, search } = new URL(request.url)
    const found = await sessionOf(
      request,
      env,
      CONSOLE[name].media === 'text/event-stream' ? 'watched' : 'used',
    ) // a page reopens its stream automatically, which must not extend the session
    if (!found.ok)
      return ok(
        signInAgain(
          safeReturnPath(pathname + search),
          found.error.code === 'signed_out' ? undefined : found.error,
        ),
      )
    const session = found.value
    const shown = permitted(session, CONSOLE[name].action)
      ? await show(incoming, session)
      : err(forbidden(CONSOLE[name].action))
    return ok(shown.ok ? shown.value : refused(session, shown.error))
  }
}

/**
 * A page that changes something. Its form must carry this session's token and come from our origin.
 * `lists`: fields that may occur several times.
 */
export function form<N extends RouteNames>(
  name: N,
  change: FormHandler<N>,
  lists: readonly string[] = [],
): Verb<N> {
  return page(name, async (incoming, session) => {
    const { env, request } = incoming
    const read = await readForm(request, lists)
    if (!read.ok) return read
    const given = read.value
    if (
      given === undefined ||
      !fromOurPage(request, identityOf(env).publicUrl) ||
      !isFormOf(session, given.get('form'))
    )
      return err(failure('cross_origin', 'this form did not come from a page of your session'))
    return change(incoming, session, given)
  })
}

export const permitted = ({ directory, principal }: Session, action: string | null): boolean =>
  action === null || authorize(directory, principal, action).allowed
const forbidden = (action: string | null): Failure =>
  failure('forbidden', `policy does not grant you \`${action}\``)

export type CallTarget = { id: string; run: ReturnType<typeof runObject>; n: number }

export function findTarget(
  env: Env,
  { directory: { tenant } }: Session,
  id: string,
  what: 'approval' | 'call' = 'approval',
): Result<CallTarget> {
  const { run, n } = splitId(id)
  return PATTERNS[what].test(id) && isRunOf(tenant, run, identityOf(env).idKey)
    ? ok({ id, run: runObject(env, tenant, run), n })
    : err(failure('not_found', `no such ${what}`))
}

/** Returns only pages of the console, so that no link or form redirects elsewhere. */
export const safeReturnPath = (path: string): string =>
  /^\/console(?:\/(?:approvals|calls)\/\w{1,60}|\/history|\/standing|\/workers|\/skills(?:\/[a-z0-9_.-]{1,64}\/[0-9.]{1,32})?)?(?:\?[!-~]{0,500})?$/.test(
    path,
  )
    ? path
    : '/console'

const refused = (session: Session, error: Failure): Response =>
  html(refusedPage(session, error), FAILURES[error.code].status)
export const signInAgain = (back: string, refusal?: Failure): Response =>
  html(
    signInPage(back, refusal),
    refusal === undefined ? FAILURES.signed_out.status : FAILURES[refusal.code].status,
  )

export function seeOther(location: string, cookie?: string): Response {
  const answer = html('', 303)
  answer.headers.set('location', location)
  if (cookie !== undefined) answer.headers.set('set-cookie', cookie)
  return answer
}
