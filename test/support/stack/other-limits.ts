// Gives the edge of a stack other limits, where the real ones take minutes or thousands of calls to
// reach: the built edge reads each from one table, as `weakened` does for the worker's code. So
// production code needs no switch for tests.

import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Stack } from '../../../infra/stack.ts'
import type { LIMITS } from '../../../shared/limits.ts'

type Limits = Partial<Record<keyof typeof LIMITS, number>>

/** The edge has the limits from its next start on, as long as nothing builds it again. */
export function writeLimits({ state }: Stack, limits: Limits, bundle = 'bundle'): void {
  const file = join(state.edge, bundle, 'main.js')
  let text = readFileSync(file, 'utf8')
  for (const [name, value] of Object.entries(limits)) {
    const entry = new RegExp(`^ {2}${name}: [0-9][^,\\n]*(?=,?$)`, 'gm')
    const found = [...text.matchAll(entry)]
    if (found.length !== 1) throw new Error(`the built edge has \`${name}\` ${found.length} times`)
    text = text.replace(entry, `  ${name}: ${value}`)
  }
  writeFileSync(file, text)
}

/** Starts the edge again with these limits. */
export async function restartWithLimits(stack: Stack, limits: Limits): Promise<void> {
  await stack.edge.stop()
  writeLimits(stack, limits)
  const started = await stack.edge.start()
  if (!started.ok) throw new Error(started.error)
}
