// The list of mutants matches the tree: each line and each named test exists. `npm run mutants`
// checks whether the tests notice.

import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseSync } from '@swc/core'
import { expect, test } from 'vitest'
import { ROOT } from '../../infra/state.ts'
import { MUTANTS } from '../mutants/list.ts'
import { type Mutant, mutated, spanOf } from '../mutants/mutant.ts'

const sourceOf = ({ file }: Mutant): string =>
  existsSync(join(ROOT, file)) ? readFileSync(join(ROOT, file), 'utf8') : ''
const nameOf = ({ file, text }: Mutant): string => `${file}: ${text}`
const namesOf = (unfit: (mutant: Mutant) => boolean): string[] => MUTANTS.filter(unfit).map(nameOf)

test('each mutant’s text occurs exactly once in its file', () => {
  expect(namesOf((mutant) => spanOf(mutant, sourceOf(mutant)) === undefined)).toEqual([])
})

test('each mutant differs from its line, and is still a program', () => {
  const isBroken = (mutant: Mutant): boolean => {
    if (mutant.file.endsWith('.py')) return false // no parser of Python is at hand
    try {
      parseSync(mutated(mutant, sourceOf(mutant)), { syntax: 'typescript', tsx: mutant.file.endsWith('x') })
      return false
    } catch {
      return true
    }
  }
  expect(namesOf(({ text, becomes }) => text === becomes)).toEqual([])
  expect(namesOf((mutant) => spanOf(mutant, sourceOf(mutant)) !== undefined && isBroken(mutant))).toEqual([])
})

test('no two mutants are the same', () => {
  const all = MUTANTS.map(({ file, text, becomes }) => `${file}: ${text} → ${becomes}`)
  expect(all.filter((one, i) => all.indexOf(one) !== i)).toEqual([])
})

test('the tests of each mutant exist, and one sentence names the attacker’s gain', () => {
  expect(
    namesOf(({ tests }) => tests.length === 0 || !tests.every((file) => existsSync(join(ROOT, file)))),
  ).toEqual([])
  expect(namesOf(({ gains }) => !/^[A-Z].{20,}\.$/.test(gains))).toEqual([])
})

test('the titles that select tests occur in their files', () => {
  const isTitled = ({ tests, titled = '' }: Mutant): boolean =>
    titled
      .split('|')
      .every((one) =>
        tests.some((file) =>
          one.split('.*').every((part) => readFileSync(join(ROOT, file), 'utf8').includes(part)),
        ),
      )
  expect(namesOf((mutant) => !isTitled(mutant))).toEqual([])
})

test('the list has at least a hundred mutants, and some in each area', () => {
  expect(MUTANTS.length).toBeGreaterThanOrEqual(100)
  const counts = Map.groupBy(MUTANTS, ({ area }) => area)
  const few = [
    'addresses',
    'approvals',
    'channels',
    'console',
    'egress',
    'evidence',
    'files',
    'forms',
    'grants',
    'ids',
    'json',
    'lifecycle',
    'limits',
    'links',
    'planning',
    'policy',
    'redaction',
    'redis',
    'sandbox',
    'seccomp',
    'secrets',
    'signatures',
    'skills',
    'tenants',
    'workers',
  ].filter((area) => [...counts].every(([of, mutants]) => of !== area || mutants.length < 2))
  expect(few).toEqual([])
})
