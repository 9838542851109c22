// Reads a worker's spool from outside, whether the worker runs or not.

import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Line, SpooledSettlement } from '../../../worker/calls/spool.ts'

/** By call: the fence under which it began, and the settlement that waits for the edge. */
export function spoolIn(home: string): {
  readonly begun: ReadonlyMap<string, number>
  readonly settled: ReadonlyMap<string, SpooledSettlement>
} {
  const [begun, settled] = [new Map<string, number>(), new Map<string, SpooledSettlement>()]
  const path = join(home, 'spool/journal')
  const lines = existsSync(path) ? readFileSync(path, 'utf8').split('\n').slice(0, -1) : []
  for (const line of lines.map((text) => JSON.parse(text) as Line)) {
    // the worker wrote it
    if ('begun' in line) begun.set(line.begun, line.fence)
    else if ('settled' in line) settled.set(line.settled.call, line.settled)
    else {
      const { over, fence = Number.POSITIVE_INFINITY } = line
      if ((begun.get(over) ?? 0) <= fence) begun.delete(over)
      if ((settled.get(over)?.settlement.fence ?? 0) <= fence) settled.delete(over)
    }
  }
  return { begun, settled }
}
