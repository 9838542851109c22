// What operators may do about what skills keep. A name that is no skill's keeps nothing.

import { ok } from '../../shared/result.ts'
import type { Verbs } from '../app.ts'
import { skillObject } from '../env.ts'

export const skillStorageRoutes: Verbs<'readSkillStorage' | 'clearSkillStorage'> = {
  async readSkillStorage({ env, caller, params, query }) {
    return ok(await skillObject(env, caller.directory.tenant, params.id).kept(query.after))
  },
  async clearSkillStorage({ env, caller, params }) {
    return ok(await skillObject(env, caller.directory.tenant, params.id).clear(caller.principal.name))
  },
}
