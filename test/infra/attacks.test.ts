// infra/check reads the attacks and seeds from what the tests are called, and notices a table that says otherwise.

import { expect, test } from 'vitest'
import { filled, testedIn, unproven } from '../../infra/check/attacks.ts'
import { namedBy } from '../../infra/check/seeds.ts'
import { titlesOf } from '../../infra/check/titles.ts'

const title = (...codes: string[]) => `${codes.join(', ')} is refused`
const row = (code: string, where: string) => `| ${code} | an attack | ${where} |`

test('what tests are called counts, by a table too, in whichever file it stands; words in their bodies, and comments, do not', () => {
  const source = [
    `import { CASES } from './cases.ts'`,
    `test('${title('S22')}', () => expect('${title('S05')}').toBe(\`${title('S06')}\`))`,
    `const rows = [['${title('P04', 'P05')}', 1], ['and another', '${title('J01')}']]`,
    `test.each(rows)('%s', run)`,
    `describe.each(CASES.map(({ name }) => [name]))('%s: again', run)`,
    `describe(\`${title('Q01')} \${n}\`, run)`,
    `test.runIf(here)('${title('Q02')}', run)`,
    'function asOther(title: string, run: () => void) { test(title, run) }',
    `asOther('${title('Q03')}', run)`,
    `test.each([['${title('S07')}']])('in the middle: %s', run)`,
    `note('${title('S08')}')`,
    `// ${title('S01')}`,
    `test('refuses S02 always', run)`,
    `test('S031 is no code', run)`,
  ].join('\n')
  const tree = new Map([
    ['test/escape/b.test.ts', source],
    ['test/escape/a.test.ts', `test('${title('S22')}', run)`],
    [
      'test/escape/cases.ts',
      `const MORE = { '${title('G01')}': 1 }\nexport const CASES = [...all(MORE), { name: '${title('G02')}' }]`,
    ],
    ['infra/a.ts', `test('${title('S03')}', run)`],
  ])
  const [b, both] = [['test/escape/b.test.ts'], ['test/escape/a.test.ts', 'test/escape/b.test.ts']]
  const expected = Object.entries({ S22: both, Q01: b, Q02: b, Q03: b, P04: b, P05: b, G02: b, G01: b })
  expect([...testedIn(titlesOf(tree))].toSorted()).toEqual(expected.toSorted())
})

test('a seed is named at either end of a title; what looks like one is not', () => {
  const text = (source: string) => ({ file: 'test/a.test.ts', text: source })
  const one = text('it holds (seeds T31, N2)')
  const other = text('seed T31: it holds, and seeds N1 and N2 do')
  const found = namedBy([one, other, text('N3 is a line of the catalogue'), text('seed T310: is none')])
  const named = [...found].filter(([, titles]) => titles.length > 0)
  expect(named).toEqual([
    ['T31', [one, other]],
    ['N1', [other]],
    ['N2', [one, other]],
  ])
})

test('the table follows the tests: filled, moved and emptied', () => {
  const tested = new Map([
    ['S22', ['test/escape/a.test.ts']],
    ['S23', ['test/escape/a.test.ts', 'test/escape/b.test.ts']],
  ])
  const before = [
    '# Security',
    row('S22', 'not yet'),
    row('S23', '`test/gone.ts`'),
    row('S24', '`test/gone.ts`'),
    '',
  ].join('\n')
  const after = [
    '# Security',
    row('S22', '`test/escape/a.test.ts`'),
    row('S23', '`test/escape/a.test.ts`, `test/escape/b.test.ts`'),
    row('S24', 'not yet'),
    '',
  ]
  expect(filled(before, tested)).toEqual({ document: after.join('\n'), strangers: [] })
})

test('an attack that no row lists is named', () => {
  expect(filled(row('S22', 'not yet'), new Map([['S99', ['test/a.test.ts']]])).strangers).toEqual(['S99'])
})

test('what a sandbox must hold off needs a test, and a twin or a reason why there is none', () => {
  const document = [row('S22', 'not yet'), row('G01', 'not yet')].join('\n')
  const called = (...texts: string[]) =>
    unproven(
      document,
      texts.map((text) => ({ file: 'test/a.test.ts', text })),
    )
  expect(called(title('S22'))).toEqual(['S22: nothing shows that the test bites'])
  expect(called('S22 without an empty environment: it is read')).toEqual(['S22: no test'])
  expect(called(title('S22'), 'S22 without an empty environment: it is read')).toEqual([])
  expect(called(title('S22'), 'S22 not shown here: nothing here can')).toEqual([])
})
