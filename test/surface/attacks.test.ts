// infra/check/attacks.ts reads the attacks from the titles of tests, and notices a table that says otherwise.

import { expect, test } from 'vitest'
import { filled, testedIn } from '../../infra/check/attacks.ts'

// Titles are put together here: a literal that begins with a code would make this file a test of that attack.
const title = (...codes: string[]) => `${codes.join(', ')} is refused`
const row = (code: string, where: string) => `| ${code} | an attack | ${where} |`

test('titles, rows of a table of cases and templates count; comments and the middle of a sentence do not', () => {
  const source = [
    `test('${title('S22')}', run)`,
    `const cases = [['${title('P04', 'P05')}', 1]]`,
    `describe(\`${title('Q01')} \${n}\`, run)`,
    `// ${title('S01')}`,
    `test('refuses S02 always', run)`,
    `test('S031 is no code', run)`,
  ].join('\n')
  const tree = new Map([
    ['test/escape/b.test.ts', source],
    ['test/escape/a.test.ts', `test('${title('S22')}', run)`],
    ['infra/a.ts', `export const a = '${title('S03')}'`],
  ])
  expect([...testedIn(tree)]).toEqual([
    ['S22', ['test/escape/a.test.ts', 'test/escape/b.test.ts']],
    ['P04', ['test/escape/b.test.ts']],
    ['P05', ['test/escape/b.test.ts']],
    ['Q01', ['test/escape/b.test.ts']],
  ])
})

test('the table follows the tests: filled, moved and emptied', () => {
  const tested = new Map([
    ['S22', ['test/escape/a.test.ts']],
    ['S23', ['test/escape/a.test.ts', 'test/escape/b.test.ts']],
  ])
  const before = ['# Security', row('S22', 'not yet'), row('S23', '`test/gone.ts`'), row('S24', '`test/gone.ts`'), ''].join('\n')
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
