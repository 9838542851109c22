// Verbs of operators on retention and legal holds.

import { failure } from '../../shared/failures.ts'
import { err, ok } from '../../shared/result.ts'
import type { RETENTION } from '../../shared/routes/retention.ts'
import { KEEP_ALL } from '../../shared/wire/retention.ts'
import { type Env, identityOf, runObject, tenantRetention } from '../bindings.ts'
import type { Identified } from '../http/intake.ts'
import { isRunOf } from '../run/run-id.ts'
import type { Verbs } from './verb.ts'

const NO_RUN = failure('not_found', 'no such run')

export const retentionRoutes: Verbs<keyof typeof RETENTION> = {
  async readRetention({ env, caller }) {
    const rule = await retentionOf(env, caller).rule()
    return ok({ keep: rule?.keep ?? KEEP_ALL, rule })
  },
  async putRetention({ env, caller, body }) {
    return ok(await retentionOf(env, caller).put(body, caller.principal.name))
  },
  async listHolds({ env, caller }) {
    return ok({ items: await retentionOf(env, caller).holds() })
  },
  async putHold({ env, caller, params: { subject }, body }) {
    const { directory, principal } = caller
    if (subject !== 'tenant') {
      if (!isRunOf(directory.tenant, subject, identityOf(env).idKey)) return err(NO_RUN)
      const run = await runObject(env, directory.tenant, subject).readRun(null)
      if (!run.ok) return run
    }
    return retentionOf(env, caller).hold(subject, body.reason, principal.name)
  },
  async liftHold({ env, caller, params, body }) {
    return retentionOf(env, caller).lift(params.subject, body.reason, caller.principal.name)
  },
  async readTenantJournal({ env, caller, query }) {
    return ok({ items: await retentionOf(env, caller).entries(query.after) })
  },
}

const retentionOf = (env: Env, { directory }: Identified) => tenantRetention(env, directory.tenant)
