// How the tests run: one file at a time (two cores, real processes), and one stack for all files that say `sharedStack`. It starts only
// when one of them is among what runs. Files that are not code load as wrangler's rules say.

import { globSync, readFileSync } from 'node:fs'
import { defineConfig } from 'vitest/config'

const files = globSync('test/**/*.test.ts', { cwd: import.meta.dirname })
const sharing = files.filter((file) => /\bsharedStack\b/.test(readFileSync(file, 'utf8')))
/** Attacks from inside: played once more in sandboxes that were set up before their call was known. */
const attacking = files.filter((file) => /^test\/escape\/(?:files|kernel|limits|processes|seeds|syscalls)\.test\.ts$/.test(file))

const common = {
  pool: 'forks',
  testTimeout: 60_000,
  hookTimeout: 120_000,
  teardownTimeout: 30_000,
  allowOnly: false,
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
    fileParallelism: false,
    passWithNoTests: false,
    projects: [
      { plugins: [asBundled], test: { ...common, server, name: 'alone', include: ['test/**/*.test.ts'], exclude: sharing } },
      {
        plugins: [asBundled],
        test: { ...common, server, name: 'prepared', include: attacking, env: { COUNTERSIGN_ARENA: 'prepared' } },
      },
      {
        plugins: [asBundled],
        test: { ...common, server, name: 'shared', include: sharing, globalSetup: ['test/support/shared-stack.ts'] },
      },
    ],
  },
})
