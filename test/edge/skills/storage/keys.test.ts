// Promise: a call may use exactly the keys that begin with one of its granted prefixes, and no key
// can be mistaken for anything else, such as a path.

import { expect, test } from 'vitest'
import { canList, faultInKey, isGranted } from '../../../../edge/skills/storage/keys.ts'
import { LIMITS } from '../../../../shared/limits.ts'

test('a storage key is granted only if it begins with a granted prefix', () => {
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
  'a'.repeat(LIMITS.skill_key_chars + 1),
]

test('an invalid storage key is never granted, whatever the prefix', () => {
  for (const key of NO_KEYS) {
    expect([key, faultInKey(key)]).toEqual([key, expect.any(String)])
    expect([key, isGranted(['', key, key.slice(0, 1)], key)]).toEqual([key, false])
  }
  for (const key of ['a', '0', 'A_b.c/d-e', 'a//b', 'a'.repeat(256)])
    expect([key, faultInKey(key)]).toEqual([key, undefined])
})

test('storage keys may be listed by a prefix only if all keys with it are granted', () => {
  for (const beginning of ['cache/', 'cache/a', 'cache/a/']) expect(canList(['cache/'], beginning)).toBe(true)
  for (const beginning of ['', 'c', 'cache', 'other/', 'cache/../', 'cache/ä', 'cache/~'])
    expect(canList(['cache/'], beginning)).toBe(false)
  expect([canList([''], ''), canList([''], '/'), canList([], '')]).toEqual([true, false, false])
})
