// Verbs of operators on skills and publishers. A package is verified, prepared, and quarantined
// until somebody enables it.

import { failure } from '../../shared/failures.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { RollBack, Skill } from '../../shared/wire/skills.ts'
import type { Env } from '../bindings.ts'
import { tenantSkills } from '../bindings.ts'
import { requirePermission } from '../decision/decide.ts'
import type { Identified } from '../http/intake.ts'
import { openPackage } from '../skills/publish/package.ts'
import { prepareSkill } from '../skills/publish/prepare.ts'
import type { TargetState } from '../tenant/skills/version-store.ts'
import type { Incoming, Verbs } from './verb.ts'

type RouteNames =
  | 'publishSkill'
  | 'listSkills'
  | 'readSkill'
  | 'readSkillPackage'
  | 'enableSkill'
  | 'disableSkill'
  | 'revokeSkill'
  | 'readRollBack'
  | 'rollBackSkill'
  | 'readSkillJournal'
  | 'putPublisher'
  | 'listPublishers'
  | 'putDeniedParts'
  | 'listDeniedParts'
  | 'revokePublisherKey'
  | 'deletePublisher'

type Caller = Pick<Identified, 'directory' | 'principal'>

const CREATE_OPERATOR = '`countersign operators put NAME --roles admin` creates one'
const NO_SKILL = failure('not_found', 'no such version of a skill')

export const skillRoutes: Verbs<RouteNames> = {
  async publishSkill({ env, caller, query: { pin = null }, body }) {
    const may =
      pin === null ? ok(true) : requirePermission(caller.directory, caller.principal, 'publisher.pin')
    if (!may.ok) return may
    const opened = openPackage(body, caller.directory.publishers, pin)
    if (!opened.ok) return opened
    const { manifest, digest, key } = opened.value
    const signed = { x: key, pin: pin !== null }
    const known = await registryOf(env, caller).known(manifest, digest, signed)
    if (!known.ok) return known
    if (known.value !== undefined) return ok(known.value)
    const made = await prepareSkill(env, opened.value)
    if (!made.ok) return made
    const about = { ...made.value.about, published_by: caller.principal.name, published_at_ms: Date.now() }
    return registryOf(env, caller).publish({ ...made.value, about }, signed)
  },

  async listSkills({ env, caller, query: { id, after = '' } }) {
    const skills = await registryOf(env, caller).list(after, id)
    return ok({ items: skills.map(({ manifest: _, ...skill }) => skill) })
  },
  async readSkill({ env, caller, params: { id, version } }) {
    const skill = await registryOf(env, caller).read(id, version)
    return skill === undefined ? err(NO_SKILL) : ok(skill)
  },
  async readSkillPackage({ env, caller, params: { id, version } }) {
    const packed = await registryOf(env, caller).package(id, version)
    return packed === undefined ? err(NO_SKILL) : ok(packed)
  },

  async enableSkill({ env, caller, params, body }) {
    const skill = await registryOf(env, caller).read(params.id, params.version)
    return skill === undefined ? err(NO_SKILL) : enable(env, caller, skill, body.reason)
  },
  async readRollBack({ env, caller, params }) {
    return registryOf(env, caller).before(params.id)
  },
  async rollBackSkill({ env, caller, params, body }) {
    const skill = await registryOf(env, caller).read(params.id, body.to)
    return skill === undefined ? err(NO_SKILL) : rollBack(env, caller, skill, body)
  },
  async disableSkill(incoming) {
    return moveVersion(incoming, 'disabled')
  },
  async revokeSkill(incoming) {
    return moveVersion(incoming, 'revoked')
  },
  async readSkillJournal({ env, caller, query }) {
    return ok({ items: await registryOf(env, caller).journal(query.after) })
  },

  async putDeniedParts({ env, caller, body }) {
    const put = await registryOf(env, caller).putDenied(body.items, caller.principal.name)
    return put.ok ? ok({ items: put.value }) : put
  },
  async listDeniedParts({ env, caller }) {
    return ok({ items: await registryOf(env, caller).denied() })
  },

  async putPublisher({ env, caller, params, body }) {
    return registryOf(env, caller).putPublisher(params.name, body.keys, caller.principal.name)
  },
  async listPublishers({ env, caller }) {
    return ok({ items: await registryOf(env, caller).publishers() })
  },
  async deletePublisher({ env, caller, params }) {
    return registryOf(env, caller).removePublisher(params.name, caller.principal.name)
  },
  async revokePublisherKey({ env, caller, params: { name, kid }, body }) {
    return registryOf(env, caller).revokeKey(name, kid, { by: caller.principal.name, reason: body.reason })
  },
}

const registryOf = (env: Env, { directory }: Caller) => tenantSkills(env, directory.tenant)

const moveVersion = (
  { env, caller, params, body }: Incoming<'disableSkill'>,
  to: TargetState,
): Promise<Result<Skill>> =>
  registryOf(env, caller).move(params.id, params.version, {
    to,
    by: caller.principal.name,
    reason: body.reason,
  })

export async function enable(env: Env, caller: Caller, skill: Skill, reason: string): Promise<Result<Skill>> {
  const may = mayEnable(caller, skill)
  return may.ok
    ? registryOf(env, caller).move(skill.id, skill.version, {
        to: 'enabled',
        by: caller.principal.name,
        reason,
      })
    : may
}

type RollBackRequest = { readonly from: RollBack['from']; readonly reason: string }
/**
 * `from` is the enabled version that the caller has seen; if another one is enabled now, the
 * request is refused.
 */
export async function rollBack(
  env: Env,
  caller: Caller,
  skill: Skill,
  { from, reason }: RollBackRequest,
): Promise<Result<Skill>> {
  const may = mayEnable(caller, skill)
  return may.ok
    ? registryOf(env, caller).rollBack(
        skill.id,
        { from, to: skill.version },
        { by: caller.principal.name, reason },
      )
    : may
}

/**
 * A publisher may not enable their own skill, the first time or later, unless policy permits it.
 */
function mayEnable({ directory, principal }: Caller, { published_by }: Skill): Result<true> {
  const may =
    published_by === principal.name
      ? requirePermission(directory, principal, 'skill.enable_own')
      : ok<true>(true)
  if (may.ok) return may
  return err({
    ...may.error,
    detail: `you published this skill, so another operator has to enable it (${CREATE_OPERATOR}); ${may.error.detail}`,
  })
}
