// Entry point of the serving process that re-exec.ts starts: reads the configuration, opens the
// log, and calls `serve`.

import { parseArgs } from 'node:util'
import { err, type Result } from '../shared/result.ts'
import { type Refusal, readConfig } from './config.ts'
import { remedyFor } from './host/errno-remedies.ts'
import { closeInheritedDescriptors } from './host/file-descriptors.ts'
import { openLog } from './host/log.ts'
import { serve } from './serve.ts'

/** Returns the exit code. */
export async function startServing(args: readonly string[]): Promise<number> {
  closeInheritedDescriptors() // S21: before we open any descriptor ourselves
  const { values } = parseArgs({
    args: [...args],
    options: { config: { type: 'string', default: '' }, json: { type: 'boolean', default: false } },
  })
  const config = readConfig(values.config)
  const served = config.ok ? await serve(config.value, openLog(values.json)).catch(asHostRefusal) : config
  if (!served.ok) process.stderr.write(`countersign-worker: ${served.error}\n`)
  return served.ok ? 0 : 1
}

/**
 * Turns a failed system call into a sentence with a fix. Any other error is a bug and is rethrown.
 */
function asHostRefusal(error: unknown): Result<never, Refusal> {
  if (!(error instanceof Error && 'syscall' in error && 'code' in error)) throw error
  return err(
    `this host refused something that the worker needs (${error.message}); ${remedyFor(String(error.code))}`,
  )
}

if (import.meta.main) process.exit(await startServing(process.argv.slice(2)))
