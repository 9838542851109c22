// Issuers of tokens, as operators store and see them: which JSON Web Tokens (RFC 7519) authenticate
// which agent.

import { z } from 'zod'
import { Actor } from '../evidence/actor.ts'
import { Name, Time } from '../fields.ts'
import { LIMITS } from '../limits.ts'

/**
 * Signature algorithms (RFC 7518, RFC 8037). `none` and HMAC are absent on purpose: with HMAC, a
 * published key would be the secret.
 */
export const ALGORITHMS = [
  'ES256',
  'ES384',
  'EdDSA',
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
] as const
export const Algorithm = z.enum(ALGORITHMS)
export type Algorithm = z.infer<typeof Algorithm>

const Base64Url = z
  .string()
  .max(2_048)
  .regex(/^[A-Za-z0-9_-]+$/, 'must be base64url')
const KeyId = z.string().min(1).max(LIMITS.claim_chars)
/** Members of private keys. A key set that has them is not for others to see. */
const secret = z.never('is a part of a private key; give only the public key').optional()
const keyMembers = {
  kid: KeyId.optional(),
  alg: z.string().max(32).optional(),
  use: z.string().max(32).optional(),
  d: secret,
}
/** A public key as a JWK (RFC 7517). Other members, such as certificates, are dropped. */
export const PublicJwk = z.discriminatedUnion('kty', [
  z.object({
    kty: z.literal('EC'),
    crv: z.enum(['P-256', 'P-384']),
    x: Base64Url,
    y: Base64Url,
    ...keyMembers,
  }),
  z.object({ kty: z.literal('OKP'), crv: z.literal('Ed25519'), x: Base64Url, ...keyMembers }),
  z.object({ kty: z.literal('RSA'), n: Base64Url, e: Base64Url, ...keyMembers }),
])
export type PublicJwk = z.infer<typeof PublicJwk>

const Claim = z.string().min(1).max(LIMITS.claim_chars)
const Url = z.string().min(1).max(LIMITS.channel_url_chars)

/**
 * The required value of a claim: exactly this text, or a text that begins with `prefix`. Of a claim
 * that is a list, one member must.
 */
const ClaimRule = z.union([
  Claim,
  z.strictObject({
    prefix: Claim.regex(
      /[^A-Za-z0-9]$/,
      'must end with a separator such as `/` or `:`, or it matches longer names too',
    ),
  }),
])
export type ClaimRule = z.infer<typeof ClaimRule>

/** Tokens whose claims all match authenticate the agent. */
export const TokenRule = z.strictObject({
  claims: z
    .record(Claim, ClaimRule)
    .refine((claims) => Object.keys(claims).length > 0, 'must name at least one claim')
    .refine(
      (claims) => Object.keys(claims).length <= LIMITS.issuer_claims,
      `must name at most ${LIMITS.issuer_claims} claims`,
    ),
  agent: Name,
})
export type TokenRule = z.infer<typeof TokenRule>

export const IssuerSpec = z.strictObject({
  /** The claim `iss`, compared exactly. */
  issuer: z
    .string()
    .max(LIMITS.issuer_chars)
    .regex(/^[\x21-\x7e]+$/, 'must be printable ASCII without spaces'),
  /**
   * The source of its keys: the key set that its OpenID discovery document names, the set at an
   * address, or the keys themselves.
   */
  jwks: z
    .union([
      z.literal('discovery'),
      z.strictObject({ uri: Url }),
      z.strictObject({ keys: z.array(PublicJwk).min(1).max(LIMITS.issuer_keys) }),
    ])
    .default('discovery'),
  /**
   * The claim `aud` must hold one of them. By default the edge’s address, `/mcp` there, and
   * `/t/{tenant}`.
   */
  audiences: z.array(Claim).min(1).max(LIMITS.issuer_audiences).optional(),
  algorithms: z.array(Algorithm).min(1).max(ALGORITHMS.length).default(['ES256', 'EdDSA', 'RS256', 'PS256']),
  /** The first rule that matches counts. */
  rules: z.array(TokenRule).min(1).max(LIMITS.issuer_rules),
  /** The longest time since the token was issued (`iat`). */
  max_age_s: z.int().min(60).max(LIMITS.token_life_s).optional(),
  /** Claims that a token must have, besides `exp` and `sub`, which all must. */
  require: z.array(Claim).max(LIMITS.issuer_claims).default(['iat']),
  /** Whether the metadata of RFC 9728 names it, so that clients may ask it for a token. */
  advertise: z.boolean().default(true),
})
export type IssuerSpec = z.infer<typeof IssuerSpec>

/** `audiences`: includes those that apply by default. */
export const Issuer = IssuerSpec.extend({
  name: Name,
  audiences: z.array(Claim),
  put_by: Name,
  put_at_ms: Time,
})
export type Issuer = z.infer<typeof Issuer>

/** Why a token is refused. Only operators read it. */
export const TokenFault = z.enum([
  'too_long',
  'malformed',
  'algorithm',
  'header',
  'tenant',
  'issuer',
  'key',
  'signature',
  'audience',
  'missing_claim',
  'expired',
  'not_yet_valid',
  'too_old',
  'lives_too_long',
  'bound',
  'no_rule',
  'agent_gone',
])
export type TokenFault = z.infer<typeof TokenFault>

/** How the edge judges a token now. */
export const TokenVerdict = z.discriminatedUnion('accepted', [
  z.strictObject({
    accepted: z.literal(true),
    /** The name under which the issuer is stored. */
    issuer: Name,
    agent: Name,
    actor: Actor,
    expires_at_ms: Time,
  }),
  z.strictObject({ accepted: z.literal(false), fault: TokenFault, detail: z.string() }),
])
export type TokenVerdict = z.infer<typeof TokenVerdict>
