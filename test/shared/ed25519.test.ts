// T02 One rule for Ed25519 keys and signatures, however lenient the library below: canonical
// encodings, no points of small order, a reduced S. Compared with the curve equation and with a
// verifier in Python; workerd.test checks that workerd answers the same.

import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import { isSignedBy, PublicKey, signatureIn } from '../../shared/evidence/ed25519.ts'
import {
  BASE,
  isOnCurve,
  L,
  mod,
  NO_KEYS,
  same,
  TORSION,
  times,
  type Vector,
  vectors,
  WEAK_KEYS,
} from './curve.ts'
import { EDGE, STRANGER, WORKER } from './evidence.ts'

const isKey = (x: string): boolean => PublicKey.safeParse(x).success
const hex = (text: string): Buffer => Buffer.from(text, 'hex')

/**
 * As published: the eight points of small order in canonical encoding, then the non-canonical
 * encodings that lenient decoders accept.
 */
const PUBLISHED = [
  `01${'00'.repeat(31)}`,
  `ec${'ff'.repeat(30)}7f`,
  '00'.repeat(32),
  `${'00'.repeat(31)}80`,
  '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05',
  '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85',
  'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a',
  'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa',
  `01${'00'.repeat(30)}80`,
  `ec${'ff'.repeat(31)}`,
  `ed${'ff'.repeat(30)}7f`,
  `ed${'ff'.repeat(31)}`,
  `ee${'ff'.repeat(30)}7f`,
  `ee${'ff'.repeat(31)}`,
]

describe('the arithmetic of these tests', () => {
  test('the base point is on the curve and has the order that RFC 8032 names', () => {
    expect(BASE.map((n) => mod(n).toString(16))).toEqual([
      '216936d3cd6e53fec0a4e231fdd6dc5c692cc7609525a7b2c9562d608f25d51a',
      '6666666666666666666666666666666666666666666666666666666666666658',
    ])
    expect(isOnCurve(BASE)).toBe(true)
    expect(same(times(L, BASE), TORSION[0] ?? BASE)).toBe(true)
  })

  test('the computed points of small order are exactly the published ones', () => {
    expect(TORSION.every((point) => isOnCurve(point) && same(times(8n, point), [0n, 1n]))).toBe(true)
    const found = Object.values(WEAK_KEYS).map((x) => Buffer.from(x, 'base64url').toString('hex'))
    expect(found.sort()).toEqual(PUBLISHED.toSorted())
  })
})

describe('D2 T02 keys', () => {
  test.each(PUBLISHED)(
    'the point of small order %s is refused as a key, and no signature by it is accepted',
    (bytes) => {
      const x = hex(bytes).toString('base64url')
      expect(isKey(x)).toBe(false)
      for (const signature of [Buffer.alloc(64), Buffer.concat([hex(bytes), Buffer.alloc(32)])])
        expect(isSignedBy(x, Buffer.from('anything'), signature)).toBe(false)
    },
  )

  test.each(Object.entries(NO_KEYS))('D2 T02 %s: not accepted as a public key', (_name, x) => {
    expect(isKey(x)).toBe(false)
  })

  test('a key is accepted only if its y is on the curve, whichever sign x has', () => {
    const keyed = Array.from({ length: 200 }, (_, i) =>
      hex((i + 1_000).toString(16).padStart(64, '0')).reverse(),
    )
    const answers = keyed.map((bytes) => isKey(bytes.toString('base64url')))
    expect(
      keyed.map((bytes) =>
        isKey(Buffer.concat([bytes.subarray(0, 31), Buffer.of(0x80)]).toString('base64url')),
      ),
    ).toEqual(answers)
    expect(answers.filter(Boolean).length).toBeGreaterThan(70)
    expect(answers.filter(Boolean).length).toBeLessThan(130)
  })

  test.each([
    ['the last y below p', `ec${'ff'.repeat(30)}7f`],
    ['all ones', 'ff'.repeat(32)],
    ['31 bytes', '02'.repeat(31)],
    ['33 bytes', '02'.repeat(33)],
  ])('D2 T02 %s: not accepted as a public key', (_name, bytes) => {
    expect(isKey(hex(bytes).toString('base64url'))).toBe(false)
  })

  test('only the canonical encoding of a public key is accepted', () => {
    for (const { x } of [EDGE, WORKER, STRANGER]) {
      expect(isKey(x)).toBe(true)
      const padded = `${x}=`
      const bits = `${x.slice(0, -1)}${String.fromCharCode(x.charCodeAt(42) + 1)}`
      for (const other of [
        padded,
        bits,
        ` ${x}`,
        `${x}\n`,
        Buffer.from(x, 'base64url').toString('hex'),
        x.slice(0, 42),
      ])
        expect([other, isKey(other)]).toEqual([other, false])
    }
    const dashed = Buffer.from(EDGE.x, 'base64url').toString('base64')
    expect(isKey(dashed)).toBe(false)
  })
})

describe('D3 T02 signatures', () => {
  const all: Vector[] = []
  let python: string[] = []
  beforeAll(() => {
    all.push(...vectors())
    const input = all.map(
      ({ x, message, signature }) =>
        `${Buffer.from(x, 'base64url').toString('hex')} ${message} ${signature}\n`,
    )
    const ran = spawnSync('python3', ['-I', join(import.meta.dirname, 'ed25519.py')], {
      input: input.join(''),
      encoding: 'utf8',
    })
    if (ran.status !== 0) throw new Error(`python3: ${ran.error?.message ?? ran.stderr}`)
    python = ran.stdout.trim().split('\n')
  })

  test('an independent verifier in Python judges the vectors as they are labelled', () => {
    expect(python).toEqual(all.map(({ equation, holds }) => `${Number(equation)} ${Number(holds)}`))
  })

  test('the vectors include accepted ones, ones refused though the equation holds, and ones that fail it', () => {
    const count = (kind: (vector: Vector) => boolean): number => all.filter(kind).length
    expect(count(({ holds }) => holds)).toBeGreaterThan(8)
    expect(count(({ equation, holds }) => equation && !holds)).toBeGreaterThan(150)
    expect(count(({ equation }) => !equation)).toBeGreaterThan(150)
  })

  test('our verifier judges each vector as it is labelled', () => {
    const answers = all.map(({ name, x, message, signature }) => [
      name,
      isSignedBy(x, hex(message), hex(signature)),
    ])
    expect(answers).toEqual(all.map(({ name, holds }) => [name, holds]))
  })

  test('only the canonical encoding of a signature is accepted', () => {
    const signature = Buffer.alloc(64, 0xfb)
    const text = signature.toString('base64')
    expect(Buffer.from(signatureIn(text) ?? [])).toEqual(signature)
    const bits = text.replace(
      /(.)==$/,
      (_, char: string) => `${String.fromCharCode(char.charCodeAt(0) + 1)}==`,
    )
    for (const other of [
      bits,
      text.slice(0, -2),
      text.slice(0, -1),
      signature.toString('base64url'),
      `${text}\n`,
      signature.toString('hex'),
      '',
    ])
      expect([other, signatureIn(other)]).toEqual([other, undefined])
  })

  test('a signature of another length is refused', () => {
    for (const length of [0, 32, 63, 65, 128])
      expect(isSignedBy(EDGE.x, Buffer.from('m'), Buffer.alloc(length, 1))).toBe(false)
  })
})
