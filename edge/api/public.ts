// Verbs that need no key: keys and log for auditors, health for machines, documentation for people.

import evidenceFormat from '../../docs/evidence.md'
import { KEYS_FORMAT } from '../../shared/evidence/keys.ts'
import { failure } from '../../shared/failures.ts'
import { INSTALLATION_LOG } from '../../shared/ids.ts'
import { err, ok } from '../../shared/result.ts'
import type { Env } from '../bindings.ts'
import {
  DEFAULT_TENANT,
  identityOf,
  installationObject,
  logObject,
  poolObject,
  tenantObject,
} from '../bindings.ts'
import { FORMAT_NAMES, schemaOf } from '../http/evidence-formats.ts'
import { isTenant } from '../http/known-tenants.ts'
import { openapi } from '../http/openapi/document.ts'
import { headersOf } from '../http/response-headers.ts'
import { docsPage } from '../pages/api-docs/page.tsx'
import { engineAnswers } from '../policy/engine.ts'
import { METRICS_TYPE, openMetrics } from '../tenant/metrics.ts'
import type { Verbs } from './verb.ts'

type RouteNames =
  | 'keys'
  | 'attestationFormat'
  | 'evidenceSchema'
  | 'logCheckpoint'
  | 'logTile'
  | 'logProof'
  | 'logWitnesses'
  | 'healthz'
  | 'readyz'
  | 'metrics'
  | 'openapi'
  | 'docs'
/** A tile never changes: hashes that the log has are the same in every later tile. */
const IMMUTABLE = {
  ...headersOf('application/octet-stream'),
  'cache-control': 'public, max-age=31536000, immutable',
}
const noTenant = err(failure('not_found', 'no such tenant'))
/** The installation has its own log, under a name that no tenant may have. */
const hasLog = async (env: Env, tenant: string): Promise<boolean> =>
  tenant === INSTALLATION_LOG || isTenant(env, tenant)

export const openRoutes: Verbs<RouteNames> = {
  async keys({ env, query: { tenant } }) {
    if (!(await isTenant(env, tenant))) return noTenant
    const { edgeKeys, keyChain } = identityOf(env)
    const keys = [...edgeKeys, ...(await tenantObject(env, tenant).workerKeys())]
    return ok({ format: KEYS_FORMAT, tenant, keys, chain: [...keyChain] })
  },
  async attestationFormat() {
    return ok(new Response(evidenceFormat, { headers: headersOf('text/plain; charset=utf-8') }))
  },
  async evidenceSchema({ params: { name } }) {
    const schema = name.endsWith('.json') ? schemaOf(name.slice(0, -5)) : undefined
    return schema === undefined
      ? err(failure('not_found', `there is no such schema; there are ${FORMAT_NAMES.join(', ')}`))
      : ok(new Response(schema, { headers: headersOf('application/schema+json') }))
  },

  async logCheckpoint({ env, params: { tenant } }) {
    if (!(await hasLog(env, tenant))) return noTenant
    const note = await logObject(env, tenant).checkpoint()
    return ok(new Response(note, { headers: headersOf('text/plain; charset=utf-8') }))
  },
  async logTile({ env, params: { tenant, tile } }) {
    if (!(await hasLog(env, tenant))) return noTenant
    const bytes = await logObject(env, tenant).tile(tile)
    return bytes === null
      ? err(failure('not_found', 'the log has not reached this tile'))
      : ok(new Response(bytes, { headers: IMMUTABLE }))
  },
  async logProof({ env, params: { tenant, call } }) {
    if (!(await hasLog(env, tenant))) return noTenant
    const proof = await logObject(env, tenant).inclusionOf(call, 'newest')
    return proof === null
      ? err(
          failure(
            'not_found',
            'the log does not have the end of this call; it gets it about a second after the call ends',
          ),
        )
      : ok(proof)
  },

  async logWitnesses({ env, params: { tenant } }) {
    return (await hasLog(env, tenant)) ? ok({ items: await logObject(env, tenant).witnesses() }) : noTenant
  },

  async healthz() {
    return ok({ ok: true as const })
  },
  async readyz({ env }) {
    const store =
      (await installationObject(env).has(DEFAULT_TENANT)) &&
      (await tenantObject(env, DEFAULT_TENANT).directory(-1)) !== null
    const queue = await poolObject(env, DEFAULT_TENANT, 'default').ready()
    if (!engineAnswers())
      return err(failure('unavailable', 'the policy engine does not answer; restart the edge'))
    if (!store || !queue)
      return err(failure('unavailable', store ? 'Redis does not answer' : 'the store does not answer'))
    return ok({ ok: true, store, queue })
  },
  async metrics({ env }) {
    const ended = await logObject(env, DEFAULT_TENANT).endedCalls()
    const text = openMetrics(ended, await tenantObject(env, DEFAULT_TENANT).figures())
    return ok(new Response(text, { headers: headersOf(METRICS_TYPE) }))
  },

  async openapi({ env }) {
    return ok(
      new Response(JSON.stringify(openapi(env.PUBLIC_URL)), {
        headers: headersOf('application/openapi+json'),
      }),
    )
  },
  async docs({ env }) {
    return ok(docsPage(env.PUBLIC_URL))
  },
}
