// How the tests run. infra/testing/projects.ts sorts the files into these projects. The groups run
// one after another: unit tests, tests that start processes, tests that need the machine for
// themselves. In the first two, files share worker processes one after the other
// (docs/decisions/0054). Files that are not code are loaded by the rules of wrangler.toml.

import { defineConfig } from 'vitest/config'
import { Slowest } from './infra/testing/order.ts'
import { testProjects, usesSharedStack } from './infra/testing/projects.ts'
import { FileTimes } from './infra/testing/report.ts'

const root = import.meta.dirname
const files = testProjects(root)

/** More than two cores, because some unit tests wait for seconds. */
const UNIT_WORKERS = 4
/**
 * More than two cores, because a file of these uses about a third of a core and waits for the rest
 * of its time.
 */
const PROCESS_WORKERS = 3

const common = {
  pool: 'forks',
  testTimeout: 60_000,
  hookTimeout: 120_000,
  teardownTimeout: 30_000,
  allowOnly: false,
  server: { deps: { inline: [/\.wasm$/] as RegExp[] } },
} as const
const processes = {
  ...common,
  isolate: false,
  maxWorkers: PROCESS_WORKERS,
  sequence: { groupOrder: 1 },
} as const

/** The rules of wrangler.toml: `.wasm` is a compiled module, Cedar and SQL are text. */
const asBundled = {
  name: 'as-bundled',
  enforce: 'pre',
  load: (id: string): string | undefined => {
    const read = `import { readFileSync } from 'node:fs'; const bytes = readFileSync(${JSON.stringify(id)})\n`
    if (id.endsWith('.wasm')) return `${read}export default new WebAssembly.Module(bytes)`
    return /\.(?:cedar(?:schema)?|sql)$/.test(id) ? `${read}export default bytes.toString()` : undefined
  },
} as const
/** `npm test` also reads vitest's JSON report. */
const report = process.env['COUNTERSIGN_TEST_REPORT']

/**
 * For `npm run t -- FILE --watch`: code that runs in a separate process is not in vitest's module
 * graph, so a change of it runs the named files again.
 */
const words = process.argv.slice(2).filter((word) => !/^-|^(?:run|watch)$/.test(word))
const SERVED = /\/(?:edge|worker|cli|shared|policies|migrations)\//
const named = Object.values(files)
  .flat()
  .filter((file) => words.some((word) => file.includes(word)))

export default defineConfig({
  plugins: [asBundled],
  test: {
    passWithNoTests: false,
    sequence: { sequencer: Slowest },
    reporters: [
      'default',
      new FileTimes(),
      ...(report === undefined ? [] : [['json', { outputFile: report }] as ['json', { outputFile: string }]]),
    ],
    watchTriggerPatterns: [{ pattern: SERVED, testsToRun: () => (named.length === 0 ? undefined : named) }],
    projects: [
      {
        extends: true,
        test: {
          ...common,
          name: 'unit',
          include: files.unit,
          isolate: false,
          maxWorkers: UNIT_WORKERS,
          sequence: { groupOrder: 0 },
        },
      },
      {
        extends: true,
        test: {
          ...processes,
          name: 'prepared',
          include: files.prepared,
          env: { COUNTERSIGN_ARENA: 'prepared' },
        },
      },
      {
        extends: true,
        test: {
          ...processes,
          name: 'processes',
          include: files.processes,
          provide: {
            startsSharedStack: named.length === 0 || named.some((file) => usesSharedStack(root, file)),
          },
          globalSetup: ['test/support/stack/shared-stack.ts'],
        },
      },
      {
        extends: true,
        test: {
          ...common,
          name: 'exclusive',
          include: files.exclusive,
          maxWorkers: 1,
          sequence: { groupOrder: 2 },
        },
      },
    ],
  },
})
