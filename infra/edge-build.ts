// Builds edge and transpiler with wrangler, into one folder per digest of their sources in the
// cache in node_modules, which all state folders share. Never deploys anything; the builds hold no
// secret.

import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { stripVTControlCharacters } from 'node:util'
import { err, ok, type Result } from '../shared/result.ts'
import { type Refusal, ROOT } from './state.ts'

/** Everything that the bundle is made of. */
const SOURCES = [
  'edge',
  'shared',
  'policies',
  'migrations',
  'infra/jco-engine.ts',
  'package-lock.json',
  'wrangler.toml',
  'wrangler.transpiler.toml',
]
const CACHE = join(ROOT, 'node_modules/.cache/countersign')
const KEPT = 3
const TRANSPILER_CONFIG = 'wrangler.transpiler.toml'
/** Its folder within the edge's. */
export const TRANSPILER = 'transpiler'

function* files(path: string): Generator<string> {
  if (!statSync(path).isDirectory()) return yield path
  for (const name of readdirSync(path).sort()) yield* files(join(path, name))
}

function sourceDigest(): string {
  const hash = createHash('sha256')
  for (const file of SOURCES.flatMap((name) => [...files(join(ROOT, name))])) {
    const content = readFileSync(file)
    hash.update(`${relative(ROOT, file)}\0${content.length}\0`).update(content)
  }
  return hash.digest('hex').slice(0, 32)
}

export type EdgeBuild = { readonly dir: string; readonly fresh: boolean; readonly report: string }

export function buildEdge(say: (text: string) => void): Result<EdgeBuild, Refusal> {
  const dir = join(CACHE, `edge-${sourceDigest()}`)
  if (existsSync(join(dir, 'main.js'))) return ok({ dir, fresh: false, report: '' })
  say('building the edge with wrangler; this takes some seconds')
  const draft = `${dir}.${process.pid}`
  rmSync(draft, { recursive: true, force: true })
  mkdirSync(CACHE, { recursive: true })
  const built = bundle([], draft)
  if (!built.ok) return built
  const beside = bundle(['--config', TRANSPILER_CONFIG], join(draft, TRANSPILER))
  if (!beside.ok) return beside
  // Two builds of the same digest are equal, so the second one is dropped.
  if (existsSync(dir)) rmSync(draft, { recursive: true, force: true })
  else renameSync(draft, dir)
  prune(dir)
  return ok({ dir, fresh: true, report: built.value })
}

/** Bundles the edge, or the worker that the arguments `what` select; returns wrangler's output. */
export function bundle(what: readonly string[], outdir: string): Result<string, Refusal> {
  const wrangler = join(ROOT, 'node_modules/.bin/wrangler')
  const built = spawnSync(wrangler, ['deploy', '--dry-run', '--outdir', outdir, ...what], {
    cwd: ROOT,
    encoding: 'utf8',
    // HOME makes wrangler keep its settings and logs in the cache instead of in the user's home.
    env: {
      PATH: `${dirname(wrangler)}:${process.env['PATH']}`,
      HOME: CACHE,
      WRANGLER_SEND_METRICS: 'false',
      NO_COLOR: '1',
      CI: '1',
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const report = stripVTControlCharacters(`${built.stdout ?? ''}${built.stderr ?? ''}`)
  if (built.status === 0 && existsSync(join(outdir, 'main.js'))) return ok(report)
  rmSync(outdir, { recursive: true, force: true })
  return err(
    `the edge could not be built (${built.error?.message ?? `wrangler exit code ${built.status}`}):\n${report.trim()}`,
  )
}

/**
 * Removes the builds of other digests except the newest few. Running stacks serve their own copies.
 */
function prune(current: string): void {
  const age = (path: string) => statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0
  const old = readdirSync(CACHE)
    .filter((name) => /^edge-[0-9a-f]{32}$/.test(name))
    .map((name) => join(CACHE, name))
  for (const path of old
    .filter((path) => path !== current)
    .sort((a, b) => age(b) - age(a))
    .slice(KEPT))
    rmSync(path, { recursive: true, force: true })
}
