// Promise: a cosignature of a witness has the bytes of C2SP's tlog-cosignature, as another
// implementation of Ed25519 makes them, and a changed one does not count.

import { createHash } from 'node:crypto'
import { ed25519 } from '@noble/curves/ed25519.js'
import { expect, test } from 'vitest'
import { verifyCheckpoint } from '../../../shared/evidence/checkpoint.ts'
import { cosign, cosignedBy, parseVerifierKey, verifierKey } from '../../../shared/evidence/cosignature.ts'
import { signerFromJwk } from '../../../shared/evidence/dsse.ts'
import { GrownLog, newSigner } from '../../support/grown-log.ts'

const SECRET = Buffer.from('9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60', 'hex')
const PUBLIC = Buffer.from(ed25519.getPublicKey(SECRET))
const X = PUBLIC.toString('base64url')
const signer = signerFromJwk({ kty: 'OKP', crv: 'Ed25519', x: X, d: SECRET.toString('base64url') })
const NAME = 'witness.example.com/w1'
const WITNESS = { name: NAME, x: X }
const AT_S = 1_795_000_000
const TEXT = `countersign.example/default\n8\n${Buffer.alloc(32, 7).toString('base64')}\n`

/** By the specification, with nothing of ours. */
function byHand(name: string, text: string, at_s: number): string {
  const id = createHash('sha256')
    .update(Buffer.concat([Buffer.from(`${name}\n\x04`), PUBLIC]))
    .digest()
    .subarray(0, 4)
  const time = Buffer.from(at_s.toString(16).padStart(16, '0'), 'hex')
  const signature = ed25519.sign(Buffer.from(`cosignature/v1\ntime ${at_s}\n${text}`), SECRET)
  return `— ${name} ${Buffer.concat([id, time, signature]).toString('base64')}\n`
}

test('a cosignature is the same line that another implementation makes', () => {
  expect(cosign(TEXT, NAME, signer, AT_S * 1_000 + 999)).toBe(byHand(NAME, TEXT, AT_S))
  expect(cosign(TEXT, NAME, signer, AT_S * 1_000)).toMatch(
    /^— witness\.example\.com\/w1 [A-Za-z0-9+/]{102}==\n$|^— witness\.example\.com\/w1 [A-Za-z0-9+/]{103}=\n$|^— witness\.example\.com\/w1 [A-Za-z0-9+/]{104}\n$/,
  )
})

test('the cosignatures on a checkpoint are counted, and the log’s own signature is still valid', () => {
  const log = new GrownLog('countersign.example/default', ['a', 'b'])
  const note = log.note()
  const text = note.slice(0, note.lastIndexOf('\n\n') + 1)
  const other = newSigner()
  const cosigned = `${note}${byHand(NAME, text, AT_S)}${cosign(text, 'w2', other, 1_000)}`
  const both = [WITNESS, { name: 'w2', x: other.x }]
  expect(cosignedBy(cosigned, both)).toEqual([
    { name: NAME, at_ms: AT_S * 1_000 },
    { name: 'w2', at_ms: 1_000 },
  ])
  expect(verifyCheckpoint(cosigned, log.origin, log.signer.x)).toMatchObject({ ok: true })
  expect(cosignedBy(note, both)).toEqual([])
  expect(cosignedBy('no note', both)).toEqual([])
})

test('one key counts once, under however many names, and the latest of its times is shown', () => {
  const note = `${TEXT}\n${byHand(NAME, TEXT, AT_S)}${byHand(NAME, TEXT, AT_S + 5)}${byHand('w2', TEXT, AT_S)}`
  expect(cosignedBy(note, [WITNESS, { name: 'w2', x: X }])).toEqual([
    { name: NAME, at_ms: (AT_S + 5) * 1_000 },
  ])
})

test('a cosignature with any changed byte does not count', () => {
  const note = Buffer.from(`${TEXT}\n${byHand(NAME, TEXT, AT_S)}`)
  expect(cosignedBy(note.toString(), [WITNESS])).toHaveLength(1)
  for (let at = 0; at < note.length; at++) {
    const changed = Buffer.from(note)
    changed[at] = (changed[at] ?? 0) ^ 0x01
    if (cosignedBy(changed.toString(), [WITNESS]).length > 0)
      throw new Error(`accepted byte ${at}: ${changed}`)
  }
})

test('an ordinary signature with the same key is no cosignature', () => {
  const log = new GrownLog(NAME, ['a'])
  expect(cosignedBy(log.note(1, signer), [WITNESS])).toEqual([])
})

test('a verifier key can be read back, and one that was copied incompletely is refused', () => {
  const text = verifierKey(WITNESS)
  expect(text).toMatch(/^witness\.example\.com\/w1\+[0-9a-f]{8}\+B[A-Za-z0-9+/]{43}$/)
  expect(parseVerifierKey(text)).toEqual({ ok: true, value: WITNESS })
  for (let end = 0; end < text.length; end++) expect(parseVerifierKey(text.slice(0, end)).ok).toBe(false)
  expect(parseVerifierKey(`x${text}`).ok).toBe(false)
  const plain = Buffer.concat([Buffer.of(1), PUBLIC]).toString('base64')
  expect(parseVerifierKey(`${NAME}+00000000+${plain}`)).toMatchObject({
    error: expect.stringContaining('cosignature/v1'),
  })
})
