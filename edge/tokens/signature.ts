// Checks the signature of a token with `jose`; nothing else imports it. The caller has checked the
// header, so the library's own check of it can only refuse more.

import type { JWK } from 'jose'
import { JWKSNoMatchingKey } from 'jose/errors'
import { createLocalJWKSet } from 'jose/jwks/local'
import { compactVerify } from 'jose/jws/compact/verify'
import type { PublicJwk } from '../../shared/wire/issuers.ts'
import type { UnverifiedToken } from './token.ts'

/** A key set, whose keys the library imports when they are first used. */
export type Keys = ReturnType<typeof createLocalJWKSet>

export const importKeys = (keys: readonly PublicJwk[]): Keys =>
  createLocalJWKSet({ keys: keys.map(({ d: _, ...key }) => key as JWK) }) // the library ignores members that are `undefined`

/** `unknown_key`: no key of the set has this id and fits the algorithm. */
export async function checkSignature(
  { text, algorithm }: UnverifiedToken,
  keys: Keys,
): Promise<'holds' | 'unknown_key' | 'wrong'> {
  try {
    await compactVerify(text, keys, { algorithms: [algorithm] })
    return 'holds'
  } catch (thrown) {
    // Every other error refuses: a wrong signature, a malformed or weak key, several keys without
    // an id.
    return thrown instanceof JWKSNoMatchingKey ? 'unknown_key' : 'wrong'
  }
}
