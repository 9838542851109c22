// Re-execs the worker (same pid and standard streams) with a warm compile cache, so that the
// TypeScript compiler is not loaded, and with a small young generation: 85 MB resident instead of
// 150. Starting a sandbox forks, and a fork copies page tables: about 18 µs of CPU per resident MB,
// on every call.

import { createHash } from 'node:crypto'
import { existsSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { enableCompileCache, flushCompileCache } from 'node:module'
import { extname, join } from 'node:path'
import { environmentWith } from './config.ts'

/** Megabytes. V8's default of 16 is resident three times over. */
const YOUNG_GENERATION = '--max-semi-space-size=4'
const ROOT = join(import.meta.dirname, '..')
/** Tests start a bundle of this program, whose files end otherwise. */
const SERVING = join(ROOT, 'worker', `serve-main${extname(import.meta.filename)}`)

/** Becomes `serve-main.ts` with these arguments. Returns only on systems without execve. */
export async function reExecToServe(home: string, args: readonly string[]): Promise<void> {
  const cache = join(home, 'cache')
  await fillCache(cache)
  process.execve?.(
    process.execPath,
    [process.execPath, YOUNG_GENERATION, SERVING, ...args],
    environmentWith({ NODE_COMPILE_CACHE: cache }),
  )
}

/**
 * Compiles every module that the cache lacks, by importing them all, which takes 0.3 s of CPU. A
 * mark in the cache says that it was filled from these sources. If the mark were wrong, the serving
 * process would only be larger.
 */
async function fillCache(cache: string): Promise<void> {
  enableCompileCache(cache)
  const mark = join(cache, `filled-${digestOfSources()}`)
  if (existsSync(mark)) return
  await import('./serve-main.ts')
  flushCompileCache()
  try {
    writeFileSync(mark, '', { mode: 0o600 })
  } catch {
    // A full disk or an unwritable home costs time here. `serve` reports it if it matters.
  }
}

/** Changes with the version of Node, and with the size or time of any file that may be imported. */
function digestOfSources(): string {
  const files = ['worker', 'shared'].flatMap((room) =>
    readdirSync(join(ROOT, room), { recursive: true, encoding: 'utf8' }).map((file) =>
      join(ROOT, room, file),
    ),
  )
  const hash = createHash('sha256').update(process.version)
  for (const file of [join(ROOT, 'package-lock.json'), ...files.sort()]) {
    const { size, mtimeMs } = statSync(file, { throwIfNoEntry: false }) ?? { size: 0, mtimeMs: 0 }
    hash.update(`${file}\0${size}\0${mtimeMs}\0`)
  }
  return hash.digest('hex').slice(0, 32)
}
