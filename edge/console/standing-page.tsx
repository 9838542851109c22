// The standing approvals and denials: what each covers, when it ends, and the button to revoke it.

import type { Standing } from '../../shared/wire/approvals.ts'
import { Prose, Time } from '../pages/approval-page.tsx'
import { escapeConfusables } from '../platform/visible-text.ts'
import { ConsolePage, FormToken } from './frame.tsx'
import type { Session } from './session.ts'

type ListedStanding = Standing & { live: boolean }

const NAMES = { approve: 'Approval', deny: 'Denial' } as const

export function standingPage(session: Session, standing: readonly ListedStanding[], mayRevoke: boolean) {
  return (
    <ConsolePage title="Standing answers" session={session} place="/console/standing">
      <h1>Standing answers</h1>
      <p class="quiet">
        Each of these answers also applies to similar calls. Once you revoke one, no further call starts
        because of it. A call that is already running continues.
      </p>
      {standing.length === 0 ? (
        <p class="empty">No standing answers. Each call that needs a human asks for its own approval.</p>
      ) : (
        <form method="post" action="/console/standing">
          <FormToken session={session} />
          <ul class="cards">
            {standing.map((one) => (
              <Card standing={one} mayRevoke={mayRevoke} />
            ))}
          </ul>
        </form>
      )}
    </ConsolePage>
  )
}

function Card({ standing, mayRevoke }: { standing: ListedStanding; mayRevoke: boolean }) {
  const { id, decision, tool, agent, covers, until_ms, live, by, channel, at_ms, reason, approval } = standing
  const look = decision === 'approve' ? 'low' : 'high'
  return (
    <li class={`card ${live ? look : 'medium'}`} id={id}>
      <h2 id={`of-${id}`}>
        {NAMES[decision]} of <code>{tool.name}</code> for {agent}
      </h2>
      <p class="tags">
        <span class={`tag ${look}`}>{decision === 'approve' ? 'approval' : 'denial'}</span>
        {live ? '' : <span class="tag medium">not in effect</span>}
        <span>
          until <Time ms={until_ms} />
        </span>
      </p>
      {live ? (
        ''
      ) : (
        <p>
          This answer currently covers nothing, because the tool, the policies, the agent or the operator’s
          permission to answer has changed since it was given.
        </p>
      )}
      <p>
        <Prose text={covers} />.
      </p>
      <p class="quiet">
        Given by {by} ({channel}), <Time ms={at_ms} />, to{' '}
        <a href={`/console/approvals/${approval}`}>this request</a>
        {reason === '' ? '.' : `: ${escapeConfusables(reason)}`}
      </p>
      {mayRevoke ? (
        <button type="submit" class="plain" name="id" value={id} aria-describedby={`of-${id}`}>
          Revoke
        </button>
      ) : (
        ''
      )}
    </li>
  )
}

export function takenBackPage(session: Session, { decision, tool, agent, covers }: Standing) {
  return (
    <ConsolePage title="Revoked" session={session}>
      <section class="outcome approved" role="status">
        <h1>Revoked</h1>
        <p>
          The standing {NAMES[decision].toLowerCase()} of <code>{tool.name}</code> for {agent} no longer
          applies. No further call starts because of it.
        </p>
        <p>
          It covered <Prose text={covers} inside />.
        </p>
      </section>
      <a class="back" href="/console/standing">
        Back to the standing answers
      </a>
    </ConsolePage>
  )
}
