// Checks the claims of a token whose signature holds, in a fixed order: audience (A03), times
// (A04), required claims, rule. Pure.

import type { Json } from '../../shared/bytes/json.ts'
import { sha256 } from '../../shared/bytes/json.ts'
import { Actor } from '../../shared/evidence/actor.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Result } from '../../shared/result.ts'
import { ok } from '../../shared/result.ts'
import type { ClaimRule, TokenRule } from '../../shared/wire/issuers.ts'
import type { TrustedIssuer } from '../directory/trusted-issuer.ts'
import type { Claims, Refusal } from './token.ts'
import { audiencesOf, refuse } from './token.ts'

export type MatchedToken = { readonly agent: string; readonly actor: Actor; readonly expiresAt: number }

export function checkClaims(
  claims: Claims,
  issuer: TrustedIssuer,
  now: number,
): Result<MatchedToken, Refusal> {
  const ours = audiencesOf(claims).some((audience) => issuer.audiences.has(audience))
  if (!ours) return refuse('audience', `\`aud\` contains none of ${[...issuer.audiences].join(', ')}`)
  const times = checkTimes(claims, issuer, now / 1000)
  if (!times.ok) return times
  const missing = issuer.spec.require.find((name) => claims[name] === undefined)
  if (missing !== undefined) return refuse('missing_claim', `the claim \`${missing}\` is required`)
  const actor = actorIn(claims)
  if (!actor.ok) return actor
  if (claims['cnf'] !== undefined)
    return refuse('bound', '`cnf` binds the token to a key, and this edge can’t check who holds it')
  const rule = issuer.spec.rules.find((one) => matches(one, claims))
  if (rule === undefined) return refuse('no_rule', 'no rule of the issuer matches these claims')
  return ok({ agent: rule.agent, actor: actor.value, expiresAt: times.value })
}

/**
 * The actor behind the agent. A claim that we can't read is refused rather than left out, because a
 * policy may depend on it.
 */
function actorIn({ iss, sub, azp, client_id, act, jti }: Claims): Result<Actor, Refusal> {
  const client = azp ?? client_id
  const acting = typeof act === 'object' && act !== null && !Array.isArray(act) ? act['sub'] : act
  if (act !== undefined && typeof acting !== 'string') return refuse('malformed', '`act` has no `sub`')
  if (jti !== undefined && typeof jti !== 'string') return refuse('malformed', '`jti` is not a string')
  const read = Actor.safeParse({
    issuer: iss,
    subject: sub,
    ...(client === undefined ? {} : { client }),
    ...(acting === undefined ? {} : { acting }),
    ...(jti === undefined ? {} : { jti_sha256: sha256(jti) }),
  })
  return read.success
    ? ok(read.data)
    : refuse(
        'missing_claim',
        '`sub`, or another claim that names somebody, is not a string of 1 to 512 characters',
      )
}

/**
 * Returns when the token expires, by the edge's clock in milliseconds, with the tolerated
 * difference.
 */
function checkTimes(claims: Claims, { spec }: TrustedIssuer, now: number): Result<number, Refusal> {
  const [exp, nbf, iat] = [claims['exp'], claims['nbf'], claims['iat']]
  if (typeof exp !== 'number') return refuse('missing_claim', '`exp` is missing or not a number')
  if (!isTimeOrAbsent(nbf) || !isTimeOrAbsent(iat))
    return refuse('malformed', '`nbf` or `iat` is not a number')
  const skew = LIMITS.token_skew_s
  if (now >= exp + skew) return refuse('expired', 'the token has expired')
  if ((nbf ?? 0) > now + skew) return refuse('not_yet_valid', '`nbf` is in the future')
  if ((iat ?? 0) > now + skew) return refuse('not_yet_valid', '`iat` is in the future')
  if (exp - (iat ?? nbf ?? now) > LIMITS.token_life_s)
    return refuse('lives_too_long', `the token lives longer than ${LIMITS.token_life_s} s`)
  if (spec.max_age_s === undefined) return ok((exp + skew) * 1000)
  if (iat === undefined) return refuse('missing_claim', '`iat` is missing, and `max_age_s` needs it')
  const old = iat + spec.max_age_s + skew
  return now >= old
    ? refuse('too_old', `the token was issued more than ${spec.max_age_s} s ago`)
    : ok(Math.min(exp + skew, old) * 1000)
}

const isTimeOrAbsent = (value: Json | undefined): value is number | undefined =>
  value === undefined || typeof value === 'number'

const matches = ({ claims: wanted }: TokenRule, claims: Claims): boolean =>
  Object.entries(wanted).every(([name, rule]) => {
    const value = Object.hasOwn(claims, name) ? claims[name] : undefined
    return (Array.isArray(value) ? value : [value]).some((one) => typeof one === 'string' && fits(rule, one))
  })

const fits = (rule: ClaimRule, value: string): boolean =>
  typeof rule === 'string' ? value === rule : value.startsWith(rule.prefix)
