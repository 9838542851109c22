// A file's path names one place below its folder, however it is read; whatever could mean another is refused by both sides.

import { expect, test } from 'vitest'
import { LIMITS } from '../../shared/limits.ts'
import { FileRefs } from '../../shared/plan/call-files.ts'

const SHA = '0'.repeat(64)
const taken = (...paths: string[]): boolean =>
  FileRefs.safeParse(paths.map((path) => ({ path, sha256: SHA }))).success

test.each([
  ['a way up', ['..', '../a', 'a/../b', 'a/..', './a', 'a/./b', '.']],
  ['a place of the host', ['/etc/passwd', '//etc', 'file:///etc/passwd', '/']],
  ['NUL', ['a\0', '\0', 'a\0/b']],
  [
    'S44 control characters, line ends, invisible and reversing ones',
    ['a\nb', 'a\rb', 'a\tb', 'a\u001bb', 'a\u202eb', 'a\u200bb', 'a\u2028b', '\ufeffa'],
  ],
  ['S44 halves of characters, and two spellings of one', ['a\ud800', 'u\u0308']],
  [
    'S44 what is too long or too deep',
    [
      'a'.repeat(256),
      'ü'.repeat(128),
      `${'a/'.repeat(LIMITS.file_path_depth)}a`,
      `${'a'.repeat(200)}/`.repeat(3),
    ],
  ],
  ['S45 what programs obey', ['.git', '.git/config', 'a/.git/hooks/pre-commit', '.GIT/config', 'sub/.Git']],
  ['no name at all', ['', '/', 'a//b', 'a/', ' /../']],
  ['the separator of another system', ['a\\b', '..\\a']],
])('S44 S45: %s', (_, paths) => {
  for (const path of paths) expect(taken(path), JSON.stringify(path)).toBe(false)
})

test('what only looks like an option, a list or code is a name', () => {
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
    expect(taken(path), path).toBe(true)
})

test('no two files have one place, and none lies below another', () => {
  expect(taken('a', 'b', 'c/d', 'c/e')).toBe(true)
  expect(taken('a', 'a')).toBe(false)
  expect(taken('a/b', 'a')).toBe(false)
  expect(taken('a', 'a.b', 'a/b/c')).toBe(false)
  expect(taken(...Array.from({ length: LIMITS.call_files + 1 }, (_, n) => `${n}`))).toBe(false)
})
