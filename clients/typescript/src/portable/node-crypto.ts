// The part of `node:crypto` that shared/evidence uses to verify, in plain JavaScript: SHA-256 and
// the equation of Ed25519. infra/clients/package.ts puts it in place of the module when it bundles
// `verify`. WebCrypto can't serve here: it answers asynchronously, some browsers lack Ed25519, and
// none has it on an http page. Everything here is public, so nothing has to run in constant time.

import { ed25519 } from '@noble/curves/ed25519.js'
import { sha256, sha512 } from '@noble/hashes/sha2.js'
import { Buffer } from './buffer.ts'

type Hash = { update(bytes: string | Uint8Array): Hash; digest(encoding: 'hex'): string }

export function createHash(name: 'sha256'): Hash {
  if (name !== 'sha256') throw new TypeError(`the digest ${name} is not needed to verify`)
  const hash = sha256.create()
  const chain: Hash = {
    update: (bytes) => {
      hash.update(typeof bytes === 'string' ? Buffer.from(bytes) : bytes)
      return chain
    },
    digest: (encoding) => Buffer.from(hash.digest()).toString(encoding),
  }
  return chain
}

type PublicKey = { readonly x: Uint8Array }

export const createPublicKey = ({ key }: { readonly key: { readonly x: string } }): PublicKey => ({
  x: Buffer.from(key.x, 'base64url'),
})

/**
 * The cofactorless equation of RFC 8032 §5.1.7: R = [S]B − [k]A. shared/evidence/ed25519.ts has
 * refused points of small order and unreduced numbers before. The library's own `verify` multiplies
 * by the cofactor, so it accepts signatures that Node refuses.
 */
export function verify(_: null, message: Uint8Array, { x }: PublicKey, signature: Uint8Array): boolean {
  const { Point } = ed25519
  const [r, s] = [signature.subarray(0, 32), signature.subarray(32)]
  try {
    const k = Point.Fn.create(littleEndian(sha512(Buffer.concat([r, x, message]))))
    const right = Point.BASE.multiplyUnsafe(littleEndian(s)).subtract(
      Point.fromBytes(x, true).multiplyUnsafe(k),
    )
    return Buffer.from(right.toBytes()).toString('hex') === Buffer.from(r).toString('hex')
  } catch {
    return false // x encodes no point
  }
}

const littleEndian = (bytes: Uint8Array): bigint =>
  BigInt(`0x${Buffer.from(Uint8Array.from(bytes).reverse()).toString('hex')}`)

const unused = (): never => {
  throw new Error('verification neither signs nor draws random numbers')
}

export { unused as createPrivateKey, unused as randomBytes, unused as sign }
