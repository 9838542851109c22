// Promise: the parser accepts or refuses each text as the table says, and parsed values serialize
// to the canonical form that digests are made of.

import { describe, expect, test } from 'vitest'
import { canonical, digestOf, EVIDENCE_BOUNDS, parseJson, sha256 } from '../../shared/bytes/json.ts'
import { LIMITS } from '../../shared/limits.ts'
import { cpuTime } from '../support/cpu-time.ts'
import { CANONICAL_NUMBERS, CANONICAL_TEXTS, JSON_CASES, jsonBytes } from './json-cases.ts'
import { randomJson, seeded, spelled } from './random-json.ts'

const INTRUDERS = ['', ',', '"', '}', ']', '\\', '0', '\0', '-', 'e', ':', '.', '/']
/** The exact value of a number's text, as a fraction. */
type Rational = { readonly over: bigint; readonly under: bigint }
function rationalOf(text: string): Rational {
  const [mantissa = '', power = '0'] = text.toLowerCase().split('e')
  const [whole = '', fraction = ''] = mantissa.split('.')
  const exponent = Number(power) - fraction.length
  const digits = BigInt(whole.replace('-', '') + fraction)
  const over = text.startsWith('-') ? -digits : digits
  return exponent >= 0
    ? { over: over * 10n ** BigInt(exponent), under: 1n }
    : { over, under: 10n ** BigInt(-exponent) }
}
const areEqual = (one: Rational, other: Rational): boolean =>
  one.over * other.under === other.over * one.under

/**
 * The text of a number: a double's own text, with a moved point, padded, or with digits that a
 * double can't hold.
 */
function spelledNumber(random: () => number): string {
  const below = (limit: number): number => Math.floor(random() * limit)
  const digits = Array.from({ length: 1 + below(22) }, () => below(10)).join('')
  const base =
    random() < 0.5 ? String((random() - 0.5) * 10 ** (below(30) - 15)) : `${below(1_000)}.${digits}`
  const [mantissa = '', power = '0'] = base.split('e')
  const padded = mantissa.includes('.') ? `${mantissa}${'0'.repeat(below(4))}` : mantissa
  const tail = random() < 0.3 && padded.includes('.') ? `${'0'.repeat(below(20))}${below(10)}` : ''
  return random() < 0.5 && power === '0'
    ? `${padded}${tail}`
    : `${padded}${tail}e${Number(power) + below(40) - 20}`
}

const utf8 = (text: string): Uint8Array => new TextEncoder().encode(text)

describe('G01 G02 G03 G04 G05 G10: reading', () => {
  test('G04 the refusal of minus zero does not claim that the number would be rounded', () => {
    const said = (text: string) => {
      const read = parseJson(utf8(text))
      return read.ok ? 'read' : read.error.detail
    }
    for (const text of ['-0', '-0.0', '-0e5']) expect(said(text)).toMatch(/send `0`, or a string$/)
    for (const text of ['-1e-400', '1e400', '9007199254740993', '0.10000000000000000001'])
      expect(said(text)).toContain('would be rounded')
  })

  test.each(JSON_CASES.map((item) => [item.name, item.is, item] as const))(
    'JSON with %s: %s',
    (_name, is, item) => {
      const read = parseJson(jsonBytes(item))
      expect(read.ok ? 'fine' : read.error.code).toBe(is)
    },
  )

  test('accepted JSON has the same value as in JSON.parse', () => {
    for (const item of JSON_CASES) {
      const read = parseJson(jsonBytes(item))
      if (read.ok)
        expect(read.value, item.name).toEqual(JSON.parse(new TextDecoder().decode(jsonBytes(item))))
    }
  })

  test('the strict parser accepts nothing that JSON.parse refuses', () => {
    const random = seeded(20_261_118)
    for (let round = 0; round < 20_000; round++) {
      const text = spelled(randomJson(random, 3), random)
      const at = Math.floor(random() * (text.length + 1))
      const intruder = INTRUDERS[Math.floor(random() * INTRUDERS.length)] ?? ''
      const broken =
        `${text.slice(0, at)}${intruder}${text.slice(at + Math.floor(random() * 3))}`.toWellFormed()
      const read = parseJson(utf8(broken))
      if (!read.ok) continue
      expect(read.value, JSON.stringify(broken)).toEqual(JSON.parse(broken))
    }
  })

  test('D13 G04 a number is accepted if and only if its double has the value of its text', () => {
    const seed = Math.floor(Math.random() * 2 ** 31)
    const random = seeded(seed)
    const seen = { read: 0, refused: 0 }
    for (let round = 0; round < 20_000; round++) {
      const text = spelledNumber(random)
      const value = Number(text)
      const integers = !Number.isInteger(value) || Number.isSafeInteger(value)
      const expected =
        integers &&
        Number.isFinite(value) &&
        !Object.is(value, -0) &&
        areEqual(rationalOf(text), rationalOf(String(value)))
      const read = parseJson(utf8(text))
      expect(read.ok, `seed ${seed}: ${text}`).toBe(expected)
      if (read.ok) expect(read.value).toBe(JSON.parse(text))
      seen[read.ok ? 'read' : 'refused']++
    }
    expect(Math.min(seen.read, seen.refused), JSON.stringify(seen)).toBeGreaterThan(2_000)
  })

  test('D13 a number as long as a whole body is parsed or refused without delay', () => {
    const zeros = '0'.repeat(LIMITS.body_bytes - 8)
    const started = cpuTime()
    expect(parseJson(utf8(`1.${zeros}`))).toEqual({ ok: true, value: 1 })
    expect(parseJson(utf8(`1.${zeros}1`))).toMatchObject({ error: { code: 'json_unsafe_number' } })
    expect(parseJson(utf8(`1.${'01'.repeat(LIMITS.body_bytes / 2 - 8)}`))).toMatchObject({
      error: { code: 'json_unsafe_number' },
    })
    expect(cpuTime() - started).toBeLessThan(2_000)
  })

  test('G01 a parsed object has the usual prototype, and merging it changes no prototype', () => {
    const read = parseJson(utf8('{"constructor":{"prototype":{"polluted":true}}}'))
    if (!read.ok) throw new Error(read.error.detail)
    Object.assign({}, read.value)
    expect(Object.getPrototypeOf(read.value)).toBe(Object.prototype)
    expect('polluted' in {}).toBe(false)
  })

  test('G02 a value of the greatest accepted depth can be serialized', () => {
    const text = `${'[{"a":'.repeat(LIMITS.json_depth / 2)}1${'}]'.repeat(LIMITS.json_depth / 2)}`
    const read = parseJson(utf8(text))
    if (!read.ok) throw new Error(read.error.detail)
    expect(canonical(read.value)).toBe(text)
    expect(parseJson(utf8(`[${text}]`)).ok).toBe(false)
  })

  test('evidence files may be larger and deeper than a request body', () => {
    const depth = `{"call":${'['.repeat(LIMITS.json_depth)}${']'.repeat(LIMITS.json_depth)}}`
    const nodes = `[[${'1,'.repeat(LIMITS.json_nodes)}1]]`
    const size = `"${'x'.repeat(LIMITS.body_bytes)}"`
    for (const text of [depth, nodes, size]) {
      expect(parseJson(utf8(text), EVIDENCE_BOUNDS).ok).toBe(true)
      if (text !== depth) expect(parseJson(utf8(text)).ok).toBe(false)
    }
    expect(parseJson(utf8(`"${'x'.repeat(LIMITS.evidence_bytes)}"`), EVIDENCE_BOUNDS)).toMatchObject({
      error: { code: 'body_too_large' },
    })
    expect(parseJson(utf8('['.repeat(10_000)), EVIDENCE_BOUNDS)).toMatchObject({
      error: { code: 'json_too_deep' },
    })
  })

  test('evidence files have at most 500,000 members and elements (`evidence_nodes`)', () => {
    const list = (items: number) => parseJson(utf8(`[${'1,'.repeat(items - 1)}1]`), EVIDENCE_BOUNDS)
    expect(list(499_999).ok).toBe(true)
    expect(list(500_000)).toMatchObject({ error: { code: 'json_too_many' } }) // the list counts too
  })
})

describe('writing', () => {
  test.each(CANONICAL_NUMBERS)('the canonical form of the double %s is %s', (bits, text) => {
    expect(canonical(Buffer.from(bits, 'hex').readDoubleBE())).toBe(text)
  })

  test.each(CANONICAL_TEXTS)('the canonical form has %s', (_name, value, text) => {
    expect(canonical(value)).toBe(text)
  })

  test.each([
    ['NaN', Number.NaN],
    ['Infinity', Infinity],
    ['undefined', undefined],
    ['a function', () => 1],
    ['a bigint', 1n],
  ])('%s has no canonical form', (_name, value) => {
    expect(() => canonical(value)).toThrow(TypeError)
    expect(() => canonical([{ a: value }].map((item) => item.a))).toThrow(TypeError)
  })

  test('a value survives serialization and parsing, and every notation of it has the same digest', () => {
    const random = seeded(8785)
    for (let round = 0; round < 3_000; round++) {
      const value = randomJson(random)
      const text = canonical(value)
      const back = parseJson(utf8(text))
      expect(back, text).toEqual({ ok: true, value })
      const foreign = spelled(value, random)
      const read = parseJson(utf8(foreign))
      if (!read.ok) throw new Error(`${read.error.detail}: ${foreign}`)
      expect(canonical(read.value)).toBe(text)
    }
  })

  test('different values have different digests', () => {
    const pairs: readonly (readonly [unknown, unknown])[] = [
      [{ a: 1 }, { a: '1' }],
      [{ a: null }, {}],
      [
        [1, [2]],
        [[1], 2],
      ],
      [
        ['ab', 'c'],
        ['a', 'bc'],
      ],
      [{ a: 'b":"c' }, { a: 'b', c: '' }],
      [[], {}],
      ['', null],
      [0, false],
      ['é', 'e\u0301'],
    ]
    for (const [one, other] of pairs) expect(digestOf(one)).not.toBe(digestOf(other))
    expect(digestOf({ b: 1, a: 2 })).toBe(digestOf({ a: 2, b: 1 }))
    expect(digestOf({})).toBe(sha256('{}'))
    expect(sha256('')).toBe('e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855')
  })
})
