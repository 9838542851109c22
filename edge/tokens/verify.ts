// Verifies a token of an agent: the checks of RFC 8725 in one order, from cheap to costly, ending
// with the tenant's own rules. Keys of issuers are cached in this isolate.

import { failure } from '../../shared/failures.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import { type Env, tenantObject } from '../bindings.ts'
import type { LoadedDirectory } from '../directory/loaded-directory.ts'
import type { TrustedIssuer } from '../directory/trusted-issuer.ts'
import { checkClaims } from './claims.ts'
import { checkSignature, importKeys, type Keys } from './signature.ts'
import type { Refusal, UnverifiedToken } from './token.ts'
import { refuse } from './token.ts'
import type { VerifiedToken } from './token-cache.ts'

const UNREACHABLE = failure(
  'unavailable',
  'the keys of the token’s issuer could not be fetched; try again shortly',
)

/**
 * The outer result is a failure if nothing could be judged; the inner one says why a token is
 * refused.
 */
export async function verifyToken(
  env: Env,
  directory: LoadedDirectory,
  token: UnverifiedToken,
  now: number,
): Promise<Result<Result<VerifiedToken, Refusal>>> {
  const { iss } = token.claims
  const issuer = typeof iss === 'string' ? directory.issuers.get(iss) : undefined
  if (issuer === undefined)
    return ok(refuse('issuer', '`iss` is not exactly equal to any issuer of this tenant'))
  if (!issuer.spec.algorithms.includes(token.algorithm))
    return ok(refuse('algorithm', `the issuer may not sign with ${token.algorithm}`))
  const checked = await checkWithKeys(env, directory, issuer, token, now)
  if (!checked.ok) return checked
  const { signature, askAt } = checked.value
  if (signature === 'unknown_key')
    return ok(refuse('key', 'no key of the issuer fits the `kid` and `alg` of the token'))
  if (signature === 'wrong')
    return ok(
      refuse(
        'signature',
        'the signature is wrong, its key is too weak, or several keys fit and no `kid` selects one',
      ),
    )
  const matched = checkClaims(token.claims, issuer, now)
  if (!matched.ok) return ok(matched)
  const { agent: name, actor, expiresAt } = matched.value
  const agent = directory.agents.get(name)
  if (agent === undefined || agent.since !== issuer.agents[name])
    return ok(
      refuse(
        'agent_gone',
        `the agent \`${name}\` was removed after the issuer was stored; store the issuer again`,
      ),
    )
  return ok(ok({ agent, issuer: issuer.name, actor, expiresAt, until: Math.min(expiresAt, askAt) }))
}

type CachedKeys = { readonly keys: Keys; readonly askAt: number; readonly unknownAt: number }
type CheckedSignature = {
  readonly signature: Awaited<ReturnType<typeof checkSignature>>
  readonly askAt: number
}

/** Fetches the keys again if none fits; the TenantObject limits how often. */
async function checkWithKeys(
  env: Env,
  directory: LoadedDirectory,
  issuer: TrustedIssuer,
  token: UnverifiedToken,
  now: number,
): Promise<Result<CheckedSignature>> {
  const first = await keysOf(env, directory, issuer, now, false)
  if (!first.ok) return first
  const signature = await checkSignature(token, first.value.keys)
  if (signature !== 'unknown_key' || now < first.value.unknownAt)
    return ok({ signature, askAt: first.value.askAt })
  const second = await keysOf(env, directory, issuer, now, true)
  if (!second.ok) return second
  return ok({
    signature: await checkSignature(token, second.value.keys),
    askAt: second.value.askAt,
  })
}

/**
 * Keyed by the directory's object for the issuer, so that a changed issuer gets no keys of its
 * former version.
 */
const fetched = new WeakMap<TrustedIssuer['spec'], CachedKeys>()

async function keysOf(
  env: Env,
  { tenant }: LoadedDirectory,
  { name, spec }: TrustedIssuer,
  now: number,
  unknown: boolean,
): Promise<Result<CachedKeys>> {
  const known = fetched.get(spec)
  if (known !== undefined && !unknown && now < known.askAt) return ok(known)
  const fresh =
    typeof spec.jwks === 'object' && 'keys' in spec.jwks
      ? ok({ keys: spec.jwks.keys, askAt: Number.POSITIVE_INFINITY, unknownAt: Number.POSITIVE_INFINITY })
      : await tenantObject(env, tenant).issuerKeys(name, unknown)
  if (!fresh.ok) return err(UNREACHABLE)
  const cached = { ...fresh.value, keys: importKeys(fresh.value.keys) }
  fetched.set(spec, cached)
  return ok(cached)
}
