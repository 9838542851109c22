// infra/check/attacks.ts reads the codes of attacks from the titles of tests, writes the coverage
// table, and reports attacks without tests.

import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { ATTACKS } from '../../infra/check/attack-catalogue.ts'
import { coverage, listTests, strangers, testedIn, unproven } from '../../infra/check/attacks.ts'
import { ROOT } from '../../infra/state.ts'

const title = (...codes: string[]) => `${codes.join(', ')} is refused`
const named = (file: string, ...titles: string[]) => ({ file, titles })

test('vitest lists the titles without running any test, and words in bodies and comments do not count', () => {
  const root = mkdtempSync(join(tmpdir(), 'attacks-'))
  try {
    symlinkSync(join(ROOT, 'node_modules'), join(root, 'node_modules'))
    mkdirSync(join(root, 'test'))
    writeFileSync(join(root, 'package.json'), '{ "type": "module" }\n')
    const source = [
      `import { describe, test } from 'vitest'`,
      `throw new Error('this file runs')`,
      `test('${title('S22')}', () => expect('${title('S05')}').toBe(\`${title('S06')}\`))`,
      `test.each([['${title('P04')}'], ['${title('P05')}']])('P04 P05: %s', run)`,
      `describe('${title('Q01')}', () => { test('a refusal', run) })`,
      `if (here) test('${title('Q02')}', run)`,
      `note('${title('S08')}')`,
      `// ${title('S01')}`,
      `test('refuses S02 always', run)`,
      `test('S031 is no code', run)`,
    ].join('\n')
    writeFileSync(join(root, 'test/a.test.ts'), source)
    const file = ['test/a.test.ts']
    const expected = Object.entries({ S22: file, P04: file, P05: file, Q01: file, Q02: file })
    expect([...testedIn(listTests(root))].toSorted()).toEqual(expected.toSorted())
  } finally {
    rmSync(root, { recursive: true })
  }
})

test('a code lists each file that names it in a title once, in order', () => {
  const tests = [
    named('test/b.ts', title('S22')),
    named('test/a.ts', title('S22', 'S23')),
    named('test/a.ts', title('S22')),
  ]
  expect([...testedIn(tests)]).toEqual([
    ['S22', ['test/a.ts', 'test/b.ts']],
    ['S23', ['test/a.ts']],
  ])
})

test('the document lists every attack of the catalogue once, even those without a test', () => {
  const document = coverage(new Map([['S22', ['test/a.ts', 'test/b.ts']]]))
  const rows = document.split('\n').filter((line) => /^\| [A-Z]\d\d /.test(line))
  expect(rows).toHaveLength(ATTACKS.length)
  expect(new Set(rows).size).toBe(rows.length)
  expect(rows.find((row) => row.startsWith('| S22 '))).toMatch(/\| `test\/a\.ts`, `test\/b\.ts` \|$/)
  expect(rows.find((row) => row.startsWith('| S23 '))).toMatch(/\| not tested \|$/)
})

test('a code has one meaning, in one sentence', () => {
  expect(new Set(ATTACKS.map(({ line }) => line)).size).toBe(ATTACKS.length)
  expect(
    ATTACKS.filter(({ line, words }) => !/^[SNWMGPQKTJVAU]\d\d$/.test(line) || !/^[A-Z].+\.$/.test(words)),
  ).toEqual([])
})

test('a code that the catalogue does not list is reported', () => {
  expect(strangers(testedIn([named('test/a.ts', title('S99')), named('test/a.ts', title('S22'))]))).toEqual([
    'S99',
  ])
})

test('an attack on the sandbox needs a test and a second one without a defence, or a reason why that can’t be shown', () => {
  const attacks = [
    { line: 'S22', words: 'A tool reads the environment.' },
    { line: 'G01', words: 'A request uses a forbidden key.' },
  ]
  const faults = (...titles: string[]) =>
    unproven(
      attacks,
      titles.map((text) => named('test/a.ts', text)),
    )
  expect(faults(title('S22'))).toEqual(['S22: no test without a defence'])
  expect(faults('S22 without an empty environment: it is read')).toEqual(['S22: no test'])
  expect(faults(title('S22'), 'S22 without an empty environment: it is read')).toEqual([])
  expect(faults(title('S22'), 'S22 not shown here: nothing here can')).toEqual([])
})
