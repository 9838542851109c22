// Signatures and keys that are wrong in the ways that Ed25519 libraries have differed over (T02), made here from first principles:
// malleable S, an R in two spellings, keys of small order. Vectors as data, so that every runtime is held to them.

import { createHash } from 'node:crypto'
import { EDGE } from './evidence.ts'

/** The order of the base point, and of the field. */
const L = 2n ** 252n + 27_742_317_777_372_353_535_851_937_790_883_648_493n
const P = 2n ** 255n - 19n

const number = (bytes: Uint8Array): bigint => BigInt(`0x${Buffer.from(bytes).reverse().toString('hex')}`)
const bytes = (value: bigint): Buffer => Buffer.from(value.toString(16).padStart(64, '0'), 'hex').reverse()
const sha512 = (...parts: readonly Uint8Array[]): Buffer => createHash('sha512').update(Buffer.concat(parts)).digest()

// For small orders see RFC 7748 §7 and the survey "Taming the many EdDSAs": eight points, each with its spellings.
const Y8 = 0x7a03ac9277fdc74ec6cc392cfa53202a0f67100d760b3cba4fd83d3d706a17c7n
const SIGN = 2n ** 255n
const key = (y: bigint): string => bytes(y).toString('base64url')

/** Base64url public keys for which signatures can be made without a secret; the last ones are second spellings. */
export const WEAK_KEYS: Readonly<Record<string, string>> = {
  'order 1': key(1n),
  'order 2': key(P - 1n),
  'order 4': key(0n),
  'order 4, the other': key(SIGN),
  'order 8': key(Y8),
  'order 8, the second': key(Y8 + SIGN),
  'order 8, the third': key(P - Y8),
  'order 8, the fourth': key(P - Y8 + SIGN),
  'order 1, x negative zero': key(1n + SIGN),
  'order 2, x negative zero': key(P - 1n + SIGN),
  'order 1, y as p + 1': key(P + 1n),
  'order 1, y as p + 1, x negative zero': key(P + 1n + SIGN),
  'order 4, y as p': key(P),
  'order 4, y as p, x odd': key(P + SIGN),
}

/** The secret scalar of a key, as RFC 8032 §5.1.5 derives it from the seed. */
function scalar(seed: Uint8Array): bigint {
  const half = sha512(seed).subarray(0, 32)
  half[0] = (half[0] ?? 0) & 0xf8
  half[31] = ((half[31] ?? 0) & 0x7f) | 0x40
  return number(half)
}

/** Points that can stand for R, with the nonce that leads to them: the base point, and two wrong spellings of the neutral element. */
export const NONCES = {
  'the base point': { nonce: 1n, R: Buffer.from(`58${'66'.repeat(31)}`, 'hex') },
  'the neutral element, y as p + 1': { nonce: 0n, R: bytes(P + 1n) },
  'the neutral element, x negative zero': { nonce: 0n, R: bytes(1n + SIGN) },
} as const

/** A signature by the edge's key with a chosen R. S·B = R + h·A holds: who reads R as a point, whatever its spelling, takes it. */
export function chosenSignature(message: Uint8Array, { nonce, R }: { readonly nonce: bigint; readonly R: Uint8Array }): Buffer {
  const jwk = EDGE.key.export({ format: 'jwk' })
  const h = number(sha512(R, Buffer.from(EDGE.x, 'base64url'), message))
  return Buffer.concat([R, bytes((nonce + h * scalar(Buffer.from(jwk.d ?? '', 'base64url'))) % L)])
}

/**
 * The same signature with S + n·L for S: the same equation, so a verifier that reduces S first takes it. Undefined where it has no
 * room.
 */
export function malleable(signature: Uint8Array, times: bigint): Buffer | undefined {
  const S = number(signature.subarray(32)) + times * L
  return S < 2n ** 256n ? Buffer.concat([signature.subarray(0, 32), bytes(S)]) : undefined
}
