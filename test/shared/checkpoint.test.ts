// Promise: a checkpoint follows C2SP's signed-note and tlog-checkpoint, and a changed one is
// refused.

import { createPrivateKey, createPublicKey, generateKeyPairSync, sign } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { signCheckpoint, verifyCheckpoint } from '../../shared/evidence/checkpoint.ts'
import type { PrivateJwk, Signer } from '../../shared/evidence/dsse.ts'
import { signerFromJwk } from '../../shared/evidence/dsse.ts'
import { BASE_NONCE, chosenSignature, type Nonce, WEAK_NONCES } from './curve.ts'

const ORIGIN = 'countersign.example/default'
const ROOT = '5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328'
const newSigner = (): Signer =>
  signerFromJwk(generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' }) as PrivateJwk) // the form in which Node exports this type of key
const edge = newSigner()
const note = signCheckpoint({ origin: ORIGIN, size: 8, root: ROOT }, edge)

const PKCS8_PREFIX = '302e020100300506032b657004220420'

/** The published example key of the note package, whose key hash is known. */
function exampleKey(): Signer {
  const seed = Buffer.from('AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz', 'base64').subarray(1)
  const key = createPrivateKey({
    key: Buffer.concat([Buffer.from(PKCS8_PREFIX, 'hex'), seed]),
    format: 'der',
    type: 'pkcs8',
  })
  return { kid: 'example', x: createPublicKey(key).export({ format: 'jwk' }).x ?? '', key }
}

describe('a checkpoint', () => {
  test('a checkpoint has the form of the specification', () => {
    const lines = note.split('\n')
    expect(lines.slice(0, 4)).toEqual([ORIGIN, '8', Buffer.from(ROOT, 'hex').toString('base64'), ''])
    expect(lines[4]).toMatch(/^— countersign\.example\/default [A-Za-z0-9+/]{90}[A-Za-z0-9+/=]{2}$/)
    expect(lines.slice(5)).toEqual([''])
  })

  test('a checkpoint names its key with the same hash as the note package', () => {
    const key = exampleKey()
    expect(key.x).toBe(
      Buffer.from('ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW', 'base64').subarray(1).toString('base64url'),
    )
    const signature =
      signCheckpoint({ origin: 'PeterNeumann', size: 0, root: ROOT }, key).split(' ').at(-1) ?? ''
    expect(Buffer.from(signature, 'base64').subarray(0, 4).toString('hex')).toBe('c74f20a3')
  })

  test('a signed checkpoint is read back unchanged', () => {
    for (const size of [0, 1, 8, 2 ** 40]) {
      const checkpoint = { origin: ORIGIN, size, root: ROOT }
      expect(verifyCheckpoint(signCheckpoint(checkpoint, edge), ORIGIN, edge.x)).toEqual({
        ok: true,
        value: checkpoint,
      })
    }
  })

  test('a checkpoint with any changed byte is refused', () => {
    const bytes = Buffer.from(note)
    for (let at = 0; at < bytes.length; at++) {
      for (const flip of [0x01, 0x20, 0x80]) {
        const changed = Buffer.from(bytes)
        changed[at] = (changed[at] ?? 0) ^ flip
        const read = verifyCheckpoint(changed.toString(), ORIGIN, edge.x)
        if (read.ok) throw new Error(`accepted byte ${at} ^ ${flip}: ${changed}`)
      }
    }
  })

  test('a truncated checkpoint is refused', () => {
    for (let end = 0; end < note.length; end++)
      expect(verifyCheckpoint(note.slice(0, end), ORIGIN, edge.x).ok).toBe(false)
  })

  test('a checkpoint of another log or with another key is refused', () => {
    expect(verifyCheckpoint(note, 'countersign.example/other', edge.x)).toMatchObject({ ok: false })
    expect(verifyCheckpoint(note, ORIGIN, newSigner().x)).toEqual({
      ok: false,
      error: 'the log’s key has not signed it',
    })
  })

  test('a checkpoint of another log is refused even if this log’s key signed it under this log’s name', () => {
    const text = `countersign.example/other\n8\n${Buffer.from(ROOT, 'hex').toString('base64')}\n`
    const ours = Buffer.from(note.trimEnd().split(' ').at(-1) ?? '', 'base64')
    const signature = Buffer.concat([ours.subarray(0, 4), sign(null, Buffer.from(text), edge.key)]).toString(
      'base64',
    )
    expect(verifyCheckpoint(`${text}\n— ${ORIGIN} ${signature}\n`, ORIGIN, edge.x)).toMatchObject({
      ok: false,
      error: expect.stringContaining('not of'),
    })
  })

  test('a checkpoint in non-canonical base64 is refused', () => {
    const next = (char: string) => String.fromCharCode(char.charCodeAt(0) + 1)
    const [text = '', signature = ''] = note.split('\n\n')
    const withPaddingBits = (part: string) => part.replace(/(.)=$/m, (_, char: string) => `${next(char)}=`)
    for (const changed of [
      `${withPaddingBits(text)}\n\n${signature}`,
      `${text}\n\n${withPaddingBits(signature)}`,
    ]) {
      expect(changed).not.toBe(note)
      expect(verifyCheckpoint(changed, ORIGIN, edge.x)).toMatchObject({
        ok: false,
        error: expect.stringContaining('malformed'),
      })
    }
  })

  test('a checkpoint may have a witness’s signature in addition to the log’s, but not instead', () => {
    const witness =
      signCheckpoint({ origin: 'witness.example/w', size: 8, root: ROOT }, newSigner()).split('\n')[4] ?? ''
    expect(verifyCheckpoint(`${note}${witness}\n`, ORIGIN, edge.x).ok).toBe(true)
    const [text = ''] = note.split('— ')
    expect(verifyCheckpoint(`${text}${witness}\n`, ORIGIN, edge.x)).toEqual({
      ok: false,
      error: 'the log’s key has not signed it',
    })
  })

  test('a checkpoint with two signatures of the log is refused if one of them is invalid', () => {
    const other = signCheckpoint({ origin: ORIGIN, size: 9, root: ROOT }, edge).split('\n')[4] ?? ''
    expect(verifyCheckpoint(`${note}${other}\n`, ORIGIN, edge.x)).toEqual({
      ok: false,
      error: 'the signature is invalid',
    })
  })

  test('D3 T02 a checkpoint whose signature has an R of small order or in a non-canonical encoding is refused', () => {
    const [text = ''] = note.split('\n— ')
    const hash = Buffer.from(note.trimEnd().split(' ').at(-1) ?? '', 'base64').subarray(0, 4)
    const by = { ...edge.key.export({ format: 'jwk' }), x: edge.x }
    const signed = (nonce: Nonce) => {
      const signature = Buffer.concat([hash, chosenSignature(Buffer.from(text), nonce, by)])
      return verifyCheckpoint(`${text}\n— ${ORIGIN} ${signature.toString('base64')}\n`, ORIGIN, edge.x)
    }
    expect(signed(BASE_NONCE)).toMatchObject({ ok: true })
    for (const nonce of Object.values(WEAK_NONCES))
      expect(signed(nonce)).toEqual({ ok: false, error: 'the signature is invalid' })
  })

  test('a checkpoint in a non-canonical form is refused', () => {
    const spell = (size: string, root = Buffer.from(ROOT, 'hex').toString('base64')) =>
      `${ORIGIN}\n${size}\n${root}\n`
    const texts = [
      spell('08'),
      spell('+8'),
      spell('8.0'),
      spell('9007199254740993'),
      spell('8', ROOT),
      `${spell('8')}extension\n`,
      spell('8').replace('\n', '\r\n'),
    ]
    for (const text of texts) {
      const [, signature = ''] = note.split('\n\n')
      const read = verifyCheckpoint(`${text}\n${signature}`, ORIGIN, edge.x)
      expect(read.ok, text).toBe(false)
      if (!read.ok) expect(read.error).not.toContain('signature does not fit') // refused for its form before the signature is checked
    }
  })
})

test('N15 a note with more than 16 signatures is refused before they are read', () => {
  const witness =
    signCheckpoint({ origin: 'witness.example/w', size: 8, root: ROOT }, newSigner()).split('\n')[4] ?? ''
  const withWitnesses = (count: number) =>
    verifyCheckpoint(`${note}${`${witness}\n`.repeat(count)}`, ORIGIN, edge.x)
  expect(withWitnesses(15)).toMatchObject({ ok: true })
  expect(withWitnesses(16)).toEqual({ ok: false, error: 'the note has too many signatures' })
})
