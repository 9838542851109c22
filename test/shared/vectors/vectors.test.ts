// Promise: our verifier and a second one in Python, which shares no code with it, judge every vector as
// it is labelled: the same verdict, and the same first check that fails. Each check has a vector that
// only it finds first (J01, T01, T02).

import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import { ROOT } from '../../../infra/state.ts'
import { ARGUMENTS_REMOVED, REMOVAL_SIGNED } from '../../../shared/evidence/bundle.ts'
import { deniedBundle, executedBundle, KEYS } from '../evidence.ts'
import { VECTORS } from './frozen-vectors.ts'
import { checkNames, firstFailure } from './verdicts.ts'

const SCHEMAS = join(ROOT, 'docs/schemas')
const labels = VECTORS.map(({ name, fails }) => [name, fails])

let python: string[] = []
beforeAll(() => {
  const ran = spawnSync('python3', ['-I', join(ROOT, 'test/verifier/verify.py'), SCHEMAS], {
    input: VECTORS.map((vector) => `${JSON.stringify(vector)}\n`).join(''),
    encoding: 'utf8',
    env: { PATH: '/usr/bin:/bin', PYTHONIOENCODING: 'utf8' },
  })
  if (ran.status !== 0) throw new Error(`python3: ${ran.error?.message ?? ran.stderr}`)
  python = ran.stdout.trim().split('\n')
})

test('our verifier judges every vector as it is labelled', () => {
  expect(VECTORS.map(({ name, bundle, keys }) => [name, firstFailure(bundle, keys)])).toEqual(labels)
})

test('the verifier in Python judges every vector as it is labelled', () => {
  expect(VECTORS.map(({ name }, i) => [name, JSON.parse(python[i] ?? '')])).toEqual(labels)
})

test('there are good vectors of every kind, and a bad one for each check', () => {
  expect(VECTORS.filter(({ fails }) => fails === null).length).toBeGreaterThan(15)
  const names = [
    'the key file can be read',
    'the key file is well-formed',
    'the bundle can be read',
    'the bundle is well-formed',
    ARGUMENTS_REMOVED,
    REMOVAL_SIGNED,
    ...checkNames(executedBundle(), KEYS),
    ...checkNames(deniedBundle(), KEYS),
  ]
  const found = new Set(VECTORS.map(({ fails }) => fails))
  expect(names.filter((name) => !found.has(name))).toEqual([])
})
