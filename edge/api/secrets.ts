// Verbs of operators on secrets. No verb returns a value.

import { ok } from '../../shared/result.ts'
import { tenantObject } from '../bindings.ts'
import type { Verbs } from './verb.ts'

export const secretRoutes: Verbs<'listSecrets' | 'putSecret' | 'deleteSecret'> = {
  async listSecrets({ env, caller: { directory } }) {
    return ok({ items: await tenantObject(env, directory.tenant).listSecrets() })
  },
  async putSecret({ env, caller: { directory, principal }, params, body }) {
    return tenantObject(env, directory.tenant).putSecret(params.name, body, principal.name)
  },
  async deleteSecret({ env, caller: { directory, principal }, params }) {
    return tenantObject(env, directory.tenant).deleteSecret(params.name, principal.name)
  },
}
