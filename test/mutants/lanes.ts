// Which runs of tests may be parallel.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from '../../infra/state.ts'
import { testProjects } from '../../infra/testing/projects.ts'
import type { Tests } from './verdict.ts'

/**
 * withStack: first in one lane, because a stack takes most of the machine; the other lane takes the
 * rest first. alone: while no other run is active, because its tests compare the whole machine
 * before and after.
 */
export type Lane = 'alone' | 'withStack' | 'without'

const EXCLUSIVE: ReadonlySet<string> = new Set(testProjects(ROOT).exclusive)

export function laneOf({ tests }: Tests): Lane {
  if (tests.some((test) => EXCLUSIVE.has(test))) return 'alone'
  return tests.some(needsStack) ? 'withStack' : 'without'
}

const needsStack = (test: string): boolean =>
  /^test\/(?:faults|journey)\//.test(test) || readFileSync(join(ROOT, test), 'utf8').includes('sharedStack')
