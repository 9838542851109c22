// The answers that stand for further calls: what each covers in words, until when, and the way to take it back.

import type { Standing } from '../../shared/wire/approvals.ts'
import { Prose, Time } from '../pages/approval-page.tsx'
import { written } from '../platform/visible-text.ts'
import { ConsolePage, FormToken } from './frame.tsx'
import type { Session } from './session.ts'

type Listed = Standing & { live: boolean }

const SAYS = { approve: 'Yes', deny: 'No' } as const

export function standingPage(session: Session, standing: readonly Listed[], mayRevoke: boolean) {
  return (
    <ConsolePage title="Standing answers" session={session} place="/console/standing">
      <h1>Standing answers</h1>
      <p class="quiet">
        Given once, they hold for further calls of their kind. Nothing begins under one that is taken back;
        what runs already goes on.
      </p>
      {standing.length === 0 ? (
        <p class="empty">Nothing stands. Each call that needs a human is asked about.</p>
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

function Card({ standing, mayRevoke }: { standing: Listed; mayRevoke: boolean }) {
  const { id, decision, tool, agent, covers, until_ms, live, by, channel, at_ms, reason, approval } = standing
  const look = decision === 'approve' ? 'low' : 'high'
  return (
    <li class={`card ${live ? look : 'medium'}`} id={id}>
      <h2 id={`of-${id}`}>
        {SAYS[decision]} to <code>{tool.name}</code> for {agent}
      </h2>
      <p class="tags">
        <span class={`tag ${look}`}>{decision === 'approve' ? 'approval' : 'denial'}</span>
        {live ? '' : <span class="tag medium">dormant</span>}
        <span>
          until <Time ms={until_ms} />
        </span>
      </p>
      {live ? (
        ''
      ) : (
        <p>
          As things are it covers nothing: the tool, the policies, the agent or who may answer have changed
          since it was given.
        </p>
      )}
      <p>
        <Prose text={covers} />.
      </p>
      <p class="quiet">
        Given by {by} ({channel}), <Time ms={at_ms} />, to{' '}
        <a href={`/console/approvals/${approval}`}>this question</a>
        {reason === '' ? '.' : `: ${written(reason)}`}
      </p>
      {mayRevoke ? (
        <button type="submit" class="plain" name="id" value={id} aria-describedby={`of-${id}`}>
          Take it back
        </button>
      ) : (
        ''
      )}
    </li>
  )
}

export function takenBackPage(session: Session, { decision, tool, agent, covers }: Standing) {
  return (
    <ConsolePage title="Taken back" session={session}>
      <section class="outcome approved" role="status">
        <h1>Taken back</h1>
        <p>
          The {SAYS[decision].toLowerCase()} to <code>{tool.name}</code> for {agent} stands no more: nothing
          begins under it.
        </p>
        <p>
          It covered <Prose text={covers} inside />.
        </p>
      </section>
      <a class="back" href="/console/standing">
        Back to what stands
      </a>
    </ConsolePage>
  )
}
