// Bundles a program of ours into one file, for tests that start it again and again: loading the 235
// modules of the command line one by one costs 0.2 s of CPU, two thirds of a start. The demo and
// test/journey/command-line.test.ts start cli/main.ts itself.

import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { build, type Plugin } from 'esbuild'
import { ROOT } from '../../infra/state.ts'

const CACHE = join(ROOT, 'node_modules/.cache/countersign/bundled')

/** A module that looks for files beside its source still finds them. */
const knowsItsPlace: Plugin = {
  name: 'knows-its-place',
  setup({ onLoad }) {
    onLoad({ filter: /\/cli\/.*\.ts$/ }, ({ path }) => ({
      contents: readFileSync(path, 'utf8')
        .replaceAll('import.meta.dirname', JSON.stringify(dirname(path)))
        .replaceAll('import.meta.url', JSON.stringify(`file://${path}`)),
      loader: 'ts',
    }))
  },
}

/** Returns the path of the bundle. Compilers and engines remain packages, which only builds load. */
export async function bundled(entry: string): Promise<string> {
  const outdir = join(CACHE, entry.replaceAll('/', '-').replace(/\.ts$/, ''))
  const { outputFiles } = await build({
    absWorkingDir: ROOT,
    entryPoints: [entry],
    bundle: true,
    splitting: true,
    platform: 'node',
    format: 'esm',
    target: 'node24',
    outdir,
    outExtension: { '.js': '.mjs' },
    chunkNames: '[name]',
    external: ['@bytecodealliance/*', 'quickjs-wasi', 'quickjs-wasi/*'],
    plugins: [knowsItsPlace],
    write: false,
    logLevel: 'silent',
  })
  mkdirSync(outdir, { recursive: true })
  // Other vitest workers write the same files, so each is replaced whole.
  for (const { path, contents } of outputFiles) {
    const draft = `${path}.${process.pid}`
    writeFileSync(draft, contents)
    renameSync(draft, path)
  }
  return join(outdir, `${basename(entry, '.ts')}.mjs`)
}
