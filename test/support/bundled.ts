// Bundles the programs that tests start again and again: resolving and reading the modules one by
// one is most of a start, for the 235 of the command line and the 870 of the worker. The demo,
// test/journey/command-line.test.ts and test/journey/start.test.ts start the sources.

import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { basename, dirname, join, relative } from 'node:path'
import { type BuildOptions, build, type Plugin } from 'esbuild'
import { ROOT } from '../../infra/state.ts'
import { type Limits, withLimits } from './stack/other-limits.ts'

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
  await bundle({
    entryPoints: [entry],
    outdir,
    chunkNames: '[name]',
    external: ['@bytecodealliance/*', 'quickjs-wasi', 'quickjs-wasi/*'],
    plugins: [knowsItsPlace],
  })
  return join(outdir, `${basename(entry, '.ts')}.mjs`)
}

/**
 * Returns the path of the bundled worker, from the root, with these limits instead of the real ones.
 * Its folders are those of the sources, as worker/re-exec.ts expects: `worker/` with the entries, and
 * `shared/`.
 */
export function bundledWorker(limits: Limits = {}): Promise<string> {
  const name = ['worker', ...Object.entries(limits).flat()].join('-')
  const program = workers.get(name) ?? bundleWorker(name, limits)
  workers.set(name, program)
  return program
}
const workers = new Map<string, Promise<string>>()

async function bundleWorker(name: string, limits: Limits): Promise<string> {
  const outdir = join(CACHE, name)
  const limited: Plugin = {
    name: 'limited',
    setup({ onLoad }) {
      onLoad({ filter: /\/shared\/limits\.ts$/ }, ({ path }) => ({
        contents: withLimits(readFileSync(path, 'utf8'), limits),
        loader: 'ts',
      }))
    },
  }
  await bundle({
    entryPoints: ['worker/main.ts', 'worker/serve-main.ts'],
    outbase: '.',
    outdir,
    chunkNames: 'shared/[hash]',
    plugins: [limited],
    // For packages in CommonJS, which `require` Node's modules.
    banner: {
      js: "import { createRequire as requires } from 'node:module'; const require = requires(import.meta.url)",
    },
  })
  return join(relative(ROOT, outdir), 'worker/main.mjs')
}

async function bundle(options: BuildOptions & { readonly outdir: string }): Promise<void> {
  const { outputFiles = [] } = await build({
    absWorkingDir: ROOT,
    bundle: true,
    splitting: true,
    platform: 'node',
    format: 'esm',
    target: 'node24',
    outExtension: { '.js': '.mjs' },
    write: false,
    logLevel: 'silent',
    ...options,
  })
  // Other vitest workers write the same files, so each is replaced whole, and only if it differs:
  // the worker's compile cache goes by their times.
  for (const { path, contents } of outputFiles) {
    if (existsSync(path) && readFileSync(path).equals(contents)) continue
    mkdirSync(dirname(path), { recursive: true })
    const draft = `${path}.${process.pid}`
    writeFileSync(draft, contents)
    renameSync(draft, path)
  }
}
