// How the tests of whole hosts run: one file after the other, each with machines of its own, and in order within a file, for each step
// needs the one before.

import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['test/hosts/**/*.test.ts'],
    passWithNoTests: false,
    allowOnly: false,
    pool: 'forks',
    maxWorkers: 1,
    testTimeout: 240_000,
    hookTimeout: 600_000,
    teardownTimeout: 60_000,
  },
})
