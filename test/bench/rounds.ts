// Owns the order of measuring: rounds in which every subject has a slice, so that other load on the
// machine affects all of them alike. It records the processor time of each part of the stack for
// each slice.

import type { Stack } from '../../infra/stack.ts'
import { cpuMs } from './machine.ts'
import type { Extent, Slice, Summary } from './slice.ts'
import { median, summaryOf } from './slice.ts'

/** Measures a subject: in the floor's process or in the load generator. */
export type Subject<Name extends string> = {
  readonly name: Name
  readonly measure: (concurrency: number, extent: Extent) => Promise<Slice>
}

/** Milliseconds of processor time for one operation; the worker's includes its children. */
export type ProcessorTime = { readonly edge: number; readonly worker: number; readonly redis: number }
export type Row<Name extends string> = {
  readonly name: Name
  readonly concurrency: number
  readonly spent: ProcessorTime
} & Summary

/** The row of a subject; throws if it was not measured. */
export function rowOf<Name extends string>(
  rows: readonly Row<Name>[],
  name: Name,
  concurrency: number,
): Row<Name> {
  const row = rows.find((one) => one.name === name && one.concurrency === concurrency)
  if (row === undefined) throw new Error(`${name} was not measured at ${concurrency}`)
  return row
}

/** Throws if one subject can't be measured: the whole run is worthless then. */
class Broken extends Error {}

export async function inRounds<Name extends string>(
  subjects: readonly Subject<Name>[],
  { rounds, concurrency, extent }: { rounds: number; concurrency: number; extent: Extent },
  parts: Pick<Stack, 'edge' | 'worker' | 'redis'>,
): Promise<Row<Name>[]> {
  const measured = subjects.map(({ name }) => ({ name, slices: [] as Slice[], spent: [] as ProcessorTime[] }))
  for (let round = 0; round < rounds; round++) {
    for (let turn = 0; turn < subjects.length; turn++) {
      // Each round begins with another subject, so that none always follows the same one.
      const index = (turn + round) % subjects.length
      const [subject, kept] = [subjects[index], measured[index]]
      if (subject === undefined || kept === undefined) continue
      const before = usage(parts)
      const slice = await subject.measure(concurrency, extent)
      const after = usage(parts)
      if (slice.faults.length > 0)
        throw new Broken(`${subject.name} at ${concurrency}: ${slice.faults.join('\n')}`)
      kept.slices.push(slice)
      kept.spent.push(perOperation(before, after, slice.count))
    }
  }
  return measured.map(({ name, slices, spent }) => ({
    name,
    concurrency,
    ...summaryOf(slices),
    spent: {
      edge: median(spent.map(({ edge }) => edge)),
      worker: median(spent.map(({ worker }) => worker)),
      redis: median(spent.map(({ redis }) => redis)),
    },
  }))
}

const usage = ({ edge, worker, redis }: Pick<Stack, 'edge' | 'worker' | 'redis'>): ProcessorTime => ({
  edge: cpuMs(edge.pid),
  worker: cpuMs(worker.pid),
  redis: cpuMs(redis.pid),
})

const perOperation = (before: ProcessorTime, after: ProcessorTime, count: number): ProcessorTime => ({
  edge: (after.edge - before.edge) / count,
  worker: (after.worker - before.worker) / count,
  redis: (after.redis - before.redis) / count,
})
