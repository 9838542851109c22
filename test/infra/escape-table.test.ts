// infra/escape-table.ts tells of each attack line what the tests' names and results say, and calls open whatever they don't.

import { expect, test } from 'vitest'
import { attacksOf, rowsOf, type TestResult, written } from '../../infra/escape-table.ts'

const DOCUMENT = [
  '| S01 | typing into a terminal | `a` |',
  '| N01 | the metadata address | not yet |',
  '| G01 | keys | `b` |',
].join('\n')
const S01 = (rest: string, status = 'passed', ...groups: string[]): TestResult => ({
  titles: [...groups, `S01 ${rest}`],
  status,
})
const HOLDS = S01('is refused')
const BITES = S01('without seccomp: it types')

const openIn = (...results: TestResult[]): readonly string[] =>
  rowsOf(attacksOf(DOCUMENT), results)[0]?.open ?? ['no row']

test('the lines are those that the document lists for the sandbox', () => {
  expect(attacksOf(DOCUMENT)).toEqual([
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
  const text = written(rowsOf(attacksOf(DOCUMENT), [HOLDS, BITES]))
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
