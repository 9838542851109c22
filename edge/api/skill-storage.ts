// Verbs of operators on the storage of skills. The storage of an unknown skill is empty, and no object
// is made for it: objects are not in the tenant's quota.

import { ok } from '../../shared/result.ts'
import type { Env } from '../bindings.ts'
import { skillObject, tenantSkills } from '../bindings.ts'
import type { Verbs } from './verb.ts'

const EMPTY = { keys: 0, bytes: 0 }

async function storageOf(env: Env, tenant: string, skill: string) {
  const [version] = await tenantSkills(env, tenant).list('', skill)
  return version === undefined ? undefined : skillObject(env, tenant, skill)
}

export const skillStorageRoutes: Verbs<'readSkillStorage' | 'clearSkillStorage'> = {
  async readSkillStorage({ env, caller, params, query }) {
    const storage = await storageOf(env, caller.directory.tenant, params.id)
    return ok((await storage?.kept(query.after)) ?? { ...EMPTY, items: [], clearings: [] })
  },
  async clearSkillStorage({ env, caller, params }) {
    const { tenant } = caller.directory
    const [skill, by] = [params.id, caller.principal.name]
    const storage = await storageOf(env, tenant, skill)
    return ok((await storage?.clear({ tenant, skill, by })) ?? { ...EMPTY, by, at_ms: Date.now() })
  },
}
