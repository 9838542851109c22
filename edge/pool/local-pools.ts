// In a single-process installation: the waiting calls of each pool, so that a proposal learns without a
// message whether its pool is full. An instance that the platform has ended is replaced by the next one;
// until then, its calls stop counting when they expire.

import type { DoorbellQueue } from './doorbell-queue.ts'

/** By `{tenant}/{pool}`. */
export const localPools = new Map<string, Pick<DoorbellQueue, 'isFull'>>()
