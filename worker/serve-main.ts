// Owns the start of the process that serves, as main.ts leaves it: a configuration and a way to log. It reads no other argument.

import { parseArgs } from 'node:util'
import { err, type Result } from '../shared/result.ts'
import { type Refusal, readConfig } from './config.ts'
import { remedyFor } from './host/errno-remedies.ts'
import { closeInheritedDescriptors } from './host/file-descriptors.ts'
import { openLog } from './host/log.ts'
import { serve } from './serve.ts'

/** The exit code. */
export async function startServing(args: readonly string[]): Promise<number> {
  closeInheritedDescriptors() // S21: before anything of ours is open
  const { values } = parseArgs({
    args: [...args],
    options: { config: { type: 'string', default: '' }, json: { type: 'boolean', default: false } },
  })
  const config = readConfig(values.config)
  const served = config.ok ? await serve(config.value, openLog(values.json)).catch(refusedByHost) : config
  if (!served.ok) process.stderr.write(`countersign-worker: ${served.error}\n`)
  return served.ok ? 0 : 1
}

/** What the kernel denies us is told in a sentence. Everything else is a bug, and shows where it is. */
function refusedByHost(error: unknown): Result<never, Refusal> {
  if (!(error instanceof Error && 'syscall' in error && 'code' in error)) throw error
  return err(
    `this host does not give what serving needs (${error.message}); ${remedyFor(String(error.code))}`,
  )
}

if (import.meta.main) process.exit(await startServing(process.argv.slice(2)))
