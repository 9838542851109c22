// `npm run t -- FILE…` runs the test files whose path contains one of the words. With `--watch` it
// runs them again after each change; `--watch` without a word runs the files that the changes since
// the last commit affect. `npm run test:unit` runs all tests that need no process. Prints how long
// the first test took to begin. Other flags go to vitest.

import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { buildEdge } from '../edge-build.ts'
import { installForTests } from '../packages.ts'
import { sayOnStderr as say } from '../setup.ts'
import { ROOT } from '../state.ts'
import { fail } from '../terminal.ts'
import { testProjects } from './projects.ts'

const begun = Date.now() - process.uptime() * 1_000
const args = process.argv.slice(2)
const watch = args.includes('--watch')
const words = args.filter((arg) => !arg.startsWith('-'))
const unit = new Set(testProjects(ROOT).unit)
const onlyUnit =
  args.includes('--project=unit') || (words.length > 0 && words.every((word) => unit.has(word)))
if (words.length === 0 && !watch && !onlyUnit)
  fail(say, 'name a test file, or a part of its path: `npm run t -- test/edge/call/table.test.ts`')
if (!onlyUnit) {
  const ready = installForTests(say)
  if (!ready.ok) fail(say, ready.error)
}
const mode = watch ? ['watch', ...(words.length === 0 ? ['--changed'] : [])] : ['run']
const vitest = spawn(
  join(ROOT, 'node_modules/.bin/vitest'),
  [...mode, ...args.filter((arg) => arg !== '--watch')],
  {
    cwd: ROOT,
    stdio: 'inherit',
    env: { ...process.env, COUNTERSIGN_TEST_BEGUN: String(Math.round(begun)) },
  },
)
// Builds the edge while vitest starts. If the build fails, the stack builds again and reports the
// error.
if (!onlyUnit) void buildEdge(() => undefined)
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => vitest.kill(signal))
vitest.on('exit', (code) => {
  if (args.includes('--project=unit'))
    console.log(`the unit tests took ${((Date.now() - begun) / 1_000).toFixed(1)} s`)
  process.exit(code ?? 1)
})
