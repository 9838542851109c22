// Random JSON values and notations of them, from a seed, so that every runtime gets the same ones
// and failures are reproducible.

import type { Json } from '../../shared/bytes/json.ts'

export type Random = () => number

/** mulberry32: 32 bits of state, plenty for test data. */
export function seeded(seed: number): Random {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

const below = (random: Random, limit: number): number => Math.floor(random() * limit)
const pick = <T>(random: Random, from: readonly [T, ...T[]]): T => from[below(random, from.length)] ?? from[0]

const ALPHABETS: readonly [string, ...string[]] = [
  'abcxyz',
  '"\\/\b\f\n\r\t',
  '\u0001\u001f\u007f\u0080',
  'éßñ',
  '€漢\u2028\u2029\ufeff\uffff',
  '\u{1f600}\u{10ffff}',
  '__proto',
  '0123456789',
]

function randomText(random: Random): string {
  const text = Array.from({ length: below(random, 8) }, () =>
    pick(random, [...pick(random, ALPHABETS)] as [string, ...string[]]),
  ).join('') // no alphabet is empty
  return text === '__proto__' ? 'proto' : text
}

function randomNumber(random: Random): number {
  const number = pick<() => number>(random, [
    () => below(random, 10),
    () => below(random, 2 ** 53) - 2 ** 52,
    () => random() * 10 ** (below(random, 40) - 30),
    () => -random(),
    () => Number.MAX_SAFE_INTEGER,
    () => 5e-324,
  ])()
  const survives = !Number.isInteger(number) || Number.isSafeInteger(number)
  return survives && !Object.is(number, -0) ? number : 0
}

export function randomJson(random: Random, depth = 5): Json {
  const kind = below(random, depth > 0 ? 7 : 5)
  if (kind === 5) return Array.from({ length: below(random, 5) }, () => randomJson(random, depth - 1))
  if (kind === 6)
    return Object.fromEntries(
      Array.from({ length: below(random, 5) }, () => [randomText(random), randomJson(random, depth - 1)]),
    )
  return pick<() => Json>(random, [
    () => null,
    () => random() < 0.5,
    () => randomNumber(random),
    () => randomText(random),
  ])()
}

/** Another notation of the same value: with random space, order of members and escapes. */
export function spelled(value: Json, random: Random): string {
  const space = (): string => pick(random, ['', '', '', ' ', '\n', '\t', '\r\n'])
  const around = (text: string): string => `${space()}${text}${space()}`
  if (Array.isArray(value))
    return around(
      `[${value.length === 0 ? space() : value.map((item): string => spelled(item, random)).join(',')}]`,
    )
  if (typeof value === 'object' && value !== null) {
    const members = Object.entries(value).map(
      ([key, member]): string => `${around(spelledText(key, random))}:${spelled(member, random)}`,
    )
    for (let i = members.length - 1; i > 0; i--) {
      const j = below(random, i + 1)
      ;[members[i], members[j]] = [members[j] ?? '', members[i] ?? '']
    }
    return around(`{${members.length === 0 ? space() : members.join(',')}}`)
  }
  return around(typeof value === 'string' ? spelledText(value, random) : JSON.stringify(value))
}

function spelledText(text: string, random: Random): string {
  const units = Array.from({ length: text.length }, (_, i) => text.charCodeAt(i))
  const escaped = (unit: number): string => `\\u${unit.toString(16).padStart(4, '0')}`
  if (random() < 0.3) return `"${units.map(escaped).join('')}"`
  return JSON.stringify(text)
}
