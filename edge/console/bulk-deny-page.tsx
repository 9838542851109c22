// Answering several approvals at once: the form for identical ones, and the page with the result of
// each.

import { LIMITS } from '../../shared/limits.ts'
import type { Answer, Approval } from '../../shared/wire/approvals.ts'
import { Prose, Time } from '../pages/approval-page.tsx'
import { ConsolePage, FormToken } from './frame.tsx'
import { groupUpTo } from './inbox-page.tsx'
import type { Session } from './session.ts'

type AlikeInput = { session: Session; approval: Approval; alike: readonly Approval[] }

/**
 * `alike`: the pending approvals that are identical to this one, newest first, at most one page.
 */
export function IdenticalApprovals({ session, approval: { id, group }, alike }: AlikeInput) {
  const others = alike.filter((other) => other.id !== id)
  const all = alike.length < LIMITS.page ? `all ${alike.length}` : 'all of them'
  return (
    <details class="fold" id="alike">
      <summary>
        {alike.length < LIMITS.page ? alike.length : `${LIMITS.page} or more`} identical requests: answer{' '}
        {all}
      </summary>
      <p class="quiet">
        The same agent asks for the same tool with the same arguments and plan. Your answer is recorded for
        each of these calls. It does not cover later requests.
      </p>
      <ul>
        {others.map((other) => (
          <li>
            <a href={`/console/approvals/${other.id}`}>
              requested <Time ms={other.requested_at} />
            </a>
          </li>
        ))}
      </ul>
      <form method="post" action="/console/approvals">
        <FormToken session={session} />
        <input type="hidden" name="id" value={groupUpTo(group, alike[0]?.id ?? id)} />
        <div class="field">
          <label for="why-all">Reason for {all}</label>
          <textarea id="why-all" name="reason" rows={2} maxlength={LIMITS.reason_chars}></textarea>
        </div>
        <div class="buttons">
          <button type="submit" class="deny" name="decision" value="deny">
            Deny {all}
          </button>
          <button type="submit" class="approve" name="decision" value="approve">
            Approve {all}
          </button>
        </div>
      </form>
    </details>
  )
}

/** One result. `note`: why the answer was not recorded or did not decide; `null` if it did. */
export type AnswerResult = { id: string; title: string; what: string; note: string | null }

const DONE = { approve: 'approved', deny: 'denied' } as const

export function answeredPage(
  session: Session,
  decision: Answer['decision'],
  answered: readonly AnswerResult[],
) {
  const done = answered.filter(({ note }) => note === null).length
  return (
    <ConsolePage title={decision === 'approve' ? 'Approved' : 'Denied'} session={session}>
      <section class={`outcome ${DONE[decision]}`} role="status">
        <h1>
          {done} of {answered.length} {DONE[decision]}
        </h1>
        {answered.length === 0 ? <p>Nothing was chosen, or it is no longer pending.</p> : ''}
        <ul>
          {answered.map(({ id, title, what, note }) => (
            <li>
              <a href={`/console/approvals/${id}`}>{title}</a>
              {note === null ? '' : <Prose text={`: ${note}`} />}
              {what === '' ? '' : <pre>{what}</pre>}
            </li>
          ))}
        </ul>
        {answered.length < LIMITS.answers_at_once ? (
          ''
        ) : (
          <p>At most {LIMITS.answers_at_once} are answered at once. The rest is still in the inbox.</p>
        )}
      </section>
      <a class="back" href="/console">
        Back to the inbox
      </a>
    </ConsolePage>
  )
}
