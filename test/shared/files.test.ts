// Promise: the path of a file means one place below its folder for every reader, and an ambiguous
// path is refused.

import { expect, test } from 'vitest'
import { LIMITS } from '../../shared/limits.ts'
import { FileRefs } from '../../shared/plan/call-files.ts'

const SHA = '0'.repeat(64)
const isAccepted = (...paths: string[]): boolean =>
  FileRefs.safeParse(paths.map((path) => ({ path, sha256: SHA }))).success

test.each([
  ['dot segments', ['..', '../a', 'a/../b', 'a/..', './a', 'a/./b', '.']],
  ['absolute paths', ['/etc/passwd', '//etc', 'file:///etc/passwd', '/']],
  ['NUL', ['a\0', '\0', 'a\0/b']],
  [
    'S44 control characters, line breaks, invisible and bidirectional characters',
    ['a\nb', 'a\rb', 'a\tb', 'a\u001bb', 'a\u202eb', 'a\u200bb', 'a\u2028b', '\ufeffa'],
  ],
  ['S44 lone surrogates and text that is not NFC', ['a\ud800', 'u\u0308']],
  [
    'S44 names and paths that are too long or too deep',
    [
      'a'.repeat(256),
      'ü'.repeat(128),
      `${'a/'.repeat(LIMITS.file_path_depth)}a`,
      `${'a'.repeat(200)}/`.repeat(3),
    ],
  ],
  [
    'S45 `.git` folders, which programs obey',
    ['.git', '.git/config', 'a/.git/hooks/pre-commit', '.GIT/config', 'sub/.Git'],
  ],
  ['empty names', ['', '/', 'a//b', 'a/', ' /../']],
  ['the separator of another system', ['a\\b', '..\\a']],
])('S44 S45 a file path is refused: %s', (_, paths) => {
  for (const path of paths) expect(isAccepted(path), JSON.stringify(path)).toBe(false)
})

test('a file path that looks like an option, a list or code is accepted', () => {
  for (const path of [
    '-x',
    '--out=/etc/passwd',
    '-C/etc',
    'a:/etc',
    '$(id)',
    'a b',
    'ü/é.txt',
    '.gitignore',
    '.npmrc',
    '日本語.csv',
  ])
    expect(isAccepted(path), path).toBe(true)
})

test('files are refused if two have the same path or one lies below another', () => {
  expect(isAccepted('a', 'b', 'c/d', 'c/e')).toBe(true)
  expect(isAccepted('a', 'a')).toBe(false)
  expect(isAccepted('a/b', 'a')).toBe(false)
  expect(isAccepted('a', 'a.b', 'a/b/c')).toBe(false)
  expect(isAccepted(...Array.from({ length: LIMITS.call_files + 1 }, (_, n) => `${n}`))).toBe(false)
})

test('S44 a path has at most 512 bytes (`file_path_bytes`)', () => {
  const parts = `${'a'.repeat(255)}/${'b'.repeat(254)}/`
  expect(Buffer.byteLength(`${parts}c`)).toBe(512)
  expect([isAccepted(`${parts}c`), isAccepted(`${parts}cc`)]).toEqual([true, false])
})
