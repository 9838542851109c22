// Owns the start of the process that serves, as main.ts leaves it: a configuration and a way to log. It reads no other argument.

import { parseArgs } from 'node:util'
import { readConfig } from './config.ts'
import { openLog } from './log.ts'
import { closeInheritedDescriptors } from './sandbox/descriptors.ts'
import { serve } from './serve.ts'

/** The exit code. */
export async function startServing(args: readonly string[]): Promise<number> {
  closeInheritedDescriptors() // S21: before anything of ours is open
  const { values } = parseArgs({
    args: [...args],
    options: { config: { type: 'string', default: '' }, json: { type: 'boolean', default: false } },
  })
  const config = readConfig(values.config)
  const served = config.ok ? await serve(config.value, openLog(values.json)) : config
  if (!served.ok) process.stderr.write(`countersign-worker: ${served.error}\n`)
  return served.ok ? 0 : 1
}

if (import.meta.main) process.exit(await startServing(process.argv.slice(2)))
