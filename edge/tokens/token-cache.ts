// Tokens that this isolate has verified, so that a request with a known token costs one hash.

import { sha256 } from '../../shared/bytes/json.ts'
import type { Actor } from '../../shared/evidence/actor.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { AgentPrincipal, LoadedDirectory } from '../directory/loaded-directory.ts'

/** `until`: when it has to be verified again, by the edge's clock. */
export type VerifiedToken = {
  readonly agent: AgentPrincipal
  readonly issuer: string
  readonly actor: Actor
  readonly expiresAt: number
  readonly until: number
}

/** The token and, if its request named one, the tenant. */
type CacheKey = string
type CachedToken = { readonly tenant: string; readonly version: number; readonly verified: VerifiedToken }
const verifiedTokens = new Map<CacheKey, CachedToken>()

export const cacheKey = (named: string | null, text: string): CacheKey => sha256(`${named ?? ''} ${text}`)

/** The tenant in which the token was verified before. */
export const cachedTenant = (key: CacheKey): string | undefined => verifiedTokens.get(key)?.tenant

/**
 * A token that was verified under this version of the directory and has not expired since (A08).
 */
export function cachedToken(
  key: CacheKey,
  directory: LoadedDirectory,
  now: number,
): VerifiedToken | undefined {
  const known = verifiedTokens.get(key)
  const holds =
    known?.tenant === directory.tenant && known.version === directory.version && now < known.verified.until
  return holds ? known.verified : undefined
}

export function cacheToken(
  key: CacheKey,
  { tenant, version }: LoadedDirectory,
  verified: VerifiedToken,
): void {
  verifiedTokens.delete(key)
  verifiedTokens.set(key, { tenant, version, verified })
  const oldest = verifiedTokens.keys().next()
  if (verifiedTokens.size > LIMITS.tokens_cached && !oldest.done) verifiedTokens.delete(oldest.value)
}
