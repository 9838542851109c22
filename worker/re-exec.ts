// Re-execs the worker (same pid and standard streams) with a warm compile cache, so that the
// TypeScript compiler is not loaded, and with a small young generation: 85 MB resident instead of
// 150. Starting a sandbox forks, and a fork copies page tables: about 18 µs of CPU per resident MB,
// on every call.

import { enableCompileCache, flushCompileCache } from 'node:module'
import { join } from 'node:path'
import { environmentWith } from './config.ts'

/** Megabytes. V8's default of 16 is resident three times over. */
const YOUNG_GENERATION = '--max-semi-space-size=4'
const SERVING = join(import.meta.dirname, 'serve-main.ts')

/** Becomes `serve-main.ts` with these arguments. Returns only on systems without execve. */
export async function reExecToServe(home: string, args: readonly string[]): Promise<void> {
  const cache = join(home, 'cache')
  enableCompileCache(cache)
  await import('./serve-main.ts') // compiles every module that the cache lacks
  flushCompileCache()
  process.execve?.(
    process.execPath,
    [process.execPath, YOUNG_GENERATION, SERVING, ...args],
    environmentWith({ NODE_COMPILE_CACHE: cache }),
  )
}
