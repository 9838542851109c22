// Owns the size of the process that serves. To start a sandbox Node forks, and a fork copies what the kernel knows of our memory: about
// 18 µs of CPU for each megabyte that is no file's, on every call. So the worker serves in a second life of its process (same pid, same
// standard streams), which takes its modules from V8's code cache, whereby the compiler of TypeScript never gets into memory, and which
// keeps a small young generation. That makes 85 MB out of 150.

import { enableCompileCache, flushCompileCache } from 'node:module'
import { join } from 'node:path'
import { environmentWith } from './config.ts'

/** Megabytes; V8's own choice of 16 is three times in memory. */
const YOUNG = '--max-semi-space-size=4'
const SERVING = join(import.meta.dirname, 'serve-main.ts')

/** Becomes `serving.ts` with these arguments. Returns only where the system can't replace a process. */
export async function serveInSecondLife(home: string, args: readonly string[]): Promise<void> {
  const cache = join(home, 'cache')
  enableCompileCache(cache)
  await import('./serve-main.ts') // compiles whatever the cache does not have yet
  flushCompileCache()
  process.execve?.(
    process.execPath,
    [process.execPath, YOUNG, SERVING, ...args],
    environmentWith({ NODE_COMPILE_CACHE: cache }),
  )
}
