// How the tests run: two files at a time, for they mostly wait: where each has processes of its own, and where each has a stack to itself that
// others had before it (files that say `sharedStack`; it starts only when one of them is among what runs). One at a time where they share the
// machine, whose mounts and control groups some compare before and after. Files that are not code load as wrangler's rules say.

import { globSync, readFileSync } from 'node:fs'
import { defineConfig } from 'vitest/config'

/** Tests of booted machines, which take minutes: `npm run test:hosts` has its own configuration for them. */
const HOSTS = 'test/hosts/**'
const files = globSync('test/**/*.test.ts', { cwd: import.meta.dirname })
const sharing = files.filter((file) => /\bshared(?:Stack|State)\b/.test(readFileSync(file, 'utf8')))
/** What the whole machine has, before and after: nobody else may start or end anything meanwhile. */
const counting = [
  'test/escape/process/many.test.ts',
  'test/escape/process/orphans.test.ts',
  'test/faults/child.test.ts',
  'test/faults/leavings.test.ts',
  'test/journey/start.test.ts',
]
/** Attacks from inside: played once more in sandboxes that were set up before their call was known. */
const attacking = files.filter((file) =>
  /^test\/escape\/(?:files\/files|kernel\/(?:kernel|syscalls)|limits\/(?:counted-resources|limits)|process\/(?:processes|program-starts))\.test\.ts$/.test(
    file,
  ),
)

const common = {
  pool: 'forks',
  testTimeout: 60_000,
  hookTimeout: 120_000,
  teardownTimeout: 30_000,
  allowOnly: false,
  maxWorkers: 1,
  sequence: { groupOrder: 1 },
} as const
const server = { deps: { inline: [/\.wasm$/] } }

/** wrangler.toml's rules: `.wasm` is a compiled module, Cedar is text. */
const asBundled = {
  name: 'as-bundled',
  enforce: 'pre',
  load: (id: string): string | undefined => {
    const read = `import { readFileSync } from 'node:fs'; const bytes = readFileSync(${JSON.stringify(id)})\n`
    if (id.endsWith('.wasm')) return `${read}export default new WebAssembly.Module(bytes)`
    return /\.cedar(?:schema)?$/.test(id) ? `${read}export default bytes.toString()` : undefined
  },
} as const

export default defineConfig({
  test: {
    passWithNoTests: false,
    projects: [
      {
        plugins: [asBundled],
        test: {
          ...common,
          server,
          name: 'alone',
          include: ['test/**/*.test.ts'],
          exclude: [...sharing, ...counting, HOSTS],
          maxWorkers: 2,
          sequence: { groupOrder: 0 },
        },
      },
      { plugins: [asBundled], test: { ...common, server, name: 'counting', include: counting } },
      {
        plugins: [asBundled],
        test: {
          ...common,
          server,
          name: 'prepared',
          include: attacking,
          env: { COUNTERSIGN_ARENA: 'prepared' },
        },
      },
      {
        plugins: [asBundled],
        test: {
          ...common,
          server,
          name: 'shared',
          include: sharing,
          globalSetup: ['test/support/stack/shared-stack.ts'],
          maxWorkers: 2,
          sequence: { groupOrder: 2 },
        },
      },
    ],
  },
})
