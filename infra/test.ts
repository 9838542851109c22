// `npm test`: set-up for tests, the gates, every test, and a closing line of plain numbers. Arguments go to vitest:
// `npm test -- test/faults` runs one folder, without the gates. A test that was skipped fails the run.

import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { installPackages, installTestPackages, makeUser, WORKER_USER } from './packages.ts'
import { type Say, sayOnStderr } from './setup.ts'
import { ROOT } from './state.ts'

/** What we read of vitest's JSON report. */
type Report = { numTotalTests: number; numPassedTests: number; numFailedTests: number; numFailedTestSuites: number; success: boolean }

const args = process.argv.slice(2)

const run = (file: string, ...rest: string[]): boolean =>
  spawnSync(join(ROOT, 'node_modules/.bin', file), rest, { cwd: ROOT, stdio: ['ignore', 1, 2] }).status === 0

function stop(why: string): never {
  sayOnStderr(why)
  console.log('0 passed, 1 failed')
  process.exit(1)
}

for (const step of [installPackages, (say: Say) => makeUser(WORKER_USER, say), installTestPackages]) {
  const done = step(sayOnStderr)
  if (!done.ok) stop(done.error)
}
if (args.length === 0 && !run('node', 'infra/check/gates.ts'))
  stop('the gates found something; mend it, or see it alone with `npm run check`')

const folder = mkdtempSync(join(tmpdir(), 'countersign-report-'))
const file = join(folder, 'report.json')
const passed = run('vitest', 'run', '--reporter=default', '--reporter=json', `--outputFile.json=${file}`, ...args)
let report: Report | undefined
try {
  report = JSON.parse(readFileSync(file, 'utf8')) as Report // vitest wrote it just now
} catch {
  report = undefined
}
rmSync(folder, { recursive: true, force: true })
if (report === undefined) stop('vitest ended without a report')

const skipped = report.numTotalTests - report.numPassedTests - report.numFailedTests
if (skipped > 0) sayOnStderr(`${skipped} tests did not run; a test that can't run must fail and say why`)
const fine = passed && report.success && skipped === 0
// A file that did not load, or a test that did not run, is a failure that vitest counts elsewhere.
const failed = report.numFailedTests + skipped
console.log(`${report.numPassedTests} passed, ${failed + (fine || failed > 0 ? 0 : 1)} failed`)
process.exit(fine ? 0 : 1)
