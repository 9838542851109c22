// The page behind an approval link. GET and HEAD only show, POST decides (P01, P02). A link answers
// as its approver, and only while policy permits that operator to answer (P09).

import type { Failure } from '../../shared/failures.ts'
import { FAILURES, failure } from '../../shared/failures.ts'
import { splitId } from '../../shared/ids.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import { Answer, type Approval } from '../../shared/wire/approvals.ts'
import { isCardShortened } from '../approvals/card.ts'
import { isRevoked, type Link, macHolds, nonceFor, readLink } from '../approvals/link.ts'
import type { Env } from '../bindings.ts'
import { identityOf, runObject } from '../bindings.ts'
import { authorize } from '../decision/decide.ts'
import { directoryOf, SUSPENDED } from '../directory/directory.ts'
import { fromOurPage } from '../http/form-origin.ts'
import { isSmall, readForm } from '../http/intake.ts'
import { isTenant } from '../http/known-tenants.ts'
import { fileResponse } from '../http/response-headers.ts'
import type { Node } from '../pages/approval-page.tsx'
import { answersOf, approvalPage, html, refusalPage } from '../pages/approval-page.tsx'
import {
  approvedChange,
  argumentsIn,
  ChangeFields,
  changePage,
  type Draft,
  shouldReviewChange,
  textToChange,
} from '../pages/edit-arguments-page.tsx'
import { partIn } from '../pages/full-text.tsx'
import { inputFile } from '../pages/input-files.tsx'
import { PAGE_SCRIPT } from '../pages/page-script.ts'
import { follow, withScript } from '../pages/page-stream.ts'
import { isRunOf } from '../run/run-id.ts'
import type { Verbs } from './verb.ts'

const INVALID = failure(
  'link_invalid',
  'this link is incomplete, was not made by this installation, or its operator’s key was replaced',
)
const MAY_NOT_ANSWER = failure('forbidden', 'you may no longer answer approvals')

const MAY_NOT_READ = failure('forbidden', 'policy lets you answer approvals, but not read the files of runs')
const OUTDATED = failure(
  'outdated',
  'an operator has changed the arguments, so the call of this link will not run',
)
const NOT_FROM_PAGE = failure(
  'cross_origin',
  'this answer did not come from the page itself; open the link and answer there',
)
const NO_ANSWER = failure(
  'invalid_request',
  'choose approve or deny, with a reason of at most 1000 characters',
)
const REVOKED = failure('link_revoked', 'this link was revoked; the approval may still be pending')

export const linkRoutes: Verbs<'showApproval' | 'submitApproval' | 'followApproval' | 'readLinkedFile'> = {
  async showApproval({ env, request, params }) {
    const opened = await openLink(env, params.token, 'for its approver')
    if (!opened.ok) return ok(refused(opened.error))
    const { approval, run, n } = opened.value
    const text = textToChange(await run.editable(n))
    return ok(
      live(
        await pageOf(env, params.token, opened.value, text === null ? null : { text }, partIn(request.url)),
        approval,
      ),
    )
  },

  /** Streams the answers of others to an open page, until the approval or the link ends. */
  async followApproval({ env, request, params }) {
    const opened = await openLink(env, params.token)
    if (!opened.ok) return ok(refused(opened.error))
    const still = async () => {
      const now = await openLink(env, params.token)
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
    const opened = await openLink(env, params.token)
    if (!opened.ok) return ok(refused(opened.error))
    const { run, n, mayRead } = opened.value
    const file = mayRead ? await inputFile({ run, n }, params.sha256) : err(MAY_NOT_READ)
    return ok(file.ok ? fileResponse(file.value) : refused(file.error))
  },

  async submitApproval({ env, request, params }) {
    const read = await readFormOfLink(env, request, params.token)
    if (!read.ok) return ok(refused(read.error))
    const opened = await openLink(env, params.token) // after the body: the operator may be removed while it arrives
    if (!opened.ok) return ok(refused(opened.error))
    const { value: form } = read
    if (form === undefined || !isFromItsPage(env, request, opened.value, form))
      return ok(refused(NOT_FROM_PAGE))
    return ok(await answerForm(env, params.token, opened.value, form))
  },
}

/**
 * Reads the form of a POST. Strangers can't make us buffer much (G10): the link is checked before a
 * body that is large or of unknown size.
 */
async function readFormOfLink(
  env: Env,
  request: Request,
  token: string,
): Promise<Result<URLSearchParams | undefined>> {
  const known = isSmall(request) ? ok(null) : await openLink(env, token)
  return known.ok ? readForm(request) : known
}

/** The nonce is bound to this link, digest and approver, so only its page has it. */
function isFromItsPage(
  env: Env,
  request: Request,
  { link, digest, approverKey }: OpenLink,
  form: URLSearchParams,
): boolean {
  const { publicUrl, linkKey } = identityOf(env)
  return (
    fromOurPage(request, publicUrl) &&
    macHolds(linkKey, 'form', link, { digest, approverKey }, form.get('nonce') ?? '')
  )
}

/** Records the answer, or shows the change that the form requests. */
async function answerForm(
  env: Env,
  token: string,
  opened: OpenLink,
  form: URLSearchParams,
): Promise<Response> {
  const { link, digest, approval, run, n, version } = opened
  const fields = answerFields(form)
  const offered = async () => textToChange(await run.editable(n))
  if (await shouldReviewChange(form, fields['decision'], offered)) return showChange(env, token, opened, form)
  const changed = approvedChange(form)
  if (!changed.ok) return refused(changed.error, approval)
  const answer = Answer.safeParse({ ...fields, ...changed.value, digest, reason: reasonField(form) })
  if (!answer.success) return refused(NO_ANSWER)
  const answered = await run.answer(n, link.approver, 'link', answer.data, version)
  if (answered.ok) return showAnswered(token, opened, answered.value)
  if (answered.error.code === 'link_revoked') return refused(answered.error)
  const now = await run.approval(n)
  return refused(answered.error, now.ok ? now.value : undefined)
}

/** The page after an edit has no stream, because the link is bound to the former digest. */
function showAnswered(token: string, { link, digest, mayRead }: OpenLink, approval: Approval): Response {
  const events = approval.digest === digest ? eventsPath(token) : null
  const files = filesPath(token, mayRead)
  const page = approvalPage({
    approval,
    events,
    approver: link.approver,
    nonce: null,
    files,
    now: Date.now(),
  })
  return events === null ? html(page) : live(page, approval)
}

/** The page with its form. `draft`: the text of the arguments, and why an edit was refused. */
async function pageOf(
  env: Env,
  token: string,
  { link, digest, approverKey, approval, mayRead, run, n }: OpenLink,
  draft: Draft | null,
  part = 0,
): Promise<Node> {
  const nonce = nonceFor(identityOf(env).linkKey, { ...link, digest, approverKey })
  return approvalPage({
    approval,
    events: eventsPath(token),
    approver: link.approver,
    nonce,
    files: filesPath(token, mayRead),
    now: Date.now(),
    whole: isCardShortened(approval.prompt) ? await run.unfolded(n) : ok([]),
    part,
    change: draft === null ? '' : ChangeFields({ ...draft, over: 'link' }),
  })
}

/** The first step of an edit shows the change and records nothing. */
async function showChange(
  env: Env,
  token: string,
  opened: OpenLink,
  form: URLSearchParams,
): Promise<Response> {
  const { link, digest, approverKey, approval, run, n } = opened
  const text = form.get('arguments') ?? ''
  const args = argumentsIn(text)
  const preview = args.ok ? await run.preview(n, link.approver, 'link', args.value) : args
  if (!preview.ok) return showRefusedChange(env, token, opened, { text, refusal: preview.error })
  const nonce = nonceFor(identityOf(env).linkKey, { ...link, digest, approverKey })
  return html(
    changePage({
      approval,
      approver: link.approver,
      nonce,
      text,
      reason: reasonField(form),
      ...preview.value,
    }),
  )
}

async function showRefusedChange(
  env: Env,
  token: string,
  opened: OpenLink,
  draft: Required<Draft>,
): Promise<Response> {
  const read = await opened.run.approval(opened.n, readerOf(opened.link))
  const approval = read.ok ? read.value : opened.approval
  const page = await pageOf(env, token, { ...opened, approval }, draft)
  return withScript(html(page, FAILURES[draft.refusal.code].status), PAGE_SCRIPT)
}

const filesPath = (token: string, mayRead: boolean): string | null =>
  mayRead ? `/approve/${token}/files` : null
const eventsPath = (token: string): string => `/approve/${token}/events`
/** Only the page of a pending approval has a script. */
const live = (page: Node, { status }: Approval): Response =>
  status === 'pending' ? withScript(html(page), PAGE_SCRIPT) : html(page)

/** A valid link. Its `digest` is the approval's, unless the approval has ended. */
type OpenLink = {
  readonly link: Link
  readonly digest: string
  readonly approverKey: string
  readonly approval: Approval
  readonly mayRead: boolean
  readonly run: ReturnType<typeof runObject>
  readonly n: number
  /** Version of the directory against which the link was checked. */
  readonly version: number
}

/** The approver as the reader of the page. */
const readerOf = ({ approver }: Link) => ({ by: approver, channel: 'link' })

/**
 * Checks a link, in order: form, run, approver, MAC, tenant, revocation, policy (P09), expiry,
 * digest. Each refusal reveals no more than the caller has proven to know. `view`: the approval as
 * stored, or with the effect of its approver's approval now, which costs another decision.
 */
async function openLink(
  env: Env,
  token: string,
  view: 'stored' | 'for its approver' = 'stored',
): Promise<Result<OpenLink>> {
  const link = readLink(token)
  const { idKey, linkKey } = identityOf(env)
  const { run: runId, n } = splitId(link?.approval ?? '')
  if (link === undefined || !isRunOf(link.tenant, runId, idKey) || !(await isTenant(env, link.tenant)))
    return err(INVALID)
  const run = runObject(env, link.tenant, runId)
  const [directory, approval] = await Promise.all([
    directoryOf(env, link.tenant),
    view === 'stored' ? run.approval(n) : run.approval(n, readerOf(link)),
  ])
  const operator = directory.operators.get(link.approver)
  if (!approval.ok || operator === undefined) return err(INVALID)
  const { keyHash: approverKey } = operator
  const { digest: now, edits = [], status } = approval.value
  const digests = [now, ...edits.map(({ from }) => from)]
  const digest = digests.find((one) =>
    macHolds(linkKey, 'link', link, { digest: one, approverKey }, link.mac),
  )
  if (digest === undefined) return err(INVALID)
  if (directory.state === 'suspended') return err(SUSPENDED)
  if (isRevoked(approval.value, link.approver)) return err(REVOKED) // its holder must not learn about the call
  if (!authorize(directory, operator, 'approval.decide').allowed) return err(MAY_NOT_ANSWER)
  if (Date.now() >= link.expiresAt) return err(failure('approval_expired', expiryDetail(approval.value)))
  if (digest !== now && status === 'pending') return err(OUTDATED)
  const mayRead = authorize(directory, operator, 'run.read').allowed
  return ok({
    link,
    digest,
    approverKey,
    approval: approval.value,
    mayRead,
    run,
    n,
    version: directory.version,
  })
}

/** All that the holder of an expired link learns. */
const expiryDetail = ({ status }: Approval): string =>
  status === 'pending' || status === 'expired'
    ? 'not enough people answered in time'
    : `the link has expired; its approval is ${status}`

/**
 * Reads the pressed button: `decision` for this call, or `standing` for further ones (`approve
 * session`, `approve 600`).
 */
export function answerFields(form: URLSearchParams): Record<string, unknown> {
  const standing = form.get('standing')
  if (standing === null) return { decision: form.get('decision') }
  const [, decision, span] =
    (form.has('decision') ? null : /^(approve|deny) (session|[0-9]{1,5})$/.exec(standing)) ?? []
  return span === 'session'
    ? { decision, scope: 'session' }
    : { decision, scope: 'timeboxed', ttl_s: Number(span) }
}

/** Browsers send line breaks as CRLF, but count them as one character. */
export const reasonField = (form: URLSearchParams): string =>
  (form.get('reason') ?? '').replaceAll('\r\n', '\n')

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
  approval_cancelled: 410,
  invalid_request: 400,
  too_many_streams: 429,
}
const refused = (error: Failure, approval?: Approval): Response =>
  html(refusalPage(error, approval), STATUS[error.code] ?? 400)
