// Configuration of `npm run test:hosts`: one file after the other, each with its own machines, and
// in order within a file, because each step needs the one before.

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
