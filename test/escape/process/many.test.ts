// Thousands of sandboxes, one after the other and 32 at a time, all run, and leave nothing on the
// host: no process, descriptor, mount, cgroup or folder. `npm run test:load` runs 10,000 each way;
// this file runs a few hundred.
// @project exclusive

import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { eventually } from '../../support/eventually.ts'
import { Arena, planOf } from '../arena/arena.ts'
import { type Census, census, gatesBelow } from '../arena/census.ts'

const SANDBOXES = Number(process.env['COUNTERSIGN_SANDBOXES'] ?? '250')
const EACH_WITHIN_MS = 250
/** The most pipes in the worker's stock: one batch, and the rest when the next one is begun. */
const PIPES_MAX = 150

let arena: Arena
let pid: number
beforeAll(async () => {
  arena = await Arena.open({ probe: true, prepared: { stale_ms: 500, hasten: true } })
  pid = (await arena.facts()).pid
  await many(40, 32) // warms the worker up
})
afterAll(() => arena.close())

async function many(count: number, lanes: number): Promise<void> {
  let next = 0
  const lane = async (): Promise<void> => {
    while (next < count) {
      const n = next++
      const { outcome, out } = await arena.launch({
        plan: planOf(['cat'], { limits: { timeout_ms: 60_000 } }),
        stdin: `${n}`,
      })
      expect([outcome, out]).toEqual([{ kind: 'exit', code: 0 }, `${n}`])
    }
  }
  await Promise.all(Array.from({ length: lanes }, lane))
}

/**
 * Waits until no sandbox waits, starts or ends. Sixteen that end at once take a while, and ending
 * processes have no command line.
 */
async function atRest(): Promise<Census> {
  let last = ''
  let seen = census(pid, join(arena.home, 'worker'))
  await eventually(
    'what there is stays the same',
    () => {
      seen = census(pid, join(arena.home, 'worker'))
      const same = gatesBelow(pid).length === 0 && seen.cgroups === 0 && JSON.stringify(seen) === last
      last = JSON.stringify(seen)
      return same
    },
    20_000,
    250,
  )
  const { pipes, ...rest } = seen
  expect(pipes).toBeLessThanOrEqual(PIPES_MAX)
  return rest
}

test.each([1, 32])(
  'calls that run %i at a time leave nothing behind',
  { timeout: 60_000 + SANDBOXES * EACH_WITHIN_MS },
  async (lanes) => {
    const before = await atRest()
    await many(SANDBOXES, lanes)
    expect(await atRest()).toEqual(before)
  },
)
