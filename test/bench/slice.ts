// Owns one slice of measuring: N workers in a closed loop, each of which begins its next operation
// when the last has ended, until the time or the count is reached; or operations at a fixed
// interval, whatever became of earlier ones, so that a stall counts for all that it delays. Owns
// the statistics of slices too.

import { setTimeout as sleep } from 'node:timers/promises'

/**
 * How long a slice lasts: until `ms` have passed or `count` operations were begun, whichever is
 * first. Each lane pauses before each operation. With `every_ms` operations begin by the clock, and
 * the time of one counts from then, even if no lane is free yet.
 */
export type Extent = {
  readonly ms: number
  readonly count: number
  readonly rest_ms?: number
  readonly every_ms?: number
}

/** Times in milliseconds. */
export type Slice = {
  readonly count: number
  readonly per_s: number
  readonly p50: number
  readonly p95: number
  readonly p99: number
  readonly best: number
  /** The first few errors, in words. */
  readonly faults: readonly string[]
}

const FAULTS_TOLD = 3

/** Never throws: a failed operation is recorded with its reason, and not counted. */
export async function measure(
  concurrency: number,
  { ms, count, rest_ms = 0, every_ms }: Extent,
  operate: (lane: number) => Promise<string | undefined>,
): Promise<Slice> {
  const took: number[] = []
  const faults: string[] = []
  const started = performance.now()
  const until = started + ms
  let begun = 0
  const lane = async (index: number): Promise<void> => {
    for (let now = performance.now(); begun < count && now < until && faults.length < FAULTS_TOLD; ) {
      const nth = begun++
      if (every_ms !== undefined) {
        now = started + nth * every_ms
        await sleep(Math.max(0, now - performance.now()))
      }
      if (rest_ms > 0) {
        await sleep(rest_ms)
        now = performance.now()
      }
      const fault = await operate(index)
      const then = performance.now()
      if (fault === undefined) took.push(then - now)
      else faults.push(fault)
      now = then
    }
  }
  await Promise.all(Array.from({ length: concurrency }, (_, index) => lane(index)))
  const seconds = (performance.now() - started) / 1000
  const sorted = Float64Array.from(took).sort()
  return {
    count: took.length,
    per_s: took.length / seconds,
    p50: quantile(sorted, 0.5),
    p95: quantile(sorted, 0.95),
    p99: quantile(sorted, 0.99),
    best: sorted[0] ?? Number.NaN,
    faults,
  }
}

/** The smallest value that is not below a share `q` of all. */
function quantile(sorted: Float64Array, q: number): number {
  return sorted[Math.max(0, Math.ceil(q * sorted.length) - 1)] ?? Number.NaN
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = Math.floor(sorted.length / 2)
  const high = sorted[middle] ?? Number.NaN
  return sorted.length % 2 === 1 ? high : ((sorted[middle - 1] ?? Number.NaN) + high) / 2
}

/** Combines rounds: medians, because other load spoils single rounds; and the best round. */
export type Summary = {
  readonly rounds: number
  readonly count: number
  readonly p50: number
  readonly p95: number
  readonly p99: number
  readonly per_s: number
  readonly best_p50: number
  readonly best_per_s: number
}

export function summaryOf(slices: readonly Slice[]): Summary {
  const of = (name: 'p50' | 'p95' | 'p99' | 'per_s'): number[] => slices.map((slice) => slice[name])
  return {
    rounds: slices.length,
    count: slices.reduce((sum, { count }) => sum + count, 0),
    p50: median(of('p50')),
    p95: median(of('p95')),
    p99: median(of('p99')),
    per_s: median(of('per_s')),
    best_p50: Math.min(...of('p50')),
    best_per_s: Math.max(...of('per_s')),
  }
}
