// Promise: the parts of a component other than its code are bounded before anything expands them.
// The components are written byte by byte.

import { expect, test } from 'vitest'
import { readComponent } from '../../../../edge/skills/component/bounds.ts'

const [MODULE, ALIAS, TYPE, IMPORT] = [1, 6, 7, 10]
const [STRING, LIST, TUPLE, INSTANCE] = [0x73, 0x70, 0x6f, 0x42]

const leb = (n: number): number[] => (n < 0x80 ? [n] : [(n & 0x7f) | 0x80, ...leb(n >> 7)])
const list = (items: readonly (readonly number[])[]): number[] => [...leb(items.length), ...items.flat()]
const section = (id: number, bytes: readonly number[]): number[] => [id, ...leb(bytes.length), ...bytes]
const types = (...all: number[][]): number[] => section(TYPE, list(all))
const repeated = <T>(count: number, item: T): T[] => Array.from({ length: count }, () => item)
const tuple = (items: number): number[] => [TUPLE, ...list(repeated(items, [STRING]))]

const refusal = (...sections: number[][]): string => {
  const read = readComponent(Buffer.from([0, 0x61, 0x73, 0x6d, 0x0d, 0, 1, 0, ...sections.flat()]))
  if (read.ok) throw new Error('a component without exports was accepted')
  const why = read.error.detail.replace('the component can’t be a skill: ', '')
  return why.startsWith('it must export exactly') ? 'read' : why // which is checked when all is read
}

test('W15 sections other than code have at most 16 KiB (`skill_described_bytes`)', () => {
  const bytes = (length: number) => {
    const items = [...repeated(Math.floor((length - 3) / 2), [LIST, STRING])]
    const body = list(items)
    return section(TYPE, [...body, ...repeated(length - body.length, 0)])
  }
  expect(refusal(bytes(16_385))).toBe('its sections other than code are longer than 16384 bytes')
  expect(refusal(section(TYPE, list(repeated(8_191, [LIST, STRING]))))).toBe('read') // 16,384 bytes
})

test('W15 an instance has at most 64 types (`skill_types`)', () => {
  const instance = (count: number) => types([INSTANCE, ...list(repeated(count, [1, LIST, STRING]))])
  expect([64, 65].map((count) => refusal(instance(count)))).toEqual(['read', 'it has more than 64 types'])
})

test('W15 a type written out has at most 400 characters (`skill_type_chars`), though each is made of two of the one before', () => {
  const tooLong = 'one of its types is longer than 400 characters'
  const twice = (type: number) => [TUPLE, 2, type, type]
  // `tuple<>` around 56 × `string` and 55 commas has 398 characters, and `list<>` around it 404.
  expect([56, 57].map((items) => refusal(types(tuple(items))))).toEqual(['read', tooLong])
  expect(refusal(types(tuple(56), [LIST, 0]))).toBe(tooLong)
  // Types of 13, 34, 76, 160 and 328 characters, and one of 664.
  const chain = [0, 1, 2, 3].map(twice)
  expect(refusal(types(tuple(1), ...chain))).toBe('read')
  expect(refusal(types(tuple(1), ...chain, twice(4)))).toBe(tooLong)
})

test('W15 a name has at most 128 bytes (`skill_name_bytes`)', () => {
  const alias = (length: number) =>
    section(ALIAS, list([[3, 0, 0, ...leb(length), ...repeated(length, 0x61)]]))
  expect([128, 129].map((length) => refusal(alias(length)))).toEqual([
    'read',
    'one of its names is longer than 128 bytes',
  ])
  const named = [0, ...leb(129), ...repeated(129, 0x61)]
  expect(refusal(section(IMPORT, list([[...named, 1, 0]])))).toBe('one of its names is longer than 128 bytes')
})

test('W15 a component has at most 16 modules (`skill_modules`)', () => {
  const module = section(MODULE, [0, 0x61, 0x73, 0x6d, 1, 0, 0, 0])
  expect([16, 17].map((count) => refusal(...repeated(count, module)))).toEqual([
    'read',
    'it holds more than 16 modules',
  ])
})
