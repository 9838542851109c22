// Verbs that try a policy set without enforcing it: on past calls (rehearsal) and on new ones
// (shadow).

import { failure } from '../../shared/failures.ts'
import { err, ok } from '../../shared/result.ts'
import type { Output } from '../../shared/routes/client.ts'
import type { Env } from '../bindings.ts'
import { logObject, tenantObject } from '../bindings.ts'
import { allWarnings } from '../policy/lint.ts'
import { candidateOf } from '../rehearsal/candidate.ts'
import { rehearse } from '../rehearsal/over-log.ts'
import type { Verbs } from './verb.ts'

export const rehearsalRoutes: Verbs<'rehearsePolicyVersion' | 'readPolicyShadow' | 'putPolicyShadow'> = {
  async rehearsePolicyVersion({ env, caller: { directory }, params: { version }, body }) {
    const candidate = await candidateOf(env, directory, version)
    if (!candidate.ok) return candidate
    const log = logObject(env, directory.tenant)
    const until = await log.startRehearsal()
    if (until === null)
      return err(failure('conflict', 'another rehearsal is running; try again when it has ended'))
    try {
      return ok(await rehearse(env, directory, { version, ...body }))
    } finally {
      await log.endRehearsal(until)
    }
  },

  async readPolicyShadow({ env, caller: { directory } }) {
    return ok(await shadowReport(env, directory.tenant))
  },

  async putPolicyShadow({ env, caller: { directory, principal }, body: { version } }) {
    const fit = version === null ? ok(directory) : await candidateOf(env, directory, version)
    if (!fit.ok) return fit
    const put = await tenantObject(env, directory.tenant).shadowPolicies(version, principal.name)
    if (!put.ok) return put
    const warnings = version === null ? [] : allWarnings(put.value, fit.value.policies, fit.value)
    return ok({ ...(await shadowReport(env, directory.tenant)), warnings })
  },
}

async function shadowReport(env: Env, tenant: string): Promise<Output<'readPolicyShadow'>> {
  const shadow = await tenantObject(env, tenant).policyShadow()
  if (shadow === null)
    return { version: null, since_ms: null, by: null, calls: 0, differ: 0, counts: [], latest: [] }
  const { version, since, by } = shadow
  const { counts, latest } = await logObject(env, tenant).shadowed(since)
  const sum = (some: typeof counts) => some.reduce((all, { count }) => all + count, 0)
  const differ = sum(counts.filter(({ from, to }) => from !== to))
  return { version, since_ms: since, by, calls: sum(counts), differ, counts, latest }
}
