// Reads a JSON Web Token (RFC 7515, RFC 7519) up to the point where its signature can be checked:
// size, three parts, a header that is safe to follow (RFC 8725). Nothing here believes a claim.
// Pure.

import type { Json } from '../../shared/bytes/json.ts'
import { parseJson } from '../../shared/bytes/json.ts'
import { PATTERNS } from '../../shared/ids.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { Algorithm, TokenFault } from '../../shared/wire/issuers.ts'
import { ALGORITHMS } from '../../shared/wire/issuers.ts'
import { tenantInAudience } from '../directory/trusted-issuer.ts'

/** Why a token is refused. Operators may read it; callers get one answer for all faults. */
export type Refusal = { readonly fault: TokenFault; readonly detail: string }
export const refuse = (fault: TokenFault, detail: string) => err<Refusal>({ fault, detail })

export type Claims = Readonly<Record<string, Json>>
/** A token whose signature nobody has checked. */
export type UnverifiedToken = {
  readonly text: string
  readonly algorithm: Algorithm
  readonly kid: string | undefined
  readonly claims: Claims
}

/** Whether a bearer credential is a token rather than a key. Keys contain no dot. */
export const isToken = (bearer: string): boolean => /^[^.]*\.[^.]*\.[^.]*$/.test(bearer)

const BOUNDS = { bytes: LIMITS.token_bytes, depth: 16, nodes: 1_000 }
const THREE_PARTS = /^([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)$/

export function parseToken(text: string): Result<UnverifiedToken, Refusal> {
  if (text.length > LIMITS.token_bytes)
    return refuse('too_long', `the token has more than ${LIMITS.token_bytes} bytes`)
  const [, first, second] = THREE_PARTS.exec(text) ?? []
  if (first === undefined || second === undefined)
    return refuse('malformed', 'a signed token must have three parts in base64url, joined by dots')
  const header = parsePart(first)
  const claims = parsePart(second)
  if (header === undefined || claims === undefined)
    return refuse('malformed', 'the header or the claims are not a strict JSON object')
  const algorithm = ALGORITHMS.find((name) => name === header['alg'])
  if (algorithm === undefined) return refuse('algorithm', `\`alg\` is not one of ${ALGORITHMS.join(', ')}`)
  const fault = faultInHeader(header)
  if (fault !== undefined) return refuse('header', fault)
  const { kid } = header
  return ok({ text, algorithm, kid: typeof kid === 'string' ? kid : undefined, claims })
}

function parsePart(part: string): Record<string, Json> | undefined {
  const parsed = parseJson(Buffer.from(part, 'base64url'), BOUNDS)
  if (!parsed.ok || typeof parsed.value !== 'object' || parsed.value === null) return undefined
  return Array.isArray(parsed.value) ? undefined : parsed.value
}

/** Members that would make the token name its own key (A02). */
const OWN_KEY = ['jwk', 'jku', 'x5u', 'x5c'] as const
/**
 * Types of access tokens, ID tokens and workload tokens. Logout and security event tokens have
 * others.
 */
const TYPES: ReadonlySet<Json | undefined> = new Set([undefined, 'jwt', 'at+jwt', 'jose'])

function faultInHeader(header: Record<string, Json>): string | undefined {
  const own = OWN_KEY.find((name) => name in header)
  if (own !== undefined) return `the header has \`${own}\`: a token may not bring its own key`
  if ('crit' in header) return 'the header has `crit`: no extension is supported'
  if ('kid' in header && typeof header['kid'] !== 'string') return '`kid` is not a string'
  const { typ } = header
  const type = typeof typ === 'string' ? typ.toLowerCase().replace(/^application\//, '') : typ
  return TYPES.has(type) ? undefined : '`typ` says that this is not an access token'
}

/** The values of `aud`, which is one text or a list (RFC 7519 §4.1.3). */
export const audiencesOf = ({ aud }: Claims): readonly string[] =>
  (Array.isArray(aud) ? aud : [aud]).filter((one) => typeof one === 'string')

/**
 * The tenant whose issuers have to confirm a token: the one that the request names, else the one in
 * the audience. A false name authenticates nobody, because only that tenant's own issuers count
 * (A07).
 */
export function tenantOf(
  named: string | null,
  claims: Claims,
  publicUrl: string,
  byDefault: string,
): Result<string, Refusal> {
  const found = audiencesOf(claims).map((audience) => tenantInAudience(publicUrl, audience))
  const tenant = named ?? found.find((name) => name !== undefined) ?? byDefault
  return PATTERNS.tenant.test(tenant) ? ok(tenant) : refuse('tenant', 'the name of the tenant is malformed')
}
