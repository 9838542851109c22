// Promise: an envelope is accepted only with exactly the expected signers, type and payload, in
// canonical encoding, whatever the crypto library would accept.

import { createPublicKey, sign, verify } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import {
  countersign,
  Envelope,
  kidOf,
  seal,
  signedByExactly,
  signerFromJwk,
} from '../../shared/evidence/dsse.ts'
import { PublicKey } from '../../shared/evidence/ed25519.ts'
import { BASE_NONCE, chosenSignature, malleable, WEAK_NONCES } from './curve.ts'
import { EDGE, STRANGER, WORKER } from './evidence.ts'

const TYPE = 'application/vnd.countersign.test+json'
const only = (...signers: (typeof EDGE)[]) => new Map(signers.map(({ kid, x }) => [kid, x]))
const envelope = seal(TYPE, { a: 1 }, EDGE)
const sealed = (sig: Buffer | string): Envelope => ({
  ...envelope,
  signatures: [{ keyid: EDGE.kid, sig: typeof sig === 'string' ? sig : sig.toString('base64') }],
})
const signature = Buffer.from(envelope.signatures[0]?.sig ?? '', 'base64')
const signed = Buffer.from(`DSSEv1 ${TYPE.length} ${TYPE} 7 {"a":1}`)

describe('an envelope', () => {
  test('an envelope is signed over type and payload, as DSSE specifies', () => {
    expect(
      verify(
        null,
        signed,
        createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x: EDGE.x }, format: 'jwk' }),
        signature,
      ),
    ).toBe(true)
    expect(signedByExactly(envelope, TYPE, only(EDGE))).toBe(true)
    expect(signedByExactly(countersign(envelope, WORKER), TYPE, only(WORKER, EDGE))).toBe(true)
  })

  test('the signature of an envelope covers the length of its type in bytes, not characters', () => {
    const type = 'é'
    const [{ sig } = { sig: '' }] = seal(type, {}, EDGE).signatures
    const key = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x: EDGE.x }, format: 'jwk' })
    expect(verify(null, Buffer.from('DSSEv1 2 é 2 {}'), key, Buffer.from(sig, 'base64'))).toBe(true)
  })

  test('a payload of 10 MB is refused before a regular expression reads it', () => {
    const large = Envelope.safeParse({ ...envelope, payload: 'A'.repeat(10_000_000) })
    expect(large.error?.issues.map(({ code }) => code)).toEqual(['too_big'])
  })

  const other = seal(TYPE, { a: 2 }, EDGE)
  test.each<[string, Envelope]>([
    ['another payload', { ...envelope, payload: other.payload }],
    ['another signature', { ...envelope, signatures: other.signatures }],
    ['another type', { ...envelope, payloadType: 'application/vnd.countersign.grant+json' }],
    [
      'a type and payload that run together to the same text',
      { ...envelope, payloadType: `${TYPE} `, payload: Buffer.from('"a":1}').toString('base64') },
    ],
    ['no signature', { ...envelope, signatures: [] }],
    ['the signature twice', { ...envelope, signatures: [...envelope.signatures, ...envelope.signatures] }],
    ['an additional signature by a stranger', countersign(envelope, STRANGER)],
    ['a signature by a stranger instead', seal(TYPE, { a: 1 }, STRANGER)],
    [
      'a signature by a stranger under the right key id',
      seal(TYPE, { a: 1 }, { ...STRANGER, kid: EDGE.kid }),
    ],
    [
      'a signature under another key id',
      { ...envelope, signatures: [{ keyid: kidOf(STRANGER.x), sig: envelope.signatures[0]?.sig ?? '' }] },
    ],
    ['an empty signature', sealed('')],
    ['a truncated signature', sealed(signature.subarray(0, 63))],
    ['an extended signature', sealed(Buffer.concat([signature, Buffer.of(0)]))],
    ['a payload in non-canonical base64', { ...envelope, payload: 'eyJhIjoxfR==' }],
  ])('T01 an envelope with %s is refused', (_name, changed) => {
    expect(
      signedByExactly(
        changed,
        changed.payloadType.startsWith(`${TYPE}`) ? changed.payloadType : TYPE,
        only(EDGE),
      ),
    ).toBe(false)
  })

  test('T01 an envelope that lacks one of its signers is refused', () => {
    expect(signedByExactly(envelope, TYPE, only(EDGE, WORKER))).toBe(false)
    expect(signedByExactly(countersign(envelope, EDGE), TYPE, only(EDGE, WORKER))).toBe(false)
  })

  test.each<[string, Record<string, unknown>]>([
    [
      'a signature in non-canonical base64',
      { signatures: [{ keyid: 'k', sig: `${signature.toString('base64').slice(0, -3)}B==` }] },
    ],
    ['a signature of 65 bytes', { signatures: [{ keyid: 'k', sig: Buffer.alloc(65).toString('base64') }] }],
    [
      'a signature in base64url',
      { signatures: [{ keyid: 'k', sig: Buffer.alloc(64, 255).toString('base64url') }] },
    ],
    ['a payload in non-canonical base64', { payload: 'eyJhIjoxfR==' }],
    ['a payload with space', { payload: 'eyJh IjoxfQ==' }],
    ['a payload without padding', { payload: 'eyJhIjoxfQ' }],
    ['no signatures', { signatures: [] }],
    ['five signatures', { signatures: Array.from({ length: 5 }, () => envelope.signatures[0]) }],
    ['an additional member', { extra: 1 }],
    ['no type', { payloadType: undefined }],
  ])('J01 an envelope with %s is refused by the schema', (_name, change) => {
    expect(Envelope.safeParse(envelope).success).toBe(true)
    expect(Envelope.safeParse({ ...envelope, ...change }).success).toBe(false)
  })

  test('payloads of every length are accepted in canonical base64', () => {
    for (let length = 0; length < 200; length++) {
      const payload = Buffer.alloc(length, 0xfb).toString('base64')
      expect(Envelope.safeParse({ ...envelope, payload }).success).toBe(true)
    }
  })
})

describe('T02 signatures that libraries differ over', () => {
  test('the tests’ own signature with R = base point is accepted', () => {
    expect(signedByExactly(sealed(chosenSignature(signed, BASE_NONCE)), TYPE, only(EDGE))).toBe(true)
  })

  test.each(Object.entries(WEAK_NONCES))('D3 T02 a signature with R as %s is refused', (_encoding, nonce) => {
    expect(signedByExactly(sealed(chosenSignature(signed, nonce)), TYPE, only(EDGE))).toBe(false)
  })

  test.each([1n, 2n, 7n, 14n])('T02 a signature with S + %d·L instead of S is refused', (times) => {
    const changed = malleable(signature, times)
    if (changed === undefined) throw new Error('S + n·L does not fit into 32 bytes')
    expect(signedByExactly(sealed(changed), TYPE, only(EDGE))).toBe(false)
  })

  test('T02 a signature with any flipped bit is refused', () => {
    for (let bit = 0; bit < 512; bit++) {
      const changed = Buffer.from(signature)
      changed[bit >> 3] = (changed[bit >> 3] ?? 0) ^ (1 << (bit & 7))
      if (signedByExactly(sealed(changed), TYPE, only(EDGE))) throw new Error(`bit ${bit}`)
    }
  })

  test.each([
    ['of zeros', Buffer.alloc(64)],
    ['of ones', Buffer.alloc(64, 255)],
    ['with S = 0', Buffer.concat([signature.subarray(0, 32), Buffer.alloc(32)])],
    ['with R = 0', Buffer.concat([Buffer.alloc(32), signature.subarray(32)])],
    ['over the bare payload', sign(null, Buffer.from('{"a":1}'), EDGE.key)],
  ])('T02 a signature %s is refused', (_name, changed) => {
    expect(signedByExactly(sealed(changed), TYPE, only(EDGE))).toBe(false)
  })
})

describe('T02 keys', () => {
  test.each([
    ['too short', EDGE.x.slice(0, 42)],
    ['too long', `${EDGE.x}A`],
    ['in base64', Buffer.from(EDGE.x, 'base64url').toString('base64')],
    ['with other letters', `!${EDGE.x.slice(1)}`],
    ['with bits after the key', `${EDGE.x.slice(0, 42)}x`],
    ['empty', ''],
  ])('T02 a public key that is %s is refused', (_name, x) => {
    expect(PublicKey.safeParse(x).success).toBe(false)
  })

  test('T02 valid public keys are accepted and named by their digest', () => {
    for (const { x, kid } of [EDGE, WORKER, STRANGER]) {
      expect(PublicKey.parse(x)).toBe(x)
      expect(kid).toBe(kidOf(x))
    }
    expect(new Set([EDGE, WORKER, STRANGER].map(({ kid }) => kid)).size).toBe(3)
  })

  test('RFC 8032 test 2 gives the signature of the RFC', () => {
    const seed = Buffer.from(
      '4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb',
      'hex',
    ).toString('base64url')
    const x = Buffer.from('3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c', 'hex').toString(
      'base64url',
    )
    const signer = signerFromJwk({ kty: 'OKP', crv: 'Ed25519', x, d: seed })
    const expected =
      '92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00'
    expect(sign(null, Buffer.of(0x72), signer.key).toString('hex')).toBe(expected)
  })
})
