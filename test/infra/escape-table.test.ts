// infra/testing/escape-table.ts says for each attack what the names and results of the tests show, and reports as open what they don't show.

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

test('a line holds when its attack fails with all defences, and works with one off or a reason says why not', () => {
  expect(openIn(HOLDS, BITES)).toEqual([])
  expect(openIn(HOLDS, S01('D1 without seccomp: it types'))).toEqual([])
  expect(openIn(HOLDS, S01('not shown here: no terminal'))).toEqual([])
  expect(openIn(HOLDS, { titles: ['S01, S02 without seccomp: it types'], status: 'passed' })).toEqual([])
  expect(openIn({ titles: ['S01 in a group', 'refused'], status: 'passed' }, BITES)).toEqual([])
  expect(openIn({ titles: ['N01 S01: S01 is refused'], status: 'passed' }, BITES)).toEqual([])
})

test('a row of a table shows its own line, not the others that the table names', () => {
  expect(openIn({ titles: ['S01 N01: N01 is refused'], status: 'passed' }, BITES)).toEqual(['no test'])
})

test('whatever is missing or failed is open, and says so', () => {
  expect(openIn()).toEqual(['no test', 'nothing shows that the test bites'])
  expect(openIn(HOLDS)).toEqual(['nothing shows that the test bites'])
  expect(openIn(BITES)).toEqual(['no test'])
  expect(openIn(HOLDS, S01('again', 'failed'), BITES)).toEqual(['not contained'])
  expect(openIn(HOLDS, S01('without seccomp: it types', 'failed'))).toEqual([
    'without seccomp the attack does not work',
  ])
  expect(openIn(HOLDS, BITES, S01('not shown here: no terminal', 'failed'))).toEqual([
    'the reason does not hold',
  ])
})

test('the table says it all', () => {
  const text = written(rowsOf(attacksOf(CATALOGUE), [HOLDS, BITES]))
  expect(text).toBe(
    [
      'line  attack                  contained  works without',
      'S01   typing into a terminal  1 of 1     seccomp',
      'N01   the metadata address    0 of 0                    OPEN',
      '',
      'N01 is open: no test',
      'N01 is open: nothing shows that the test bites',
      '1 of 2 lines hold',
    ].join('\n'),
  )
})
