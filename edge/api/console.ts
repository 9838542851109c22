// What operators do in a browser about approvals, and what they look up there: behind the doors, one verb → a page. GET and HEAD change
// nothing.

import { FAILURES, failure } from '../../shared/failures.ts'
import { PATTERNS, split } from '../../shared/ids.ts'
import { LIMITS } from '../../shared/limits.ts'
import { err, ok } from '../../shared/result.ts'
import { CONSOLE } from '../../shared/routes/console.ts'
import { Answer, type Approval } from '../../shared/wire/approvals.ts'
import { needsUnfolding } from '../approvals/card.ts'
import type { Env } from '../bindings.ts'
import { identityOf, tenantObject } from '../bindings.ts'
import { changePage, detailPage } from '../console/approval-page.tsx'
import type { Answered } from '../console/bulk-deny-page.tsx'
import { answeredPage } from '../console/bulk-deny-page.tsx'
import { historyPage } from '../console/history-page.tsx'
import { told } from '../console/inbox-fragment.tsx'
import { glimpse, inboxPage } from '../console/inbox-page.tsx'
import { liveInbox, SCRIPT } from '../console/inbox-stream.ts'
import type { Session } from '../console/session.ts'
import { noCookie, sessionOf, signIn, signOut } from '../console/session.ts'
import { standingPage, takenBackPage } from '../console/standing-page.tsx'
import { workersPage } from '../console/workers-page.tsx'
import { fromOurPage } from '../http/form-origin.ts'
import { readForm } from '../http/intake.ts'
import { fileAnswer } from '../http/response-headers.ts'
import { html } from '../pages/approval-page.tsx'
import {
  argumentsIn,
  asksForChange,
  changedIn,
  type Draft,
  textToChange,
} from '../pages/edit-arguments-page.tsx'
import { partIn } from '../pages/full-text.tsx'
import { broughtFile } from '../pages/input-files.tsx'
import { withScript } from '../pages/page-stream.ts'
import { isRunOf } from '../run/run-id.ts'
import { reasonIn, saidIn } from './approval-links.ts'
import type { CallNames } from './console-calls.ts'
import type { Place } from './console-session.ts'
import { form, page, permitted, placeOf, seeOther, signInAgain, wayBack } from './console-session.ts'
import type { SkillNames } from './console-skills.ts'
import { standingOf, takeBack } from './standing-approvals.ts'
import type { Verbs } from './verb.ts'

type Names = Exclude<keyof typeof CONSOLE, CallNames | SkillNames>

export const consoleRoutes: Verbs<Names> = {
  consoleInbox: page('consoleInbox', async ({ env, query }, session) => {
    const found = await tenantObject(env, session.directory.tenant).pending(query)
    return ok(
      withScript(
        html(
          inboxPage({ session, asked: query, page: found, mayAnswer: mayAnswer(session), now: Date.now() }),
        ),
        SCRIPT,
      ),
    )
  }),

  consoleHistory: page('consoleHistory', async ({ env }, session) =>
    ok(
      html(
        historyPage(
          session,
          await tenantObject(env, session.directory.tenant).approvals({ status: 'ended', alike: 'each' }),
        ),
      ),
    ),
  ),

  consoleWorkers: page('consoleWorkers', async ({ env }, session) =>
    ok(html(workersPage(session, await tenantObject(env, session.directory.tenant).listWorkers()))),
  ),

  consoleStanding: page('consoleStanding', async ({ env }, session) => {
    const mayRevoke = permitted(session, CONSOLE.consoleTakeBack.action)
    return ok(html(standingPage(session, await standingOf(env, session.directory), mayRevoke)))
  }),

  consoleTakeBack: form('consoleTakeBack', async ({ env }, session, given) => {
    const taken = await takeBack(env, session.directory, given.get('id') ?? '')
    return taken.ok ? ok(html(takenBackPage(session, taken.value))) : taken
  }),

  consoleEvents: page(
    'consoleEvents',
    async ({ env, request, query: { approval, after, ...asked } }, { directory: { tenant }, form }) => {
      const watching = async () => {
        const found = await sessionOf(request, env, 'watched')
        return found.ok && permitted(found.value, CONSOLE.consoleEvents.action) ? found.value : null
      }
      const isOurs =
        PATTERNS.approval.test(approval) && isRunOf(tenant, split(approval).run, identityOf(env).idKey)
      if (approval !== '' && !isOurs) return err(failure('not_found', 'no such approval'))
      const from = Number(request.headers.get('last-event-id') ?? after)
      const tell = (session: Session, number: number) => told(env, tenant, number, asked, mayAnswer(session))
      return liveInbox({
        env,
        tenant,
        whose: `session ${form}`,
        approval: approval === '' ? null : approval,
        from,
        session: watching,
        tell,
      })
    },
  ),

  consoleApproval: page('consoleApproval', async ({ env, request, params }, session) => {
    const place = placeOf(env, session, params.id)
    if (!place.ok) return place
    const { run, n } = place.value
    const approval = await run.approval(n, { by: session.principal.name, channel: 'console' })
    if (!approval.ok) return approval
    const text = textToChange(await run.editable(n))
    return ok(
      await shown(env, session, place.value, approval.value, text === null ? null : { text }, {
        part: partIn(request.url),
      }),
    )
  }),

  consoleFile: page('consoleFile', async ({ env, params }, session) => {
    const place = placeOf(env, session, params.id)
    if (!place.ok) return place
    const file = await broughtFile(place.value, params.sha256)
    return file.ok ? ok(fileAnswer(file.value)) : file
  }),

  consoleAnswer: form('consoleAnswer', async ({ env, params }, session, given) => {
    const place = placeOf(env, session, params.id)
    if (!place.ok) return place
    const { run, n } = place.value
    const shown = await run.approval(n)
    if (!shown.ok) return shown
    if (given.get('digest') !== shown.value.digest)
      return err(failure('conflict', 'this is not the call that you were shown')) // L3
    const { digest } = shown.value
    const said = saidIn(given)
    const offered = async () => textToChange(await run.editable(n))
    if (await asksForChange(given, said['decision'], offered))
      return ok(await changing(env, session, place.value, shown.value, given))
    const changed = changedIn(given)
    if (!changed.ok) return changed
    const answer = Answer.safeParse({ ...said, ...changed.value, digest, reason: reasonIn(given) })
    if (!answer.success)
      return err(failure('invalid_request', 'the answer is neither yes nor no, or its reason is too long'))
    const answered = await run.answer(n, session.principal.name, 'console', answer.data)
    return answered.ok ? ok(seeOther(`/console/approvals/${params.id}`)) : answered
  }),

  consoleAnswers: form(
    'consoleAnswers',
    async ({ env }, session, given) => {
      const answer = Answer.safeParse({ decision: given.get('decision'), reason: reasonIn(given) })
      const chosen = given.getAll('id')
      if (!answer.success || chosen.length > LIMITS.page)
        return err(
          failure(
            'invalid_request',
            'the answer is neither yes nor no, too many were chosen, or the reason is too long',
          ),
        )
      if (answer.data.decision === 'approve' && chosen.length !== 1)
        return err(
          failure(
            'invalid_request',
            'only approvals that ask for exactly the same call can be approved together',
          ),
        )
      const ids = await chosenIds(env, session, chosen)
      const places = ids.map((id) => placeOf(env, session, id))
      const foreign = places.find((place) => !place.ok)
      if (foreign !== undefined) return foreign
      const answered = await Promise.all(
        places.flatMap((place) => (place.ok ? [answerOne(place.value, session, answer.data)] : [])),
      )
      return ok(html(answeredPage(session, answer.data.decision, answered)))
    },
    ['id'],
  ),

  consoleSignOut: form('consoleSignOut', async ({ env }, session) => {
    await signOut(env, session)
    return ok(seeOther('/console', noCookie(env)))
  }),

  async consoleSignIn({ env, request }) {
    const read = await readForm(request)
    if (!read.ok) return ok(signInAgain(wayBack(''), read.error))
    const given = read.value
    const back = wayBack(given?.get('back') ?? '')
    if (given === undefined || !fromOurPage(request, identityOf(env).publicUrl))
      return ok(signInAgain(back, failure('cross_origin', 'this form did not come from our page')))
    const opened = await signIn(request, env, (given.get('key') ?? '').trim())
    return ok(opened.ok ? seeOther(back, opened.value) : signInAgain(back, opened.error))
  },
}

async function shown(
  env: Env,
  session: Session,
  { run, n }: Place,
  approval: Approval,
  draft: Draft | null,
  { part = 0, status = 200 }: { part?: number; status?: number },
): Promise<Response> {
  const { group } = approval
  const [alike, whole] = await Promise.all([
    tenantObject(env, session.directory.tenant).approvals({ status: 'pending', alike: 'each', group }),
    needsUnfolding(approval.prompt) ? run.unfolded(n) : ok([]),
  ])
  const page = detailPage({
    session,
    approval,
    alike,
    mayAnswer: mayAnswer(session),
    mayRead: permitted(session, CONSOLE.consoleFile.action),
    draft,
    whole,
    part,
    now: Date.now(),
  })
  return withScript(html(page, status), SCRIPT)
}

/** The first step of a change: it shows, and records nothing. */
async function changing(
  env: Env,
  session: Session,
  place: Place,
  approval: Approval,
  given: URLSearchParams,
): Promise<Response> {
  const text = given.get('arguments') ?? ''
  const args = argumentsIn(text)
  const preview = args.ok
    ? await place.run.preview(place.n, session.principal.name, 'console', args.value)
    : args
  return preview.ok
    ? html(changePage({ session, approval, text, reason: reasonIn(given), ...preview.value }))
    : shown(
        env,
        session,
        place,
        approval,
        { text, refusal: preview.error },
        { status: FAILURES[preview.error.code].status },
      )
}

/** What a form names: one by its id, or all of a group up to the newest that was shown (L3: a group is one content). */
async function chosenIds(
  env: Env,
  { directory: { tenant } }: Session,
  chosen: readonly string[],
): Promise<string[]> {
  const found = chosen.map(async (one) => {
    const [group = '', newest] = one.split('~')
    return newest === undefined ? [one] : tenantObject(env, tenant).alike(group, newest)
  })
  return [...new Set((await Promise.all(found)).flat())].slice(0, LIMITS.answers_at_once)
}

/** Each is a transition of its own, of its own digest. */
async function answerOne({ run, n, id }: Place, { principal }: Session, answer: Answer): Promise<Answered> {
  const done = await run.answer(n, principal.name, 'console', answer)
  const now = done.ok ? done : await run.approval(n)
  const asked = now.ok
    ? { id, title: now.value.prompt.title, what: glimpse(now.value.prompt) }
    : { id, title: id, what: '' }
  if (!done.ok) return { ...asked, note: done.error.detail }
  const { status } = done.value
  return {
    ...asked,
    note:
      status === WANTED[answer.decision]
        ? null
        : status === 'pending'
          ? 'more answers are needed'
          : `it is ${status}`,
  }
}
const WANTED = { approve: 'approved', deny: 'denied' } as const

const mayAnswer = (session: Session): boolean => permitted(session, CONSOLE.consoleAnswer.action)
