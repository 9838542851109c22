// The actor behind an agent, as the issuer of its token asserts it. Nobody else has verified it.

import { z } from 'zod'
import { Sha256 } from '../fields.ts'
import { LIMITS } from '../limits.ts'

const Claim = z.string().min(1).max(LIMITS.claim_chars)

export const Actor = z.strictObject({
  /** `iss` */
  issuer: z.string().min(1).max(LIMITS.issuer_chars),
  /** `sub`: the workload, or the person on whose behalf the agent acts. */
  subject: Claim,
  /** `azp` or `client_id`: the application that got the token. */
  client: Claim.optional(),
  /** `act.sub` (RFC 8693): who acts for the subject. */
  acting: Claim.optional(),
  /** Digest of `jti`, which identifies the token to its issuer. */
  jti_sha256: Sha256.optional(),
})
export type Actor = z.infer<typeof Actor>

/** The claims that identify the actor, whatever token they use. */
export function identityOfActor({ jti_sha256: _, ...identity }: Actor): Record<string, string> {
  const known = Object.entries(identity).filter((entry): entry is [string, string] => entry[1] !== undefined)
  return Object.fromEntries(known)
}
