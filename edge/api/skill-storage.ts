// Verbs of operators on the storage of skills. The storage of an unknown skill is empty.

import { ok } from '../../shared/result.ts'
import { skillObject } from '../bindings.ts'
import type { Verbs } from './verb.ts'

export const skillStorageRoutes: Verbs<'readSkillStorage' | 'clearSkillStorage'> = {
  async readSkillStorage({ env, caller, params, query }) {
    return ok(await skillObject(env, caller.directory.tenant, params.id).kept(query.after))
  },
  async clearSkillStorage({ env, caller, params }) {
    const { tenant } = caller.directory
    return ok(
      await skillObject(env, tenant, params.id).clear({
        tenant,
        skill: params.id,
        by: caller.principal.name,
      }),
    )
  },
}
