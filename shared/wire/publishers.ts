// Whose signature under a skill counts: publishers by name, each with keys of their own.

import { z } from 'zod'
import { PublicKey } from '../evidence/ed25519.ts'
import { Name, Time } from '../fields.ts'
import { LIMITS } from '../limits.ts'

/** A key by its digest, as envelopes name it. */
export const Kid = z
  .string()
  .regex(/^ed25519:[0-9a-f]{16}$/, 'must be the id of a key, such as `ed25519:0123456789abcdef`')

/** `pinned`: taken with the first package that it signed, not put by somebody who was told it. */
const PublisherKey = z.strictObject({ kid: Kid, x: PublicKey, pinned: z.boolean(), by: Name, at_ms: Time })
export type PublisherKey = z.infer<typeof PublisherKey>

/** Counts no more, for good; what it had signed is revoked. */
const RevokedKey = z.strictObject({ kid: Kid, by: Name, at_ms: Time, reason: z.string() })
export type RevokedKey = z.infer<typeof RevokedKey>

export const Publisher = z.strictObject({
  name: Name,
  keys: z.array(PublisherKey),
  revoked: z.array(RevokedKey),
})
export type Publisher = z.infer<typeof Publisher>

/** Those that count from then on, in the place of those that did. */
export const PublisherKeys = z
  .array(PublicKey)
  .min(1)
  .max(LIMITS.publisher_keys)
  .refine((keys) => new Set(keys).size === keys.length, 'name each key once')
