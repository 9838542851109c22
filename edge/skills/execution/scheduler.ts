// The slots and the CPU turns that all skills of this process share, whichever run or author they
// run for.

import { ConcurrencySlots } from './concurrency-slots.ts'
import { CpuTurns } from './cpu-turns.ts'

/**
 * A call takes a slot before it is claimed, because each claimed call may use all the memory that a
 * skill may have. The calls in the slots run one at a time: the deadline of a call that waits for
 * the CPU runs from its claim.
 */
export const skillSlots = new ConcurrencySlots(12)
export const skillTurns = new CpuTurns(1)
