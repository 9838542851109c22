// `npm test`: installs what tests need, runs the checks and every test, and prints a last line of
// plain numbers. Arguments go to vitest: `npm test -- test/faults` runs one folder, without the
// checks. A skipped test fails the run. COUNTERSIGN_SHARD=1/4 runs the first of four parts of the
// tests, without the checks, so that CI can run the parts in parallel.

import { spawnSync } from 'node:child_process'
import { chmodSync, globSync, mkdtempSync, readFileSync, readlinkSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { removeEmptyCgroups } from '../delegate-cgroup.ts'
import { installForTests } from '../packages.ts'
import { sayOnStderr } from '../setup.ts'
import { ROOT } from '../state.ts'

/** The part of vitest's JSON report that we read. */
type Report = {
  numTotalTests: number
  numPassedTests: number
  numFailedTests: number
  numFailedTestSuites: number
  success: boolean
}

const shard = process.env['COUNTERSIGN_SHARD'] ?? ''
const args = [...(shard === '' ? [] : [`--shard=${shard}`]), ...process.argv.slice(2)]

const run = (file: string, ...rest: string[]): boolean =>
  spawnSync(join(ROOT, 'node_modules/.bin', file), rest, { cwd: ROOT, stdio: ['ignore', 1, 2] }).status === 0

function stop(why: string): never {
  sayOnStderr(why)
  console.log('0 passed, 1 failed')
  process.exit(1)
}

const ready = installForTests(sayOnStderr)
if (!ready.ok) stop(ready.error)
// The tests run even if a check fails, because both results are wanted.
const gates = args.length > 0 || run('node', 'infra/check/gates.ts')

// All temporary files of the tests are in here, so that leftovers can be reported and removed.
const folder = mkdtempSync(join(tmpdir(), 'cs-'))
chmodSync(folder, 0o1777)
process.env['TMPDIR'] = folder
// The state folders that tests copy are made by this edge, not by an older one.
process.env['COUNTERSIGN_SEEDED'] = join(folder, 'seeded')
const file = join(folder, 'report.json')
process.env['COUNTERSIGN_TEST_REPORT'] = file
const passed = run('vitest', 'run', ...args)
let report: Report | undefined
try {
  report = JSON.parse(readFileSync(file, 'utf8')) as Report // vitest wrote it just now
} catch {
  report = undefined
}
const left = await leftovers(folder)
for (const what of left) sayOnStderr(`a test left this behind: ${what}`)
rmSync(folder, { recursive: true, force: true })
if (report === undefined) stop('vitest ended without a report; its output above says why')

if (!gates) sayOnStderr('a check failed; run `npm run check` to see its output alone')
const skipped = report.numTotalTests - report.numPassedTests - report.numFailedTests
if (skipped > 0) sayOnStderr(`${skipped} tests were skipped; a test that can't run must fail and say why`)
const fine = gates && passed && report.success && skipped === 0 && left.length === 0
// vitest does not count a file that failed to load among the failed tests, so at least 1 is shown
// then.
const failed = report.numFailedTests + skipped + left.length + (gates ? 0 : 1)
console.log(`${report.numPassedTests} passed, ${failed + (fine || failed > 0 ? 0 : 1)} failed`)
process.exit(fine ? 0 : 1)

/**
 * Processes with the folder in their command line or as working directory, mounts in it, and
 * cgroups; waits up to 2 s for them to end.
 */
async function leftovers(name: string): Promise<string[]> {
  for (let tries = 20; ; tries--) {
    const processes = globSync('/proc/[0-9]*').flatMap((path) => {
      try {
        const command = readFileSync(join(path, 'cmdline'), 'utf8').replaceAll('\0', ' ')
        return command.includes(name) || readlinkSync(join(path, 'cwd')).startsWith(name)
          ? [`process ${path.slice(6)}: ${command}`]
          : []
      } catch {
        return [] // the process has ended, or is a zombie
      }
    })
    const mounts = readFileSync('/proc/self/mountinfo', 'utf8')
      .split('\n')
      .filter((line) => line.includes(name))
    const groups = removeEmptyCgroups()
    const found = [
      ...processes,
      ...mounts.map((line) => `mount ${line.split(' ')[4]}`),
      ...groups.map((path) => `cgroup ${path}`),
    ]
    if (found.length === 0 || tries === 0) return found
    await sleep(100)
  }
}
