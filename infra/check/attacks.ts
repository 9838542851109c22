// `node infra/check/attacks.ts [--write]`: keeps docs/attack-coverage.md, which lists each attack
// with the tests of it. The catalogue is infra/check/attack-catalogue.ts. The titles come from
// vitest itself, which reads them without running a test. Nothing here judges whether a test is
// good.

import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { attacksOf, CODE, rowsOf } from '../testing/escape-table.ts'
import { ATTACKS, type Attack, CATALOGUE } from './attack-catalogue.ts'

const DOCUMENT = 'docs/attack-coverage.md'
/** `S22 …`, and for a test of several attacks `P04, P05 …` or `P04 P05 …`. */
const TITLE = new RegExp(`^${CODE}(?:,? ${CODE})*(?=:? \\S)`)

/** The titles of one test, from its outermost group to its own. */
export type Title = { readonly file: string; readonly titles: readonly string[] }

/** The tests that vitest finds. Titles of `test.each` still contain their `%s`. */
export function listTests(root: string): Title[] {
  const argv = ['list', '--static-parse', '--json']
  const listed = execFileSync(join(root, 'node_modules/.bin/vitest'), argv, {
    cwd: root,
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
  })
  const tests = JSON.parse(listed) as { name: string; file: string }[] // vitest's own format
  return tests.map(({ name, file }) => ({ file: relative(root, file), titles: name.split(' > ') }))
}

/** The files whose titles name each code. */
export function testedIn(tests: readonly Title[]): Map<string, string[]> {
  const found = new Map<string, Set<string>>()
  for (const { file, titles } of tests) {
    for (const code of titles.flatMap((title) => TITLE.exec(title)?.[0].match(new RegExp(CODE, 'g')) ?? [])) {
      found.set(code, (found.get(code) ?? new Set()).add(file))
    }
  }
  return new Map([...found].map(([code, files]) => [code, [...files].sort()]))
}

const INTRODUCTION = `# Attack coverage

\`npm run attacks\` writes this file: don't edit it. \`npm run check\` fails when it is out of date.

Each attack has a code that keeps its meaning. A test of an attack begins its title with the code
(\`S22 …\`), so a failing test names the attack that works again. The sandbox attacks (S) and the network
attacks (N) have two kinds of test. One runs the attack with every defence on, and it fails. The other
(\`S22 without DEFENCE: …\`) removes one defence and shows that the attack then works, so the first test is
known to detect it. Where this machine can't show that, a test named \`S22 not shown here: …\` holds the
reason. \`npm run test:escape\` runs these tests and prints a table of results.

The third column lists the files that test the attack. Treat an attack marked "not tested" as undefended.
[threat-model.md](threat-model.md) describes the boundaries that these attacks cross. The catalogue itself
is \`infra/check/attack-catalogue.ts\`: a new attack gets the next free number there.
`

/** The whole document. */
export function coverage(tested: ReadonlyMap<string, readonly string[]>): string {
  const sections = Object.entries(CATALOGUE).map(([heading, attacks]) => {
    const rows = Object.entries(attacks).map(([code, meaning]) => {
      const files = tested.get(code)?.map((file) => `\`${file}\``)
      return `| ${code} | ${meaning} | ${files?.join(', ') ?? 'not tested'} |\n`
    })
    return `\n## ${heading}\n\n| Code | Attack | Tested in |\n|---|---|---|\n${rows.join('')}`
  })
  return INTRODUCTION + sections.join('')
}

/** Codes in titles that the catalogue does not list. */
export const strangers = (tested: ReadonlyMap<string, unknown>): string[] => {
  const known = new Set(ATTACKS.map(({ line }) => line))
  return [...tested.keys()].filter((code) => !known.has(code))
}

/**
 * The faults of the coverage: each attack on the sandbox or the network needs a test, and a second
 * one with a defence removed.
 */
export const unproven = (attacks: readonly Attack[], tests: readonly Title[]): string[] =>
  rowsOf(
    attacksOf(attacks),
    tests.map(({ titles }) => ({ titles, status: 'passed' })),
  ).flatMap(({ line, open }) => open.map((fault) => `${line}: ${fault}`))

if (import.meta.main) {
  const root = process.cwd()
  const tests = listTests(root)
  const tested = testedIn(tests)
  const faults = [
    ...strangers(tested).map(
      (code) => `a test names ${code}, which infra/check/attack-catalogue.ts does not list; add it there`,
    ),
    ...unproven(ATTACKS, tests).map(
      (fault) => `${fault}; CONTRIBUTING.md says how tests of attacks are named`,
    ),
  ]
  const document = coverage(tested)
  const stale = !existsSync(DOCUMENT) || readFileSync(DOCUMENT, 'utf8') !== document
  if (stale && process.argv.includes('--write')) writeFileSync(DOCUMENT, document)
  else if (stale) faults.push(`${DOCUMENT} is out of date; run \`npm run attacks\` and commit it`)
  for (const fault of faults) console.log(fault)
  console.log(`${ATTACKS.length} attacks, ${ATTACKS.filter(({ line }) => tested.has(line)).length} tested`)
  process.exitCode = faults.length === 0 ? 0 : 1
}
