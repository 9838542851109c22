// Verbs of the installation's operator. Policy has already permitted the request
// (edge/installation/installation.ts).

import { failure } from '../../shared/failures.ts'
import { err, ok } from '../../shared/result.ts'
import type { TENANTS } from '../../shared/routes/tenants.ts'
import { installationObject } from '../bindings.ts'
import type { Verbs } from './verb.ts'

export const tenantRoutes: Verbs<keyof typeof TENANTS> = {
  async listTenants({ env, query }) {
    return ok({ items: await installationObject(env).list(query.after ?? '') })
  },
  async createTenant({ env, body }) {
    return installationObject(env).create(body)
  },
  async readTenant({ env, params }) {
    return installationObject(env).read(params.tenant)
  },
  async putQuota({ env, params, body }) {
    return installationObject(env).putQuota(params.tenant, body)
  },
  async suspendTenant({ env, params, body }) {
    return installationObject(env).suspend(params.tenant, body.reason)
  },
  async resumeTenant({ env, params, body }) {
    return installationObject(env).resume(params.tenant, body.reason)
  },
  async deleteTenant({ env, params, body }) {
    if (body.name !== params.tenant)
      return err(
        failure(
          'invalid_request',
          '`name` differs from the tenant in the path, so nothing was deleted; repeat the tenant’s name',
        ),
      )
    return installationObject(env).remove(params.tenant, body.without_export)
  },
  async readInstallationJournal({ env, query }) {
    return ok({ items: await installationObject(env).entries(query.after) })
  },
}
