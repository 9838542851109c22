// Owns the built edge and the transpiler beside it. Each has a folder in node_modules/.cache, named
// by the digest of its inputs, so that a change of one does not rebuild the other. Never deploys
// anything, and holds nothing secret.

import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { stripVTControlCharacters } from 'node:util'
import { err, ok, type Result } from '../shared/result.ts'
import { bundleEdge } from './edge-bundle.ts'
import { type Refusal, ROOT, takeLock } from './state.ts'

const CACHE = join(ROOT, 'node_modules/.cache/countersign')
const KEPT = 3
const BUILT_WITHIN_MS = 60_000
/** Inputs of both builds. The lock file stands for all packages. */
const TOOLS = ['package-lock.json', relative(ROOT, import.meta.filename)]
const TRANSPILER_CONFIG = 'wrangler.transpiler.toml'

type Part = {
  readonly name: string
  /** Files that determine how it is built. */
  readonly tools: readonly string[]
  /** Builds `main.js` in the folder and returns its source files, by their path from the root. */
  readonly make: (outdir: string) => Promise<Result<readonly string[], Refusal>>
}

const EDGE: Part = {
  name: 'edge',
  tools: [...TOOLS, 'infra/edge-bundle.ts', 'wrangler.toml'],
  make: bundleEdge,
}
const TRANSPILER: Part = {
  name: 'transpiler',
  tools: [...TOOLS, 'infra/jco-engine.ts', TRANSPILER_CONFIG],
  make: bundleTranspiler,
}

/** The folders of edge and transpiler. */
export type EdgeBuild = { readonly edge: string; readonly transpiler: string }

export async function buildEdge(say: (text: string) => void): Promise<Result<EdgeBuild, Refusal>> {
  const transpiler = await built(TRANSPILER, say)
  if (!transpiler.ok) return transpiler
  const edge = await built(EDGE, say)
  return edge.ok ? ok({ edge: edge.value, transpiler: transpiler.value }) : edge
}

/** Returns the folder of a part for its current inputs. One process builds it, others wait. */
async function built(part: Part, say: (text: string) => void): Promise<Result<string, Refusal>> {
  mkdirSync(CACHE, { recursive: true })
  for (const until = Date.now() + BUILT_WITHIN_MS; ; await sleep(20)) {
    const kept = folderFor(part, inputsOf(part))
    if (kept !== undefined && existsSync(join(kept, 'main.js'))) return ok(kept)
    const lock = takeLock(join(CACHE, `${part.name}.lock`))
    if (lock.ok) return build(part, say).finally(lock.value)
    if (lock.error === undefined) return err(`\`${CACHE}\` can’t be written; let this user write there`)
    if (Date.now() > until)
      return err(
        `process ${lock.error} did not finish building the ${part.name} within ${BUILT_WITHIN_MS / 1_000} s; end that process and try again`,
      )
  }
}

async function build(part: Part, say: (text: string) => void, tries = 3): Promise<Result<string, Refusal>> {
  say(`building the ${part.name}`)
  const draft = join(CACHE, `${part.name}.${process.pid}`)
  rmSync(draft, { recursive: true, force: true })
  const begun = Date.now()
  const made = await part.make(draft)
  if (!made.ok) {
    rmSync(draft, { recursive: true, force: true })
    return made
  }
  // A link to installed packages leads out of the tree. The lock file stands for all of them.
  const inputs = made.value.filter((path) => !path.split('/').includes('node_modules')).sort()
  writeFileSync(`${draft}.inputs`, JSON.stringify(inputs))
  renameSync(`${draft}.inputs`, listOf(part))
  const dir = folderFor(part, inputs)
  // A file that was saved during the build may be in the bundle in its old form, and one may have
  // been deleted.
  if (dir === undefined || inputs.some((path) => changedAt(join(ROOT, path)) >= begun)) {
    rmSync(draft, { recursive: true, force: true })
    if (tries > 1) return build(part, say, tries - 1)
    const gone = [...part.tools, ...inputs].find((path) => !existsSync(join(ROOT, path)))
    return err(
      gone === undefined
        ? `sources of the ${part.name} were changed during the build; try again`
        : `\`${gone}\` is missing, and the ${part.name} is built from it`,
    )
  }
  if (existsSync(dir)) rmSync(draft, { recursive: true, force: true })
  else renameSync(draft, dir)
  prune(part, dir)
  return ok(dir)
}

const listOf = ({ name }: Part): string => join(CACHE, `${name}.inputs.json`)
const changedAt = (path: string): number => statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0

/**
 * The inputs of the last build. A new input always comes with a change of a file that imports it.
 */
function inputsOf(part: Part): readonly string[] {
  const list = listOf(part)
  return existsSync(list) ? (JSON.parse(readFileSync(list, 'utf8')) as string[]) : [] // written above
}

/** Returns undefined if its inputs are unknown or one of them was deleted. */
function folderFor({ name, tools }: Part, inputs: readonly string[]): string | undefined {
  const files = [...tools, ...inputs]
  if (inputs.length === 0 || !files.every((file) => existsSync(join(ROOT, file)))) return undefined
  const hash = createHash('sha256')
  for (const file of files) {
    const content = readFileSync(join(ROOT, file))
    hash.update(`${file}\0${content.length}\0`).update(content)
  }
  return join(CACHE, `${name}-${hash.digest('hex').slice(0, 32)}`)
}

async function bundleTranspiler(outdir: string): Promise<Result<readonly string[], Refusal>> {
  const metafile = `${outdir}.meta`
  const bundled = bundle(['--config', TRANSPILER_CONFIG, '--metafile', metafile], outdir)
  if (!bundled.ok) return bundled
  const { inputs } = JSON.parse(readFileSync(metafile, 'utf8')) as { inputs: Record<string, unknown> } // esbuild wrote it
  rmSync(metafile)
  return ok(Object.keys(inputs).filter((path) => existsSync(join(ROOT, path))))
}

/**
 * Bundles the Worker that the arguments `what` select, by default the edge; returns wrangler's
 * output.
 */
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
    `the bundle was not made (${built.error?.message ?? `wrangler exited with code ${built.status}`}):\n${report.trim()}`,
  )
}

/** Removes all folders but the newest few. A running stack serves its own copy. */
function prune({ name }: Part, current: string): void {
  const old = readdirSync(CACHE)
    .filter((entry) => entry.startsWith(`${name}-`) && /-[0-9a-f]{32}$/.test(entry))
    .map((entry) => join(CACHE, entry))
    .filter((path) => path !== current)
    .sort((a, b) => changedAt(b) - changedAt(a))
  for (const path of old.slice(KEPT)) rmSync(path, { recursive: true, force: true })
}
