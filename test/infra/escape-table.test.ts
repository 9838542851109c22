// infra/testing/escape-table.ts derives a row for each attack from the names and results of tests,
// and reports missing or failed tests as open.

import { expect, test } from 'vitest'
import { attacksOf, rowsOf, type TestResult, written } from '../../infra/testing/escape-table.ts'

const CATALOGUE = [
  { line: 'S01', words: 'typing into a terminal' },
  { line: 'N01', words: 'the metadata address' },
  { line: 'G01', words: 'keys' },
]
const S01 = (rest: string, status = 'passed', ...groups: string[]): TestResult => ({
  titles: [...groups, `S01 ${rest}`],
  status,
})
const HOLDS = S01('is refused')
const BITES = S01('without seccomp: it types')

const openIn = (...results: TestResult[]): readonly string[] =>
  rowsOf(attacksOf(CATALOGUE), results)[0]?.open ?? ['no row']

test('the table has the attacks on the sandbox and on its network', () => {
  expect(attacksOf(CATALOGUE)).toEqual([
    { line: 'S01', words: 'typing into a terminal' },
    { line: 'N01', words: 'the metadata address' },
  ])
})

test('an attack is contained if it fails with all defences, and works without one or a reason says why not', () => {
  expect(openIn(HOLDS, BITES)).toEqual([])
  expect(openIn(HOLDS, S01('D1 without seccomp: it types'))).toEqual([])
  expect(openIn(HOLDS, S01('not shown here: no terminal'))).toEqual([])
  expect(openIn(HOLDS, { titles: ['S01, S02 without seccomp: it types'], status: 'passed' })).toEqual([])
  expect(openIn({ titles: ['S01 in a group', 'refused'], status: 'passed' }, BITES)).toEqual([])
  expect(openIn({ titles: ['N01 S01: S01 is refused'], status: 'passed' }, BITES)).toEqual([])
})

test('a test from a table of attacks counts only for its own attack', () => {
  expect(openIn({ titles: ['S01 N01: N01 is refused'], status: 'passed' }, BITES)).toEqual(['no test'])
})

test('an attack with a missing or failed test is reported as open', () => {
  expect(openIn()).toEqual(['no test', 'no test without a defence'])
  expect(openIn(HOLDS)).toEqual(['no test without a defence'])
  expect(openIn(BITES)).toEqual(['no test'])
  expect(openIn(HOLDS, S01('again', 'failed'), BITES)).toEqual(['not contained'])
  expect(openIn(HOLDS, S01('without seccomp: it types', 'failed'))).toEqual([
    'the attack does not work without seccomp',
  ])
  expect(openIn(HOLDS, BITES, S01('not shown here: no terminal', 'failed'))).toEqual([
    'the reason does not hold',
  ])
})

test('the printed table has a line for each attack, for each fault, and for the totals', () => {
  const text = written(rowsOf(attacksOf(CATALOGUE), [HOLDS, BITES]))
  expect(text).toBe(
    [
      'line  attack                  contained  works without',
      'S01   typing into a terminal  1 of 1     seccomp',
      'N01   the metadata address    0 of 0                    OPEN',
      '',
      'N01 is open: no test',
      'N01 is open: no test without a defence',
      '1 of 2 lines hold',
    ].join('\n'),
  )
})
