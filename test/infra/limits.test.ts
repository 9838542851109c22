// Promise: every limit's name occurs in a test, so that a search for a limit leads to the test that
// shows it.

import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { ROOT } from '../../infra/state.ts'
import { LIMITS } from '../../shared/limits.ts'

/** Without lines that are comments, and without comments at the end of a line. */
const code = (text: string): string => text.replace(/^\s*(?:\/\/|\/\*|\*).*$|\s\/\/ .*$/gm, '')
const TESTS = globSync('test/**/*.test.ts', { cwd: ROOT, exclude: (path) => path.endsWith('node_modules') })
  .filter((file) => join(ROOT, file) !== import.meta.filename)
  .map((file) => code(readFileSync(join(ROOT, file), 'utf8')))

/**
 * `LIMITS.name`, or `` `name` `` in a title, or `'name'` in a table of limits. A name of one word
 * is also an ordinary word, so a title has to say `` `LIMITS.name` ``.
 */
const NAMED = new Set(
  TESTS.flatMap((text) => [
    ...text.matchAll(/\bLIMITS\.([a-z]\w*)|`([a-z]+_\w+)`/g),
    ...(text.includes('keyof typeof LIMITS') ? text.matchAll(/'([a-z]\w*)'/g) : []),
  ]).flatMap(([, ...names]) => names),
)

test('every limit is named by a test', () => {
  expect(TESTS.length).toBeGreaterThan(100)
  expect(NAMED.has('json_depht')).toBe(false)
  expect(Object.keys(LIMITS).filter((name) => !NAMED.has(name))).toEqual([])
})
