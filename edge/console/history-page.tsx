// The latest approvals and their outcomes, newest first.

import { LIMITS } from '../../shared/limits.ts'
import type { Approval } from '../../shared/wire/approvals.ts'
import { Time } from '../pages/approval-page.tsx'
import { escapeConfusables } from '../platform/visible-text.ts'
import { ConsolePage } from './frame.tsx'
import { callSummary } from './inbox-page.tsx'
import type { Session } from './session.ts'

export function historyPage(session: Session, approvals: readonly Approval[]) {
  return (
    <ConsolePage title="History" session={session} place="/console/history">
      <h1>History</h1>
      {approvals.length === 0 ? (
        <p class="empty">Nothing has been answered yet.</p>
      ) : (
        <ul class="cards">
          {approvals.map((approval) => (
            <Entry approval={approval} />
          ))}
        </ul>
      )}
      {approvals.length < LIMITS.page ? (
        ''
      ) : (
        <p class="quiet">
          The latest {LIMITS.page} approvals. The journal of a run has all of its approvals.
        </p>
      )}
    </ConsolePage>
  )
}

const LOOK: Record<Approval['status'], string> = {
  pending: 'medium',
  approved: 'low',
  denied: 'high',
  expired: 'medium',
  cancelled: 'medium',
}

function Entry({ approval: { id, status, prompt, requested_at, answers } }: { approval: Approval }) {
  const last = answers.at(-1)
  return (
    <li class={`card ${LOOK[status]}`}>
      <h2>
        <a href={`/console/approvals/${id}`}>{prompt.title}</a>
      </h2>
      <pre>{callSummary(prompt)}</pre>
      <p class="tags">
        <span class={`tag ${LOOK[status]}`}>{status}</span>
        <span class="quiet">
          requested <Time ms={requested_at} />
        </span>
        {last === undefined ? (
          ''
        ) : (
          <span class="quiet">
            answered by {answers.map(({ by }) => by).join(', ')} ({last.channel}), <Time ms={last.at_ms} />
          </span>
        )}
      </p>
      {last === undefined || last.reason === '' ? '' : <p class="quiet">{escapeConfusables(last.reason)}</p>}
    </li>
  )
}
