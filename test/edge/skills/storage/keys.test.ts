// Promise: what a call was granted of its skill's storage is what begins as its prefixes do, and a key is nothing that could be read as
// something else.

import { expect, test } from 'vitest'
import { canList, faultInKey, isGranted } from '../../../../edge/skills/storage/keys.ts'

test('a key is granted where a prefix is its beginning, and nowhere else', () => {
  for (const key of ['cache/a', 'cache/', 'cache/a/b', 'cache/..a', 'cache/a..b', 'cache/.'])
    expect([key, isGranted(['x', 'cache/'], key)]).toEqual([key, true])
  for (const key of ['cache', 'Cache/a', 'acache/a', 'cachea', 'a/cache/', ''])
    expect([key, isGranted(['cache/'], key)]).toEqual([key, false])
  expect(isGranted([], 'a')).toBe(false)
  expect(isGranted([''], 'a')).toBe(true) // the wildcard, which a manifest has to ask for
})

const NO_KEYS = [
  '',
  '/a',
  '.a',
  '-a',
  '_a',
  '~',
  'a b',
  'a\n',
  'a\0b',
  'a%2e',
  'ä',
  'а', // Cyrillic
  'a\u202e',
  'a:b',
  'a\\b',
  'a/..',
  'a/../b',
  'a/..//b',
  '..',
  '../a',
  'a'.repeat(257),
]

test('what is no key is granted to nobody, whatever the prefix', () => {
  for (const key of NO_KEYS) {
    expect([key, faultInKey(key)]).toEqual([key, expect.any(String)])
    expect([key, isGranted(['', key, key.slice(0, 1)], key)]).toEqual([key, false])
  }
  for (const key of ['a', '0', 'A_b.c/d-e', 'a//b', 'a'.repeat(256)])
    expect([key, faultInKey(key)]).toEqual([key, undefined])
})

test('keys are listed where all that begin so are granted', () => {
  for (const beginning of ['cache/', 'cache/a', 'cache/a/']) expect(canList(['cache/'], beginning)).toBe(true)
  for (const beginning of ['', 'c', 'cache', 'other/', 'cache/../', 'cache/ä', 'cache/~'])
    expect(canList(['cache/'], beginning)).toBe(false)
  expect([canList([''], ''), canList([''], '/'), canList([], '')]).toEqual([true, false, false])
})
