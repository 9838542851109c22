// How the tests run: one file at a time (two cores, real processes), and one stack for all files that say `sharedStack`. It starts only when
// one of them is among what runs.

import { globSync, readFileSync } from 'node:fs'
import { defineConfig } from 'vitest/config'

const files = globSync('test/**/*.test.ts', { cwd: import.meta.dirname })
const sharing = files.filter((file) => /\bsharedStack\b/.test(readFileSync(file, 'utf8')))

const common = { pool: 'forks', testTimeout: 60_000, hookTimeout: 120_000, teardownTimeout: 30_000, allowOnly: false } as const

export default defineConfig({
  test: {
    fileParallelism: false,
    passWithNoTests: false,
    projects: [
      { test: { ...common, name: 'alone', include: ['test/**/*.test.ts'], exclude: sharing } },
      { test: { ...common, name: 'shared', include: sharing, globalSetup: ['test/support/shared-stack.ts'] } },
    ],
  },
})
