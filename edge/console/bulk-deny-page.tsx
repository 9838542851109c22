// Several answers at once: those that ask exactly the same, each answered by itself, and what came of each.

import { LIMITS } from '../../shared/limits.ts'
import type { Answer, Approval } from '../../shared/wire/approvals.ts'
import { Prose, Time } from '../pages/approval-page.tsx'
import { ConsolePage, FormToken } from './frame.tsx'
import { allOf } from './inbox-page.tsx'
import type { Session } from './session.ts'

type Same = { session: Session; approval: Approval; alike: readonly Approval[] }

/** `alike`: those that wait and ask exactly what this one asks, newest first, as many as a list holds. */
export function Alike({ session, approval: { id, group }, alike }: Same) {
  const others = alike.filter((other) => other.id !== id)
  const all = alike.length < LIMITS.page ? `all ${alike.length}` : 'all of them'
  return (
    <details class="fold" id="alike">
      <summary>
        {alike.length < LIMITS.page ? alike.length : `${LIMITS.page} or more`} ask exactly this: answer {all}
      </summary>
      <p class="quiet">
        The same agent asks for the same tool with the same arguments and plan. Each is answered by itself,
        for its call alone; what is asked from now on is not.
      </p>
      <ul>
        {others.map((other) => (
          <li>
            <a href={`/console/approvals/${other.id}`}>
              asked <Time ms={other.requested_at} />
            </a>
          </li>
        ))}
      </ul>
      <form method="post" action="/console/approvals">
        <FormToken session={session} />
        <input type="hidden" name="id" value={allOf(group, alike[0]?.id ?? id)} />
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

/** `note`: why it is not as it was wanted, where it is not. */
export type Answered = { id: string; title: string; what: string; note: string | null }

const DONE = { approve: 'approved', deny: 'denied' } as const

export function answeredPage(session: Session, decision: Answer['decision'], answered: readonly Answered[]) {
  const done = answered.filter(({ note }) => note === null).length
  return (
    <ConsolePage title={decision === 'approve' ? 'Approved' : 'Denied'} session={session}>
      <section class={`outcome ${DONE[decision]}`} role="status">
        <h1>
          {done} of {answered.length} {DONE[decision]}
        </h1>
        {answered.length === 0 ? <p>Nothing was chosen, or it waits no more.</p> : ''}
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
          <p>These are as many as are answered at once; look at the inbox for the rest.</p>
        )}
      </section>
      <a class="back" href="/console">
        Back to the inbox
      </a>
    </ConsolePage>
  )
}
