// Other limits for the edge and the worker of a stack, where the real ones take minutes or thousands
// of calls to reach. The values are changed in the built programs, which have one table of limits, so
// production code needs no switch for tests.

import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Stack } from '../../../infra/stack.ts'
import type { LIMITS } from '../../../shared/limits.ts'

export type Limits = Partial<Record<keyof typeof LIMITS, number>>

/**
 * For tests that wait until a worker counts as lost, or until its next process may serve. The
 * proportions are those of the real limits, which test/edge/run/worker-lease.test.ts and
 * test/faults/worker/worker.test.ts wait for.
 */
export const SHORT_LEASES = { lease_ms: 5_000, heartbeat_ms: 1_000, process_silence_ms: 2_500 } as const

/**
 * For tests that wait until an attempt to deliver a message is given up, or is made again. After a crash
 * an attempt is made again later than it may take.
 */
export const SHORT_DELIVERIES = { delivery_ms: 3_000, delivery_pause_ms: 500 } as const

/** The table of limits, in the source or built, with other values. */
export function withLimits(table: string, limits: Limits): string {
  let text = table
  for (const [name, value] of Object.entries(limits)) {
    const entry = new RegExp(`^ {2}${name}: [0-9][^,\\n]*(?=,?$)`, 'gm')
    const found = [...text.matchAll(entry)]
    if (found.length !== 1) throw new Error(`the table has \`${name}\` ${found.length} times`)
    text = text.replace(entry, `  ${name}: ${value}`)
  }
  return text
}

/** The edge of the bundle in this folder has the limits from its next start on. */
export function limitEdge(bundle: string, limits: Limits): void {
  const file = join(bundle, 'main.js')
  writeFileSync(file, withLimits(readFileSync(file, 'utf8'), limits))
}

/** The edge has the limits from its next start on, as long as nothing builds it again. */
export function writeLimits({ state }: Stack, limits: Limits, bundle = 'bundle'): void {
  limitEdge(join(state.edge, bundle), limits)
}

/** Starts the edge again with these limits. */
export async function restartWithLimits(stack: Stack, limits: Limits): Promise<void> {
  await stack.edge.stop()
  writeLimits(stack, limits)
  const started = await stack.edge.start()
  if (!started.ok) throw new Error(started.error)
}
