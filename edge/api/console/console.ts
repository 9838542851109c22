// Console pages on approvals, history, workers and standing answers, and sign-in. GET and HEAD
// change nothing.

import { FAILURES, failure } from '../../../shared/failures.ts'
import { PATTERNS, splitId } from '../../../shared/ids.ts'
import { LIMITS } from '../../../shared/limits.ts'
import { err, ok } from '../../../shared/result.ts'
import { CONSOLE } from '../../../shared/routes/console.ts'
import { Answer, type Approval } from '../../../shared/wire/approvals.ts'
import { isCardShortened } from '../../approvals/card.ts'
import type { Env } from '../../bindings.ts'
import { identityOf, tenantObject } from '../../bindings.ts'
import { changePage, detailPage } from '../../console/approval-page.tsx'
import type { AnswerResult } from '../../console/bulk-deny-page.tsx'
import { answeredPage } from '../../console/bulk-deny-page.tsx'
import { historyPage } from '../../console/history-page.tsx'
import { inboxFragment } from '../../console/inbox-fragment.tsx'
import { callSummary, inboxPage } from '../../console/inbox-page.tsx'
import { liveInbox, SCRIPT } from '../../console/inbox-stream.ts'
import type { Session } from '../../console/session.ts'
import { noCookie, sessionOf, signIn, signOut } from '../../console/session.ts'
import { standingPage, takenBackPage } from '../../console/standing-page.tsx'
import { workersPage } from '../../console/workers-page.tsx'
import { fromOurPage } from '../../http/form-origin.ts'
import { readForm } from '../../http/intake.ts'
import { fileResponse } from '../../http/response-headers.ts'
import { html } from '../../pages/approval-page.tsx'
import {
  approvedChange,
  argumentsIn,
  type Draft,
  shouldReviewChange,
  textToChange,
} from '../../pages/edit-arguments-page.tsx'
import { partIn } from '../../pages/full-text.tsx'
import { inputFile } from '../../pages/input-files.tsx'
import { withScript } from '../../pages/page-stream.ts'
import { isRunOf } from '../../run/run-id.ts'
import { answerFields, reasonField } from '../approval-links.ts'
import { listStandingAnswers, revokeStandingAnswer } from '../standing-approvals.ts'
import type { Verbs } from '../verb.ts'
import type { CallRouteNames } from './calls.ts'
import type { CallTarget } from './session.ts'
import { findTarget, form, page, permitted, safeReturnPath, seeOther, signInAgain } from './session.ts'
import type { SkillRouteNames } from './skills.ts'

type RouteNames = Exclude<keyof typeof CONSOLE, CallRouteNames | SkillRouteNames>

export const consoleRoutes: Verbs<RouteNames> = {
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
    return ok(html(standingPage(session, await listStandingAnswers(env, session.directory), mayRevoke)))
  }),

  consoleTakeBack: form('consoleTakeBack', async ({ env }, session, given) => {
    const taken = await revokeStandingAnswer(
      env,
      session.directory,
      given.get('id') ?? '',
      session.principal.name,
    )
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
        PATTERNS.approval.test(approval) && isRunOf(tenant, splitId(approval).run, identityOf(env).idKey)
      if (approval !== '' && !isOurs) return err(failure('not_found', 'no such approval'))
      const from = Number(request.headers.get('last-event-id') ?? after)
      const tell = (session: Session, number: number) =>
        inboxFragment(env, tenant, number, asked, mayAnswer(session))
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
    const target = findTarget(env, session, params.id)
    if (!target.ok) return target
    const { run, n } = target.value
    const approval = await run.approval(n, { by: session.principal.name, channel: 'console' })
    if (!approval.ok) return approval
    const text = textToChange(await run.editable(n))
    return ok(
      await approvalResponse(env, session, target.value, approval.value, text === null ? null : { text }, {
        part: partIn(request.url),
      }),
    )
  }),

  consoleFile: page('consoleFile', async ({ env, params }, session) => {
    const target = findTarget(env, session, params.id)
    if (!target.ok) return target
    const file = await inputFile(target.value, params.sha256)
    return file.ok ? ok(fileResponse(file.value)) : file
  }),

  consoleAnswer: form('consoleAnswer', async ({ env, params }, session, given) => {
    const target = findTarget(env, session, params.id)
    if (!target.ok) return target
    const { run, n } = target.value
    const shown = await run.approval(n)
    if (!shown.ok) return shown
    if (given.get('digest') !== shown.value.digest)
      return err(
        failure('conflict', 'the call has changed since this page was shown; open it again and answer there'),
      ) // L3
    const { digest } = shown.value
    const fields = answerFields(given)
    const offered = async () => textToChange(await run.editable(n))
    if (await shouldReviewChange(given, fields['decision'], offered))
      return ok(await previewChange(env, session, target.value, shown.value, given))
    const changed = approvedChange(given)
    if (!changed.ok) return changed
    const answer = Answer.safeParse({ ...fields, ...changed.value, digest, reason: reasonField(given) })
    if (!answer.success)
      return err(failure('invalid_request', 'the answer is neither yes nor no, or its reason is too long'))
    const answered = await run.answer(n, session.principal.name, 'console', answer.data)
    return answered.ok ? ok(seeOther(`/console/approvals/${params.id}`)) : answered
  }),

  consoleAnswers: form(
    'consoleAnswers',
    async ({ env }, session, given) => {
      const answer = Answer.safeParse({ decision: given.get('decision'), reason: reasonField(given) })
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
      const targets = ids.map((id) => findTarget(env, session, id))
      const foreign = targets.find((target) => !target.ok)
      if (foreign !== undefined) return foreign
      const answered = await Promise.all(
        targets.flatMap((target) => (target.ok ? [answerOne(target.value, session, answer.data)] : [])),
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
    if (!read.ok) return ok(signInAgain(safeReturnPath(''), read.error))
    const given = read.value
    const back = safeReturnPath(given?.get('back') ?? '')
    if (given === undefined || !fromOurPage(request, identityOf(env).publicUrl))
      return ok(signInAgain(back, failure('cross_origin', 'this form did not come from our page')))
    const opened = await signIn(request, env, (given.get('key') ?? '').trim())
    return ok(opened.ok ? seeOther(back, opened.value) : signInAgain(back, opened.error))
  },
}

async function approvalResponse(
  env: Env,
  session: Session,
  { run, n }: CallTarget,
  approval: Approval,
  draft: Draft | null,
  { part = 0, status = 200 }: { part?: number; status?: number },
): Promise<Response> {
  const { group } = approval
  const [alike, whole] = await Promise.all([
    tenantObject(env, session.directory.tenant).approvals({ status: 'pending', alike: 'each', group }),
    isCardShortened(approval.prompt) ? run.unfolded(n) : ok([]),
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

/** The first step of a change shows it and records nothing. */
async function previewChange(
  env: Env,
  session: Session,
  target: CallTarget,
  approval: Approval,
  given: URLSearchParams,
): Promise<Response> {
  const text = given.get('arguments') ?? ''
  const args = argumentsIn(text)
  const preview = args.ok
    ? await target.run.preview(target.n, session.principal.name, 'console', args.value)
    : args
  return preview.ok
    ? html(changePage({ session, approval, text, reason: reasonField(given), ...preview.value }))
    : approvalResponse(
        env,
        session,
        target,
        approval,
        { text, refusal: preview.error },
        { status: FAILURES[preview.error.code].status },
      )
}

/**
 * Resolves the choices of a form: an id, or a group up to the newest that the page showed (L3: a
 * group has one content).
 */
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

/** Each answer is a separate transition, bound to its own digest. */
async function answerOne(
  { run, n, id }: CallTarget,
  { principal }: Session,
  answer: Answer,
): Promise<AnswerResult> {
  const done = await run.answer(n, principal.name, 'console', answer)
  const now = done.ok ? done : await run.approval(n)
  const asked = now.ok
    ? { id, title: now.value.prompt.title, what: callSummary(now.value.prompt) }
    : { id, title: id, what: '' }
  if (!done.ok) return { ...asked, note: done.error.detail }
  const { status } = done.value
  return {
    ...asked,
    note:
      status === EXPECTED_STATUS[answer.decision]
        ? null
        : status === 'pending'
          ? 'more answers are needed'
          : `it is ${status}`,
  }
}
const EXPECTED_STATUS = { approve: 'approved', deny: 'denied' } as const

const mayAnswer = (session: Session): boolean => permitted(session, CONSOLE.consoleAnswer.action)
