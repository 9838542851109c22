// infra/check/duplicates.ts finds what is written down twice, and only that.

import { expect, test } from 'vitest'
import { repeats } from '../../infra/check/duplicates.ts'

const steps = (from: number, to: number) =>
  Array.from({ length: to - from + 1 }, (_, i) => `step${from + i}()\n`).join('')
const judged = (files: Record<string, string>) =>
  repeats(new Map(Object.entries(files))).map((r) => `${r.first} = ${r.second} (${r.lines})`)

test('eight equal lines in two files are a repeat, seven are none', () => {
  expect(judged({ 'edge/a.ts': steps(1, 8), 'worker/b.ts': `first()\n${steps(1, 8)}` })).toEqual([
    'edge/a.ts:1-8 = worker/b.ts:2-9 (8)',
  ])
  expect(judged({ 'edge/a.ts': steps(1, 7), 'worker/b.ts': steps(1, 7) })).toEqual([])
})

test('a long run is one repeat, reported whole', () => {
  expect(judged({ 'edge/a.ts': steps(1, 20), 'worker/b.ts': steps(1, 20) })).toEqual([
    'edge/a.ts:1-20 = worker/b.ts:1-20 (20)',
  ])
})

test('each copy is reported', () => {
  expect(judged({ 'edge/a.ts': steps(1, 9), 'edge/b.ts': steps(1, 9), 'edge/c.ts': steps(1, 9) })).toEqual([
    'edge/a.ts:1-9 = edge/b.ts:1-9 (9)',
    'edge/a.ts:1-9 = edge/c.ts:1-9 (9)',
  ])
})

test('within one file', () => {
  expect(judged({ 'edge/a.ts': `${steps(1, 8)}between()\n${steps(1, 8)}` })).toEqual([
    'edge/a.ts:1-8 = edge/a.ts:10-17 (8)',
  ])
})

test('a table of like rows is one thing', () => {
  expect(judged({ 'edge/a.ts': 'row()\n'.repeat(12) })).toEqual([])
})

test('indentation, blank lines, comments and brackets hide nothing', () => {
  const dressed = steps(1, 8).replace(/^step/gm, '\n  // why\n    {\n  step')
  expect(judged({ 'edge/a.ts': steps(1, 8), 'edge/b.ts': dressed })).toHaveLength(1)
})

test('equal imports and equal comments are no repeat', () => {
  const head = Array.from({ length: 10 }, (_, i) => `import { a${i} } from './a.ts'\n`).join('')
  const block = `/*\n${'the same words\n'.repeat(9)}*/\nimport {\n${'  name,\n'.repeat(9)}} from './a.ts'\n`
  expect(judged({ 'edge/a.ts': head + block, 'edge/b.ts': head + block })).toEqual([])
})
