// Promise: docs/schemas has the JSON Schema of each format of evidence as the edge serves it, and
// docs/evidence.md names each of them and each check. `UPDATE_GOLDEN=1` writes the schemas again.

import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { FORMAT_NAMES, schemaOf } from '../../edge/http/evidence-formats.ts'
import { ROOT } from '../../infra/state.ts'
import { deniedBundle, executedBundle, KEYS } from '../shared/evidence.ts'
import { checkNames } from '../shared/vectors/verdicts.ts'

const FOLDER = join(ROOT, 'docs/schemas')
const page = readFileSync(join(ROOT, 'docs/evidence.md'), 'utf8')

test('docs/schemas has exactly the schemas that the edge serves', () => {
  if (process.env['UPDATE_GOLDEN'] !== undefined)
    for (const name of FORMAT_NAMES) writeFileSync(join(FOLDER, `${name}.json`), schemaOf(name) ?? '')
  expect(readdirSync(FOLDER).sort()).toEqual(FORMAT_NAMES.map((name) => `${name}.json`).sort())
  for (const name of FORMAT_NAMES) {
    const stored = JSON.parse(readFileSync(join(FOLDER, `${name}.json`), 'utf8')) as unknown
    expect([name, JSON.parse(schemaOf(name) ?? '')]).toEqual([name, stored])
  }
})

test('a schema of an unlisted format is not found', () => {
  expect(['', 'constructor', '__proto__', 'bundle.json'].map(schemaOf)).toEqual(Array(4).fill(undefined))
})

test('docs/evidence.md names each schema, and each check of a bundle', () => {
  expect(FORMAT_NAMES.filter((name) => !page.includes(`\`${name}.json\``))).toEqual([])
  const names = new Set([...checkNames(executedBundle(), KEYS), ...checkNames(deniedBundle(), KEYS)])
  expect([...names].filter((name) => !page.includes(name))).toEqual([])
})
