// Tells clients which issuers give tokens (RFC 9728): the metadata document, and the challenge of a
// 401 that leads there. Without an issuer there is neither, because a client would begin a sign-in
// that can't end.

import { failure } from '../../shared/failures.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { Env } from '../bindings.ts'
import { DEFAULT_TENANT, identityOf } from '../bindings.ts'
import type { LoadedDirectory } from '../directory/directory.ts'
import { directoryOf } from '../directory/directory.ts'
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

/**
 * The `WWW-Authenticate` header of a 401 to an agent. `path`: `/mcp`, or nothing for the HTTP API.
 */
export async function challenge(env: Env, request: Request, path: string): Promise<string> {
  const tenant = namedTenant(request) ?? DEFAULT_TENANT
  const realm = 'Bearer realm="countersign"'
  if (!(await isTenant(env, tenant)) || advertised(await directoryOf(env, tenant)).length === 0) return realm
  const address = `${identityOf(env).publicUrl}/.well-known/oauth-protected-resource${path}`
  return `${realm}, resource_metadata="${address}${tenant === DEFAULT_TENANT ? '' : `?tenant=${tenant}`}"`
}
