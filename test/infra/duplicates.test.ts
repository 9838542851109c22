// jscpd with .jscpd.json finds runs of eight or more equal lines, and no shorter ones.

import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { ROOT } from '../../infra/state.ts'

let root: string
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'duplicates-'))
  cpSync(join(ROOT, '.jscpd.json'), join(root, '.jscpd.json'))
  writeFileSync(join(root, '.jscpd-baseline.json'), '{ "version": 1, "fingerprints": {} }\n')
})
afterEach(() => rmSync(root, { recursive: true }))

const jscpd = (...argv: string[]) =>
  spawnSync(join(ROOT, 'node_modules/.bin/jscpd'), ['.', ...argv], { cwd: root, encoding: 'utf8' }).status

type Place = { readonly name: string; readonly start: number; readonly end: number }

/**
 * The repeats as `first:from-to = second:from-to`. A repeat that the baseline does not list fails
 * the check.
 */
function repeats(files: Readonly<Record<string, string>>): string[] {
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true })
    writeFileSync(join(root, path), text)
  }
  const status = jscpd('--reporters', 'json', '--output', 'out')
  const { duplicates } = JSON.parse(readFileSync(join(root, 'out/jscpd-report.json'), 'utf8')) as {
    duplicates: { firstFile: Place; secondFile: Place }[]
  }
  expect(status).toBe(duplicates.length === 0 ? 0 : 1)
  const span = ({ name, start, end }: Place) => `${name}:${start}-${end}`
  return duplicates.map(({ firstFile, secondFile }) => `${span(firstFile)} = ${span(secondFile)}`).sort()
}

const steps = (from: number, to: number) =>
  Array.from({ length: to - from + 1 }, (_, i) => `step${from + i}()\n`).join('')
const wide = (count: number) =>
  Array.from({ length: count }, (_, i) => `await send(first${i}, second, third(${i}))\n`).join('')

test('eight equal lines in two files are a repeat, and seven are none, however long', () => {
  expect(repeats({ 'edge/a.ts': steps(1, 8), 'worker/b.ts': `first()\n${steps(1, 8)}` })).toEqual([
    'edge/a.ts:1-8 = worker/b.ts:2-9',
  ])
  rmSync(join(root, 'edge'), { recursive: true })
  rmSync(join(root, 'worker'), { recursive: true })
  expect(repeats({ 'edge/a.ts': wide(7), 'worker/b.ts': `first()\n${wide(7)}` })).toEqual([])
})

test('a longer run is one repeat, and each copy is reported', () => {
  expect(
    repeats({ 'edge/a.ts': steps(1, 20), 'edge/b.ts': steps(1, 20), 'worker/c.ts': steps(1, 20) }),
  ).toHaveLength(2)
})

test('a file that repeats itself is reported', () => {
  expect(repeats({ 'edge/a.ts': `${steps(1, 8)}between()\n${steps(1, 8)}` })).toEqual([
    'edge/a.ts:1-8 = edge/a.ts:10-17',
  ])
})

test('a repeat between .ts and .tsx is found', () => {
  expect(repeats({ 'edge/a.ts': steps(1, 9), 'edge/b.tsx': steps(1, 9) })).toHaveLength(1)
})

test('indentation, blank lines, comments and line breaks hide no repeat', () => {
  const dressed = steps(1, 9).replace(/^step/gm, '\n  // why\n      step')
  expect(repeats({ 'edge/a.ts': steps(1, 9), 'edge/b.ts': dressed })).toHaveLength(1)
})

test('equal imports and equal comments are not repeats', () => {
  const head = Array.from({ length: 10 }, (_, i) => `import { a${i} } from './a.ts'\n`).join('')
  const block = `/*\n${'the same words\n'.repeat(9)}*/\nimport {\n${'  name,\n'.repeat(9)}} from './a.ts'\n`
  expect(
    repeats({ 'edge/a.ts': head + block + steps(1, 9), 'edge/b.ts': head + block + steps(11, 19) }),
  ).toEqual([])
})

test('a repeat that the baseline lists passes, and the next one fails', () => {
  repeats({ 'edge/a.ts': steps(1, 8), 'worker/b.ts': steps(1, 8) })
  expect(jscpd('--update-baseline')).toBe(0)
  expect(jscpd()).toBe(0)
  writeFileSync(join(root, 'edge/c.ts'), steps(30, 38))
  writeFileSync(join(root, 'edge/d.ts'), steps(30, 38))
  expect(jscpd()).toBe(1)
})
