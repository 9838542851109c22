// Publishers of skills: each name with the keys whose signatures count.

import { z } from 'zod'
import { PublicKey } from '../evidence/ed25519.ts'
import { Name, Time } from '../fields.ts'
import { LIMITS } from '../limits.ts'

/** The id of a key: its digest, as in envelopes. */
export const Kid = z
  .string()
  .regex(/^ed25519:[0-9a-f]{16}$/, 'must be the id of a key, such as `ed25519:0123456789abcdef`')

/** `pinned`: the key was listed with the first package that it signed, on first use. */
const PublisherKey = z.strictObject({ kid: Kid, x: PublicKey, pinned: z.boolean(), by: Name, at_ms: Time })
export type PublisherKey = z.infer<typeof PublisherKey>

/** A permanently revoked key; all versions that it signed are revoked. */
const RevokedKey = z.strictObject({ kid: Kid, by: Name, at_ms: Time, reason: z.string() })
export type RevokedKey = z.infer<typeof RevokedKey>

export const Publisher = z.strictObject({
  name: Name,
  keys: z.array(PublisherKey),
  revoked: z.array(RevokedKey),
})
export type Publisher = z.infer<typeof Publisher>

/** The new keys of a publisher, which replace all earlier ones. */
export const PublisherKeys = z
  .array(PublicKey)
  .min(1)
  .max(LIMITS.publisher_keys)
  .refine((keys) => new Set(keys).size === keys.length, 'name each key once')
