// Bundles the edge with esbuild, as wrangler would: the self-hosted stack serves this, and
// `wrangler deploy` uploads its own. Wrangler takes two to four times as long, mostly for its own
// start. test/infra/edge-bundle.test.ts compares the two bundles byte by byte.

import { createHash } from 'node:crypto'
import { copyFileSync, mkdirSync, readFileSync } from 'node:fs'
import { createRequire, isBuiltin } from 'node:module'
import { basename, join, relative } from 'node:path'
import { type BuildFailure, build, type Plugin } from 'esbuild'
import { err, ok, type Result } from '../shared/result.ts'
import { type Refusal, ROOT } from './state.ts'

const ENTRY = 'edge/main.ts'
const PRODUCTION = JSON.stringify('production')

/**
 * Makes `outdir/main.js` and the modules beside it; returns the files that went into it, by their
 * path from the root.
 */
export async function bundleEdge(outdir: string): Promise<Result<string[], Refusal>> {
  mkdirSync(outdir, { recursive: true })
  const beside = new Set<string>()
  try {
    const { metafile } = await build({
      absWorkingDir: ROOT,
      entryPoints: [ENTRY],
      bundle: true,
      outdir,
      entryNames: 'main',
      format: 'esm',
      target: 'es2024',
      supported: { 'import-source': true, using: true },
      metafile: true,
      conditions: ['workerd', 'worker', 'browser'],
      define: {
        'navigator.userAgent': JSON.stringify('Cloudflare-Workers'),
        'process.env.NODE_ENV': PRODUCTION,
        'global.process.env.NODE_ENV': PRODUCTION,
        'globalThis.process.env.NODE_ENV': PRODUCTION,
      },
      loader: { '.js': 'jsx', '.mjs': 'jsx', '.cjs': 'jsx' },
      plugins: [modulesBeside(outdir, beside), runtimeModules],
      logLevel: 'silent',
    })
    return ok([...Object.keys(metafile.inputs).filter((path) => !path.startsWith(BUILT_IN)), ...beside])
  } catch (error) {
    return err(`the edge does not build:\n${sentences(error)}`)
  }
}

/**
 * wrangler.toml's rules: these files remain separate modules, named by the digest of their content.
 */
const modulesBeside = (outdir: string, beside: Set<string>): Plugin => ({
  name: 'modules-beside',
  setup({ onResolve, resolve }) {
    onResolve(
      { filter: /\.(?:wasm|sql|md|cedar|cedarschema)$/ },
      async ({ path, kind, importer, resolveDir, pluginData }) => {
        if (pluginData === 'resolving') return undefined
        const { path: file, errors } = await resolve(path, {
          kind,
          importer,
          resolveDir,
          pluginData: 'resolving',
        })
        if (errors.length > 0) return { errors }
        const name = `./${createHash('sha1').update(readFileSync(file)).digest('hex')}-${basename(path)}`
        copyFileSync(file, join(outdir, name))
        beside.add(relative(ROOT, file))
        return { path: name, external: true }
      },
    )
  },
})

const BUILT_IN = 'node-built-in-modules'

/**
 * Modules that workerd provides: `cloudflare:` and Node's. CommonJS packages `require` the latter,
 * which an ES module can only import.
 */
const runtimeModules: Plugin = {
  name: 'runtime-modules',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^cloudflare:/ }, () => ({ external: true }))
    onResolve({ filter: /^(?:node:)?[a-z]\w*(?:\/\w+)?$/ }, ({ path, kind }) => {
      if (!isBuiltin(path)) return undefined
      return kind === 'require-call' ? { path, namespace: BUILT_IN } : { path, external: true }
    })
    onLoad({ filter: /.*/, namespace: BUILT_IN }, ({ path }) => ({
      contents: `import libDefault from '${path}';\nmodule.exports = libDefault;`,
      loader: 'js',
    }))
    // The package's file for Node; the conditions above would select the one for browsers.
    onResolve({ filter: /^debug$/ }, () => ({ path: createRequire(import.meta.url).resolve('debug') }))
  },
}

/** esbuild's own errors, each with its place. */
function sentences(error: unknown): string {
  const { errors } = error as Partial<BuildFailure>
  if (errors === undefined) return error instanceof Error ? error.message : String(error)
  return errors
    .map(({ text, location }) => `${location === null ? '' : `${location.file}:${location.line}: `}${text}`)
    .join('\n')
}
