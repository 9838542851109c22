// Tells clients which issuers give tokens (RFC 9728): the metadata document, and the challenge of a
// 401 that leads there. Without an issuer there is neither, because a client would begin a sign-in
// that can't end.

import { failure } from '../../shared/failures.ts'
import { PATTERNS } from '../../shared/ids.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { Env } from '../bindings.ts'
import { DEFAULT_TENANT, identityOf } from '../bindings.ts'
import { directoryOf } from '../directory/directory.ts'
import type { LoadedDirectory } from '../directory/loaded-directory.ts'
import { isTenant } from './known-tenants.ts'
import { namedTenant } from './token-bearer.ts'

type Metadata = {
  resource: string
  authorization_servers: string[]
  bearer_methods_supported: 'header'[]
  resource_name: string
}
const NONE = failure('not_found', 'no issuer of tokens is advertised here; send a key')

const advertised = ({ issuers }: LoadedDirectory): string[] =>
  [...issuers.values()].filter(({ spec }) => spec.advertise).map(({ spec }) => spec.issuer)

/** `path` is the protected resource below the edge's address. */
export async function resourceMetadata(env: Env, tenant: string, path: string): Promise<Result<Metadata>> {
  const servers = (await isTenant(env, tenant)) ? advertised(await directoryOf(env, tenant)) : []
  return servers.length === 0
    ? err(NONE)
    : ok({
        resource: `${identityOf(env).publicUrl}${path}`,
        authorization_servers: servers,
        bearer_methods_supported: ['header'],
        resource_name: 'Countersign',
      })
}

/** By tenant: whether it advertises an issuer, and until when that counts. In this isolate. */
const known = new Map<string, { readonly advertises: boolean; readonly until: number }>()

/** Anybody can cause a challenge, so look-ups are cached for a moment, and few (G10). */
async function advertisesIssuer(env: Env, tenant: string): Promise<boolean> {
  const now = Date.now()
  const before = known.get(tenant)
  if (before !== undefined && now < before.until) return before.advertises
  known.delete(tenant)
  for (const [name, { until }] of known) if (now >= until) known.delete(name)
  if (known.size >= LIMITS.challenge_tenants) return false
  known.set(tenant, { advertises: false, until: now + LIMITS.challenge_ms }) // while one looks it up, others don't
  const advertises = (await isTenant(env, tenant)) && advertised(await directoryOf(env, tenant)).length > 0
  known.set(tenant, { advertises, until: now + LIMITS.challenge_ms })
  return advertises
}

/**
 * The `WWW-Authenticate` header of a 401 to an agent. `path`: `/mcp`, or nothing for the HTTP API.
 */
export async function challenge(env: Env, request: Request, path: string): Promise<string> {
  const tenant = namedTenant(request) ?? DEFAULT_TENANT
  const realm = 'Bearer realm="countersign"'
  if (!PATTERNS.tenant.test(tenant) || !(await advertisesIssuer(env, tenant))) return realm
  const address = `${identityOf(env).publicUrl}/.well-known/oauth-protected-resource${path}`
  return `${realm}, resource_metadata="${address}${tenant === DEFAULT_TENANT ? '' : `?tenant=${tenant}`}"`
}
