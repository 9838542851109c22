// The only checks of Ed25519 public keys and signatures, with the same result on every runtime
// (T02). OpenSSL, BoringSSL and others disagree about points of small order and non-canonical
// encodings, so both are refused before a library sees them. The remaining check, the cofactorless
// equation of RFC 8032 §5.1.7, is the same everywhere.

import type { KeyObject } from 'node:crypto'
import { createPublicKey, verify } from 'node:crypto'
import { z } from 'zod'

/**
 * The field, and the order of the base point (RFC 8032 §5.1). The curve is −x² + y² = 1 + dx²y²
 * with d = −121665/121666.
 */
const P = 2n ** 255n - 19n
const L = 2n ** 252n + 27_742_317_777_372_353_535_851_937_790_883_648_493n

const littleEndian = (bytes: Uint8Array): bigint =>
  BigInt(`0x${Buffer.from(bytes).reverse().toString('hex')}`)

/**
 * [8](x, y) is the neutral element: y is 0 or ±1, or the order is 8, where x² = −y² and so dy⁴ +
 * 2y² = 1.
 */
function hasSmallOrder(y: bigint): boolean {
  const square = (y * y) % P
  return y === 0n || square === 1n || ((2n * square - 1n) * 121_666n - square * square * 121_665n) % P === 0n
}

/**
 * x² = (y² − 1)/(dy² + 1) has a root. By Euler's criterion, with the fractions multiplied out by
 * squares.
 */
function isOnCurve(y: bigint): boolean {
  const square = (y * y) % P
  let base = ((square - 1n) * 121_666n * (121_666n - square * 121_665n)) % P
  let result = 1n
  for (let left = (P - 1n) / 2n; left > 0n; left >>= 1n) {
    if ((left & 1n) === 1n) result = (result * base) % P
    base = (base * base) % P
  }
  return (result + P) % P === 1n
}

/**
 * The y of an encoded point, or nothing if y is not reduced mod p or the point has small order.
 * This includes y = ±1, where x is 0 and its sign ambiguous.
 */
function soundY(encoded: Uint8Array): bigint | undefined {
  const y = littleEndian(encoded) & (2n ** 255n - 1n) // the highest bit is the sign of x
  return y < P && !hasSmallOrder(y) ? y : undefined
}

function isPublicKey(x: string): boolean {
  const bytes = Buffer.from(x, 'base64url')
  if (x.length !== 43 || bytes.length !== 32 || bytes.toString('base64url') !== x) return false
  const y = soundY(bytes)
  return y !== undefined && isOnCurve(y)
}

/**
 * An Ed25519 public key on the wire: the canonical base64url of 32 bytes that encode a point of
 * large order.
 */
export const PublicKey = z.string().refine(isPublicKey, 'is not an Ed25519 public key')

/**
 * Cache of imported keys: most keys are used repeatedly, and checking a key takes longer than
 * verifying with it.
 */
const imported = new Map<string, KeyObject>()
const IMPORTED_KEPT = 1_000

function keyOf(x: string): KeyObject | undefined {
  const known = imported.get(x)
  if (known !== undefined) return known
  if (!isPublicKey(x)) return undefined
  const key = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' })
  if (imported.size >= IMPORTED_KEPT) imported.clear()
  imported.set(x, key)
  return key
}

/**
 * Whether the holder of the public key `x` signed exactly these bytes. False for a malformed key or
 * signature.
 */
export function isSignedBy(x: string, message: Uint8Array, signature: Uint8Array | undefined): boolean {
  if (signature?.byteLength !== 64) return false
  const [R, S] = [signature.subarray(0, 32), signature.subarray(32)]
  if (soundY(R) === undefined || littleEndian(S) >= L) return false
  const key = keyOf(x)
  return key !== undefined && verify(null, message, key, signature)
}

/** 64 bytes in canonical base64: the padding bits of the last character are zero. */
const SIGNATURE = /^[A-Za-z0-9+/]{85}[AQgw]==$/
export const Signature = z.string().regex(SIGNATURE)
export const signatureIn = (base64: string): Uint8Array | undefined =>
  SIGNATURE.test(base64) ? Buffer.from(base64, 'base64') : undefined
