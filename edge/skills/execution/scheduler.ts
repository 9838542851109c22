// The slots and the CPU time that all skills of this process share, whichever run or author they are for.

import { Places } from '../places.ts'
import { Turns } from '../turns.ts'

/**
 * A call takes a slot before it is claimed, because each claimed call may use all the memory that a skill may have. The calls in the slots
 * run one at a time: the deadline of a call that waits for the CPU runs from its claim.
 */
export const placesOfSkills = new Places(12)
export const turnsOfSkills = new Turns(1)
