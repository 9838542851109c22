// Console pages on skills: view versions; enable, disable, revoke and roll them back. Each requires
// the action of the API's route and calls the same code.

import { failure } from '../../../shared/failures.ts'
import type { Result } from '../../../shared/result.ts'
import { err, ok } from '../../../shared/result.ts'
import { CONSOLE } from '../../../shared/routes/console.ts'
import type { Skill } from '../../../shared/wire/skills.ts'
import { SkillRef } from '../../../shared/wire/skills.ts'
import type { Env } from '../../bindings.ts'
import { tenantSkills } from '../../bindings.ts'
import type { Session } from '../../console/session.ts'
import { skillPage } from '../../console/skill-page.tsx'
import { pathOf, skillsPage } from '../../console/skills-page.tsx'
import { html } from '../../pages/approval-page.tsx'
import type { TargetState } from '../../tenant/skills/version-store.ts'
import { reasonField } from '../approval-links.ts'
import { enable, rollBack } from '../skills.ts'
import type { Verbs } from '../verb.ts'
import { form, page, permitted, seeOther } from './session.ts'

export type SkillRouteNames =
  | 'consoleSkills'
  | 'consoleSkill'
  | 'consoleEnable'
  | 'consoleDisable'
  | 'consoleRevoke'
  | 'consoleRollBack'

const NO_SKILL = failure('not_found', 'no such version of a skill')
const registryOf = (env: Env, { directory }: Session) => tenantSkills(env, directory.tenant)

export const consoleSkillRoutes: Verbs<SkillRouteNames> = {
  consoleSkills: page('consoleSkills', async ({ env, query }, session) =>
    ok(html(skillsPage(session, await registryOf(env, session).list(query.after)))),
  ),

  consoleSkill: page('consoleSkill', async ({ env, params }, session) => {
    const skill = await findSkill(env, session, params)
    if (!skill.ok) return skill
    const { id, version } = skill.value
    const enabled = session.directory.skills.get(id)?.version
    const [beside, before] = await Promise.all([
      enabled === undefined || enabled === version ? null : registryOf(env, session).read(id, enabled),
      registryOf(env, session).before(id),
    ])
    const shown = {
      session,
      skill: skill.value,
      beside: beside ?? null,
      before: before.ok ? before.value : null,
    }
    return ok(html(skillPage({ ...shown, may: permissionsFor(session, skill.value) })))
  }),

  consoleEnable: form('consoleEnable', async ({ env, params }, session, given) => {
    const skill = await findSkill(env, session, params)
    return skill.ok ? redirectToSkill(await enable(env, session, skill.value, reasonField(given))) : skill
  }),
  consoleDisable: form('consoleDisable', async ({ env, params }, session, given) =>
    redirectToSkill(await moveVersion(env, session, params, 'disabled', reasonField(given))),
  ),
  consoleRevoke: form('consoleRevoke', async ({ env, params }, session, given) =>
    redirectToSkill(await moveVersion(env, session, params, 'revoked', reasonField(given))),
  ),
  consoleRollBack: form('consoleRollBack', async ({ env, params }, session, given) => {
    const skill = await findSkill(env, session, { id: params.id, version: given.get('to') ?? '' })
    return skill.ok
      ? redirectToSkill(
          await rollBack(env, session, skill.value, { from: given.get('from'), reason: reasonField(given) }),
        )
      : skill
  }),
}

type VersionName = { readonly id: string; readonly version: string }

async function findSkill(env: Env, session: Session, named: VersionName): Promise<Result<Skill>> {
  const ref = SkillRef.safeParse(named)
  const skill = ref.success ? await registryOf(env, session).read(ref.data.id, ref.data.version) : undefined
  return skill === undefined ? err(NO_SKILL) : ok(skill)
}

async function moveVersion(
  env: Env,
  session: Session,
  named: VersionName,
  to: TargetState,
  reason: string,
): Promise<Result<Skill>> {
  const skill = await findSkill(env, session, named)
  if (!skill.ok) return skill
  const { id, version } = skill.value
  return registryOf(env, session).move(id, version, { to, by: session.principal.name, reason })
}

const redirectToSkill = (done: Result<Skill>): Result<Response> =>
  done.ok ? ok(seeOther(pathOf(done.value))) : done

function permissionsFor(session: Session, { published_by }: Skill) {
  const isOwn = published_by === session.principal.name
  return {
    enable: permitted(session, CONSOLE.consoleEnable.action),
    disable: permitted(session, CONSOLE.consoleDisable.action),
    own: isOwn && !permitted(session, 'skill.enable_own'),
  }
}
