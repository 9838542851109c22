// The skills of a tenant: their versions, which of them is enabled, and which ones wait for a
// decision.

import { LIMITS } from '../../shared/limits.ts'
import type { Skill, SkillState } from '../../shared/wire/skills.ts'
import { Prose, Time } from '../pages/approval-page.tsx'
import { escapeConfusables } from '../platform/visible-text.ts'
import type { ListedSkill } from '../tenant/skills/version-store.ts'
import { ConsolePage } from './frame.tsx'
import type { Session } from './session.ts'

/** The colour of each state. A quarantined version waits for somebody. */
export const LOOK: Record<SkillState, string> = {
  quarantined: 'medium',
  enabled: 'low',
  disabled: 'high',
  revoked: 'high',
}

export function skillsPage(session: Session, skills: readonly ListedSkill[]) {
  const last = skills.at(-1)
  return (
    <ConsolePage title="Skills" session={session} place="/console/skills">
      <h1>Skills</h1>
      <p class="quiet">
        A published version stays in quarantine until somebody other than its publisher enables it. Only one
        version of a skill is enabled at a time.
      </p>
      {skills.length === 0 ? (
        <p class="empty">
          There are no skills yet. Publish one with <code>countersign skill publish</code>.
        </p>
      ) : (
        <ul class="cards">
          {[...Map.groupBy(skills, ({ id }) => id).values()].map((versions) => cardOf(versions))}
        </ul>
      )}
      {last === undefined || skills.length < LIMITS.page ? (
        ''
      ) : (
        <a class="back" href={`/console/skills?after=${last.id}@${last.version}`}>
          Next page
        </a>
      )}
    </ConsolePage>
  )
}

function cardOf(versions: readonly ListedSkill[]) {
  const newest = versions.toSorted((one, other) => other.published_at_ms - one.published_at_ms)
  const shown = newest.find(({ state }) => state === 'enabled') ?? newest[0]
  const waiting = newest.find(({ state }) => state === 'quarantined')
  return shown === undefined ? '' : <Card newest={newest} shown={shown} waiting={waiting} />
}

function Card({
  newest,
  shown,
  waiting,
}: {
  newest: readonly ListedSkill[]
  shown: ListedSkill
  waiting: ListedSkill | undefined
}) {
  return (
    <li class={`card ${waiting === undefined ? LOOK[shown.state] : 'medium'}`} id={shown.id}>
      <h2>
        <a href={pathOf(waiting ?? shown)}>{shown.id}</a>
      </h2>
      <p>{escapeConfusables(shown.manifest.description)}</p>
      {shown.state === 'enabled' && shown.denied.length > 0 ? <Denied denied={shown.denied} /> : ''}
      <p class="quiet">by {shown.manifest.publisher}</p>
      <ul class="versions">
        {newest.map((skill) => (
          <li>
            <a href={pathOf(skill)}>{skill.version}</a>
            <span class={`tag ${LOOK[skill.state]}`}>{skill.state}</span>
            <span class="quiet">
              published <Time ms={skill.published_at_ms} />
            </span>
          </li>
        ))}
      </ul>
    </li>
  )
}

export const pathOf = ({ id, version }: Pick<Skill, 'id' | 'version'>): string =>
  `/console/skills/${id}/${version}`

export function Denied({ denied }: { denied: readonly string[] }) {
  return (
    <div class="alert">
      {denied.map((one) => (
        <p>
          <Prose text={one} />
        </p>
      ))}
    </div>
  )
}
