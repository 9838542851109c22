// What operators do in a browser about skills: look at versions, and enable, disable, revoke and roll them back. Behind the doors, one verb →
// a page. Each does what the API's route does, under the same action.

import { failure } from '../../shared/failures.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import { CONSOLE } from '../../shared/routes/console.ts'
import type { Skill } from '../../shared/wire/skills.ts'
import { SkillRef } from '../../shared/wire/skills.ts'
import type { Env } from '../bindings.ts'
import { tenantSkills } from '../bindings.ts'
import type { Session } from '../console/session.ts'
import { skillPage } from '../console/skill-page.tsx'
import { pathOf, skillsPage } from '../console/skills-page.tsx'
import { html } from '../pages/approval-page.tsx'
import type { Moved } from '../tenant/skills/version-store.ts'
import { reasonIn } from './approval-links.ts'
import { form, page, permitted, seeOther } from './console-session.ts'
import { enable, rollBack } from './skills.ts'
import type { Verbs } from './verb.ts'

export type SkillNames =
  | 'consoleSkills'
  | 'consoleSkill'
  | 'consoleEnable'
  | 'consoleDisable'
  | 'consoleRevoke'
  | 'consoleRollBack'

const NO_SKILL = failure('not_found', 'no such version of a skill')
const here = (env: Env, { directory }: Session) => tenantSkills(env, directory.tenant)

export const consoleSkillRoutes: Verbs<SkillNames> = {
  consoleSkills: page('consoleSkills', async ({ env, query }, session) =>
    ok(html(skillsPage(session, await here(env, session).list(query.after)))),
  ),

  consoleSkill: page('consoleSkill', async ({ env, params }, session) => {
    const skill = await wanted(env, session, params)
    if (!skill.ok) return skill
    const { id, version } = skill.value
    const enabled = session.directory.skills.get(id)?.version
    const [beside, before] = await Promise.all([
      enabled === undefined || enabled === version ? null : here(env, session).read(id, enabled),
      here(env, session).before(id),
    ])
    const shown = {
      session,
      skill: skill.value,
      beside: beside ?? null,
      before: before.ok ? before.value : null,
    }
    return ok(html(skillPage({ ...shown, may: mayOf(session, skill.value) })))
  }),

  consoleEnable: form('consoleEnable', async ({ env, params }, session, given) => {
    const skill = await wanted(env, session, params)
    return skill.ok ? shownAt(await enable(env, session, skill.value, reasonIn(given))) : skill
  }),
  consoleDisable: form('consoleDisable', async ({ env, params }, session, given) =>
    shownAt(await moved(env, session, params, 'disabled', reasonIn(given))),
  ),
  consoleRevoke: form('consoleRevoke', async ({ env, params }, session, given) =>
    shownAt(await moved(env, session, params, 'revoked', reasonIn(given))),
  ),
  consoleRollBack: form('consoleRollBack', async ({ env, params }, session, given) => {
    const skill = await wanted(env, session, { id: params.id, version: given.get('to') ?? '' })
    return skill.ok
      ? shownAt(
          await rollBack(env, session, skill.value, { from: given.get('from'), reason: reasonIn(given) }),
        )
      : skill
  }),
}

type Named = { readonly id: string; readonly version: string }

async function wanted(env: Env, session: Session, named: Named): Promise<Result<Skill>> {
  const ref = SkillRef.safeParse(named)
  const skill = ref.success ? await here(env, session).read(ref.data.id, ref.data.version) : undefined
  return skill === undefined ? err(NO_SKILL) : ok(skill)
}

async function moved(
  env: Env,
  session: Session,
  named: Named,
  to: Moved,
  reason: string,
): Promise<Result<Skill>> {
  const skill = await wanted(env, session, named)
  if (!skill.ok) return skill
  const { id, version } = skill.value
  return here(env, session).move(id, version, { to, by: session.principal.name, reason })
}

const shownAt = (done: Result<Skill>): Result<Response> => (done.ok ? ok(seeOther(pathOf(done.value))) : done)

function mayOf(session: Session, { published_by }: Skill) {
  const isOwn = published_by === session.principal.name
  return {
    enable: permitted(session, CONSOLE.consoleEnable.action),
    disable: permitted(session, CONSOLE.consoleDisable.action),
    own: isOwn && !permitted(session, 'skill.enable_own'),
  }
}
