// Identifies an agent by a JSON Web Token of one of its tenant's issuers. Every fault has the same
// answer for the caller; operators learn the reason from `testToken`.

import type { Actor } from '../../shared/evidence/actor.ts'
import { failure } from '../../shared/failures.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { TokenVerdict } from '../../shared/wire/issuers.ts'
import type { Env } from '../bindings.ts'
import { DEFAULT_TENANT, identityOf } from '../bindings.ts'
import { directoryOf, SUSPENDED } from '../directory/directory.ts'
import type { AgentPrincipal, LoadedDirectory } from '../directory/loaded-directory.ts'
import { parseToken, refuse, tenantOf } from '../tokens/token.ts'
import type { VerifiedToken } from '../tokens/token-cache.ts'
import { cachedTenant, cachedToken, cacheKey, cacheToken } from '../tokens/token-cache.ts'
import { verifyToken } from '../tokens/verify.ts'
import { isTenant } from './known-tenants.ts'

const REFUSED = {
  ...failure('unauthenticated', 'the token is not accepted'),
  todo: 'get a fresh token; if that is refused too, ask an operator to run `countersign issuers test` on it',
}

/** The header with which a request names the tenant of its token. */
const TENANT_HEADER = 'countersign-tenant'

export const namedTenant = (request: Request): string | null => request.headers.get(TENANT_HEADER)

export type TokenBearer = {
  readonly directory: LoadedDirectory
  readonly principal: AgentPrincipal
  readonly actor: Actor
}

/**
 * The tenant's directory is asked on each request; a token that was verified under it is not
 * verified again.
 */
export async function identifyByToken(
  text: string,
  named: string | null,
  env: Env,
): Promise<Result<TokenBearer>> {
  const key = cacheKey(named, text)
  const tenant = cachedTenant(key)
  if (tenant !== undefined) {
    const directory = await directoryOf(env, tenant)
    const known = cachedToken(key, directory, Date.now())
    if (known !== undefined) return admit(directory, known)
  }
  const parsed = parseToken(text)
  const found = parsed.ok
    ? tenantOf(named, parsed.value.claims, identityOf(env).publicUrl, DEFAULT_TENANT)
    : parsed
  if (!parsed.ok || !found.ok || !(await isTenant(env, found.value))) return err(REFUSED)
  const directory = await directoryOf(env, found.value)
  const verified = await verifyToken(env, directory, parsed.value, Date.now())
  if (!verified.ok) return verified
  if (!verified.value.ok) return err(REFUSED)
  cacheToken(key, directory, verified.value.value)
  return admit(directory, verified.value.value)
}

const admit = (directory: LoadedDirectory, { agent, actor }: VerifiedToken): Result<TokenBearer> =>
  directory.state === 'suspended' ? err(SUSPENDED) : ok({ directory, principal: agent, actor })

/**
 * How a token would be judged now in the operator's own tenant, with the reason. Nothing is cached.
 */
export async function judgeToken(
  text: string,
  directory: LoadedDirectory,
  env: Env,
): Promise<Result<TokenVerdict>> {
  const parsed = parseToken(text)
  if (!parsed.ok) return ok({ accepted: false, ...parsed.error })
  const { claims } = parsed.value
  const tenant = tenantOf(null, claims, identityOf(env).publicUrl, directory.tenant)
  if (!tenant.ok || tenant.value !== directory.tenant)
    return ok({ accepted: false, ...refuse('tenant', '`aud` names another tenant').error })
  const verified = await verifyToken(env, directory, parsed.value, Date.now())
  if (!verified.ok) return verified
  if (!verified.value.ok) return ok({ accepted: false, ...verified.value.error })
  const { issuer, agent, actor, expiresAt } = verified.value.value
  return ok({ accepted: true, issuer, agent: agent.name, actor, expires_at_ms: Math.floor(expiresAt) })
}
