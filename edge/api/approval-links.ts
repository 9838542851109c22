// The link page: GET and HEAD show, only POST decides (P01, P02). The token is checked against the approval as it is
// stored; the answer is its approver's, and only while that operator still may answer (P09).

import type { Failure } from '../../shared/failures.ts'
import { FAILURES, failure } from '../../shared/failures.ts'
import { split } from '../../shared/ids.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import { Answer, type Approval } from '../../shared/wire/approvals.ts'
import { needsUnfolding } from '../approvals/card.ts'
import { isRevoked, type Link, macHolds, nonceFor, readLink } from '../approvals/link.ts'
import type { Env } from '../bindings.ts'
import { identityOf, runObject } from '../bindings.ts'
import { authorize } from '../decision/decide.ts'
import { directoryOf, SUSPENDED } from '../directory/directory.ts'
import { fromOurPage } from '../http/form-origin.ts'
import { readForm } from '../http/intake.ts'
import { isTenant } from '../http/known-tenants.ts'
import { fileAnswer } from '../http/response-headers.ts'
import type { Node } from '../pages/approval-page.tsx'
import { answersOf, approvalPage, html, refusalPage } from '../pages/approval-page.tsx'
import {
  argumentsIn,
  asksForChange,
  ChangeFields,
  changedIn,
  changePage,
  type Draft,
  textToChange,
} from '../pages/edit-arguments-page.tsx'
import { partIn } from '../pages/full-text.tsx'
import { broughtFile } from '../pages/input-files.tsx'
import { PAGE_SCRIPT } from '../pages/page-script.ts'
import { follow, withScript } from '../pages/page-stream.ts'
import { isRunOf } from '../run/run-id.ts'
import type { Verbs } from './verb.ts'

const INVALID = failure(
  'link_invalid',
  'this link is not one of ours, is cut short, or was given under a key that its operator has no more',
)
const MAY_NOT = failure('forbidden', 'you may no longer answer approvals')

const MAY_NOT_READ = failure('forbidden', 'policy lets you answer approvals, and not read what runs hold')
const OUTDATED = failure(
  'outdated',
  'an operator has changed the arguments, so this link asks about something that is not to run any more',
)
const REVOKED = failure('link_revoked', 'this link was revoked; the approval may still be pending')

export const linkRoutes: Verbs<'showApproval' | 'submitApproval' | 'followApproval' | 'readLinkedFile'> = {
  async showApproval({ env, request, params }) {
    const opened = await open(env, params.token)
    if (!opened.ok) return ok(refused(opened.error))
    const { approval, run } = opened.value
    const text = textToChange(await run.editable(split(approval.id).n))
    return ok(
      live(
        await shown(env, params.token, opened.value, text === null ? null : { text }, partIn(request.url)),
        approval,
      ),
    )
  },

  /** What others answer, to whoever has the page open; it ends with the question, and with the link. */
  async followApproval({ env, request, params }) {
    const opened = await open(env, params.token)
    if (!opened.ok) return ok(refused(opened.error))
    const still = async () => {
      const now = await open(env, params.token)
      return now.ok && now.value.approval.status === 'pending' ? now.value.approval : null
    }
    const tell = async (approval: Approval) =>
      `event: answers\ndata: ${JSON.stringify({ html: answersOf(approval) })}`
    const from = Number(request.headers.get('last-event-id') ?? 0)
    const { tenant, approval, approver } = opened.value.link
    const followed = await follow({
      env,
      tenant,
      whose: `link ${approval} ${approver}`,
      approval,
      from,
      still,
      tell,
    })
    return followed.ok ? followed : ok(refused(followed.error))
  },

  async readLinkedFile({ env, params }) {
    const opened = await open(env, params.token)
    if (!opened.ok) return ok(refused(opened.error))
    const { approval, run, mayRead } = opened.value
    const file = mayRead
      ? await broughtFile({ run, n: split(approval.id).n }, params.sha256)
      : err(MAY_NOT_READ)
    return ok(file.ok ? fileAnswer(file.value) : refused(file.error))
  },

  async submitApproval({ env, request, params }) {
    const opened = await open(env, params.token)
    if (!opened.ok) return ok(refused(opened.error))
    const read = await readForm(request)
    const still = await open(env, params.token) // who sends slowly may have been removed meanwhile
    if (!still.ok) return ok(refused(still.error))
    const { link, digest, approverKey, approval, mayRead, run } = still.value
    if (!read.ok) return ok(refused(read.error, approval))
    const form = read.value
    const nonce = form?.get('nonce') ?? ''
    const ours = fromOurPage(request, identityOf(env).publicUrl)
    if (
      form === undefined ||
      !ours ||
      !macHolds(identityOf(env).linkKey, 'form', link, { digest, approverKey }, nonce)
    ) {
      return ok(
        refused(
          failure(
            'cross_origin',
            'this answer did not come from the page itself; open the link and answer there',
          ),
        ),
      )
    }
    const said = saidIn(form)
    const offered = async () => textToChange(await run.editable(split(approval.id).n))
    if (await asksForChange(form, said['decision'], offered))
      return ok(await changing(env, params.token, still.value, form))
    const changed = changedIn(form)
    if (!changed.ok) return ok(refused(changed.error, approval))
    const answer = Answer.safeParse({ ...said, ...changed.value, digest, reason: reasonIn(form) })
    if (!answer.success)
      return ok(
        refused(
          failure('invalid_request', 'choose approve or deny, with a reason of at most 1000 characters'),
        ),
      )
    const answered = await run.answer(split(approval.id).n, link.approver, 'link', answer.data)
    if (answered.ok) {
      const now = answered.value
      const events = now.digest === digest ? eventsOf(params.token) : null // a link is to what it was given for
      const page = approvalPage({
        approval: now,
        events,
        approver: link.approver,
        nonce: null,
        files: filesOf(params.token, mayRead),
        now: Date.now(),
      })
      return ok(events === null ? html(page) : live(page, now))
    }
    if (answered.error.code === 'link_revoked') return ok(refused(answered.error))
    const now = await run.approval(split(approval.id).n)
    return ok(refused(answered.error, now.ok ? now.value : undefined))
  },
}

/** The page with its form; with what somebody wrote there, where that can't be done. */
async function shown(
  env: Env,
  token: string,
  { link, digest, approverKey, approval, mayRead, run }: Opened,
  draft: Draft | null,
  part = 0,
): Promise<Node> {
  const nonce = nonceFor(identityOf(env).linkKey, { ...link, digest, approverKey })
  return approvalPage({
    approval,
    events: eventsOf(token),
    approver: link.approver,
    nonce,
    files: filesOf(token, mayRead),
    now: Date.now(),
    whole: needsUnfolding(approval.prompt) ? await run.unfolded(split(approval.id).n) : ok([]),
    part,
    change: draft === null ? '' : ChangeFields({ ...draft, over: 'link' }),
  })
}

/** The first step of a change: it shows, and records nothing. */
async function changing(env: Env, token: string, opened: Opened, form: URLSearchParams): Promise<Response> {
  const { link, digest, approverKey, approval, run } = opened
  const text = form.get('arguments') ?? ''
  const args = argumentsIn(text)
  const preview = args.ok ? await run.preview(split(approval.id).n, link.approver, 'link', args.value) : args
  if (!preview.ok)
    return withScript(
      html(
        await shown(env, token, opened, { text, refusal: preview.error }),
        FAILURES[preview.error.code].status,
      ),
      PAGE_SCRIPT,
    )
  const nonce = nonceFor(identityOf(env).linkKey, { ...link, digest, approverKey })
  return html(
    changePage({ approval, approver: link.approver, nonce, text, reason: reasonIn(form), ...preview.value }),
  )
}

const filesOf = (token: string, mayRead: boolean): string | null =>
  mayRead ? `/approve/${token}/files` : null
const eventsOf = (token: string): string => `/approve/${token}/events`
/** Only a page that waits for something has a script. */
const live = (page: Node, { status }: Approval): Response =>
  status === 'pending' ? withScript(html(page), PAGE_SCRIPT) : html(page)

/** `digest`: what the link is to. The approval is about that, or has ended. */
type Opened = {
  link: Link
  digest: string
  approverKey: string
  approval: Approval
  mayRead: boolean
  run: ReturnType<typeof runObject>
}

/** Nothing is shown to who may not answer by the policy of now (P09), or comes after the link has expired: it asks nothing any more. */
async function open(env: Env, token: string): Promise<Result<Opened>> {
  const link = readLink(token)
  const { idKey, linkKey } = identityOf(env)
  if (
    link === undefined ||
    !isRunOf(link.tenant, split(link.approval).run, idKey) ||
    !(await isTenant(env, link.tenant))
  )
    return err(INVALID)
  const run = runObject(env, link.tenant, split(link.approval).run)
  const [directory, approval] = await Promise.all([
    directoryOf(env, link.tenant),
    run.approval(split(link.approval).n, { by: link.approver, channel: 'link' }),
  ])
  const operator = directory.operators.get(link.approver)
  if (!approval.ok || operator === undefined) return err(INVALID)
  const { keyHash: approverKey } = operator
  const holds = (digest: string) => macHolds(linkKey, 'link', link, { digest, approverKey }, link.mac)
  const { digest: now, edits = [], status } = approval.value
  const digest = [now, ...edits.map(({ from }) => from)].find(holds)
  if (digest === undefined) return err(INVALID)
  if (directory.state === 'suspended') return err(SUSPENDED)
  if (isRevoked(approval.value, link.approver)) return err(REVOKED) // whoever holds it now is told nothing of what it asked
  if (!authorize(directory, operator, 'approval.decide').allowed) return err(MAY_NOT)
  if (Date.now() >= link.expiresAt) return err(failure('approval_expired', pastIn(approval.value)))
  if (digest !== now && status === 'pending') return err(OUTDATED)
  return ok({
    link,
    digest,
    approverKey,
    approval: approval.value,
    mayRead: authorize(directory, operator, 'run.read').allowed,
    run,
  })
}

/** All that an expired link tells. */
const pastIn = ({ status }: Approval): string =>
  status === 'pending' || status === 'expired'
    ? 'not enough people answered in time'
    : `the link has expired; what it asked was ${status}`

/** One button was pressed: `decision` for this call, or `standing` for more, as `approve session` or `approve 600`. */
export function saidIn(form: URLSearchParams): Record<string, unknown> {
  const standing = form.get('standing')
  if (standing === null) return { decision: form.get('decision') }
  const [, decision, span] =
    (form.has('decision') ? null : /^(approve|deny) (session|[0-9]{1,5})$/.exec(standing)) ?? []
  return span === 'session'
    ? { decision, scope: 'session' }
    : { decision, scope: 'timeboxed', ttl_s: Number(span) }
}

/** Browsers send CRLF, and count it as one. */
export const reasonIn = (form: URLSearchParams): string => (form.get('reason') ?? '').replaceAll('\r\n', '\n')

const STATUS: Partial<Record<Failure['code'], number>> = {
  link_invalid: 401,
  link_revoked: 410,
  outdated: 410,
  denied: 403,
  edit_too_wide: 422,
  invalid_arguments: 422,
  cross_origin: 403,
  forbidden: 403,
  tenant_suspended: 403,
  not_found: 404,
  already_answered: 409,
  already_ended: 409,
  once_only: 403,
  surer_only: 403,
  approval_expired: 410,
  invalid_request: 400,
  too_many_streams: 429,
}
const refused = (error: Failure, approval?: Approval): Response =>
  html(refusalPage(error, approval), STATUS[error.code] ?? 400)
