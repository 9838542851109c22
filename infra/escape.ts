// `npm run test:escape`: runs the tests of the attacks S.. and N.., with all defences on and with
// one of them off, and prints a table of the results. Exits with 1 if an attack is open.
// escape-table.ts explains the titles of the tests.

import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ATTACKS } from './check/attack-catalogue.ts'
import { listTests, testedIn } from './check/attacks.ts'
import { installForTests } from './packages.ts'
import { sayOnStderr as say } from './setup.ts'
import { ROOT } from './state.ts'
import { fail } from './terminal.ts'
import { attacksOf, rowsOf, written } from './testing/escape-table.ts'

/** The part of vitest's JSON report that we read. */
type Report = {
  testResults: { assertionResults: { ancestorTitles: string[]; title: string; status: string }[] }[]
}

const ready = installForTests(say)
if (!ready.ok) fail(say, ready.error)

const attacks = attacksOf(ATTACKS)
const named = testedIn(listTests(ROOT))
const files = [...new Set(attacks.flatMap(({ line }) => named.get(line) ?? []))].filter((file) =>
  file.endsWith('.test.ts'),
)

const folder = mkdtempSync(join(tmpdir(), 'cs-escape-'))
const file = join(folder, 'report.json')
const only = ['--testNamePattern', '(?:^|[ ,])[SN]\\d\\d[ :,]']
const argv = ['run', '--reporter=default', '--reporter=json', `--outputFile.json=${file}`, ...only, ...files]
spawnSync(join(ROOT, 'node_modules/.bin/vitest'), argv, { cwd: ROOT, stdio: ['ignore', 2, 2] })
let report: Report
try {
  report = JSON.parse(readFileSync(file, 'utf8')) as Report // vitest wrote it just now
} catch {
  fail(say, 'vitest ended without a report; its output above says why')
} finally {
  rmSync(folder, { recursive: true, force: true })
}

const results = report.testResults.flatMap(({ assertionResults }) =>
  // Tests of these files that the pattern excludes have the status `skipped`.
  assertionResults
    .filter(({ status }) => status === 'passed' || status === 'failed')
    .map(({ ancestorTitles, title, status }) => ({ titles: [...ancestorTitles, title], status })),
)
const rows = rowsOf(attacks, results)
console.log(written(rows))
process.exit(rows.some(({ open }) => open.length > 0) ? 1 : 0)
