// DSSE envelopes (Dead Simple Signing Envelope v1.0.2) with Ed25519: the format of everything that
// is signed and stored. The signature covers the pre-authentication encoding, so type and payload
// can't be swapped (T01).

import type { KeyObject } from 'node:crypto'
import { createHash, createPrivateKey, sign } from 'node:crypto'
import { z } from 'zod'
import { canonical } from '../bytes/json.ts'
import { LIMITS } from '../limits.ts'
import { isSignedBy, Signature, signatureIn } from './ed25519.ts'

// Canonical base64: the padding bits of the last character are zero, so no byte of an envelope can
// change unnoticed (J01).
const Base64 = z
  .string()
  // First, because the engine's stack overflows when it matches some megabytes.
  .max(LIMITS.body_bytes, { abort: true })
  .regex(/^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$/)

export const Envelope = z.strictObject({
  payloadType: z.string().max(128),
  payload: Base64,
  signatures: z
    .array(z.strictObject({ keyid: z.string().max(128), sig: Signature }))
    .min(1)
    .max(4),
})
export type Envelope = z.infer<typeof Envelope>

/** A private key with its id and public key. */
export type Signer = { readonly kid: string; readonly x: string; readonly key: KeyObject }

/**
 * The id of a public key: a prefix of its digest, to tell keys apart. Trust comes from the key
 * itself.
 */
export const kidOf = (x: string): string =>
  `ed25519:${createHash('sha256').update(Buffer.from(x, 'base64url')).digest('hex').slice(0, 16)}`

export type PrivateJwk = { kty: 'OKP'; crv: 'Ed25519'; x: string; d: string }

export function signerFromJwk(jwk: PrivateJwk): Signer {
  const { kty, crv, x, d } = jwk
  return { kid: kidOf(x), x, key: createPrivateKey({ key: { kty, crv, x, d }, format: 'jwk' }) }
}

function preAuthEncoding(type: string, payload: Buffer): Buffer {
  return Buffer.concat([
    Buffer.from(`DSSEv1 ${Buffer.byteLength(type)} ${type} ${payload.byteLength} `),
    payload,
  ])
}

function signature(type: string, payload: Buffer, { kid, key }: Signer): Envelope['signatures'][number] {
  return { keyid: kid, sig: sign(null, preAuthEncoding(type, payload), key).toString('base64') }
}

export function seal(type: string, payload: unknown, signer: Signer): Envelope {
  const bytes = Buffer.from(canonical(payload))
  return {
    payloadType: type,
    payload: bytes.toString('base64'),
    signatures: [signature(type, bytes, signer)],
  }
}

/** The bytes that a signature of this envelope covers, for a signer outside of this process. */
export const signedBytes = ({ payloadType, payload }: Envelope): Uint8Array =>
  preAuthEncoding(payloadType, Buffer.from(payload, 'base64'))

export const signWith = ({ key }: Signer, bytes: Uint8Array): Uint8Array => sign(null, bytes, key)

/** Adds a signature over the same payload. */
export function countersign(envelope: Envelope, signer: Signer): Envelope {
  const added = signature(envelope.payloadType, Buffer.from(envelope.payload, 'base64'), signer)
  return { ...envelope, signatures: [...envelope.signatures, added] }
}

/**
 * Whether `envelope` has exactly one signature by each of `keys` (kid → public key) and no other.
 * An additional or unknown signature makes it invalid, so that nobody takes it for an endorsement.
 */
export function signedByExactly(
  envelope: Envelope,
  type: string,
  keys: ReadonlyMap<string, string>,
): boolean {
  if (envelope.payloadType !== type || envelope.signatures.length !== keys.size) return false
  const payload = Buffer.from(envelope.payload, 'base64')
  if (payload.toString('base64') !== envelope.payload) return false // non-canonical base64
  const signed = preAuthEncoding(type, payload)
  const seen = new Set<string>()
  for (const { keyid, sig } of envelope.signatures) {
    const x = keys.get(keyid)
    if (x === undefined || seen.has(keyid) || !isSignedBy(x, signed, signatureIn(sig))) return false
    seen.add(keyid)
  }
  return true
}

export const payloadBytes = (envelope: Envelope): Uint8Array => Buffer.from(envelope.payload, 'base64')
