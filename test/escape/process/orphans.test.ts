// If our init fails, a worker ends the sandboxes that dead workers left, and no others (D1). These
// tests run alone: any worker of the same user that starts in the meantime would end the orphans
// first.
// @project exclusive

import { basename } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { INIT } from '../../../worker/sandbox/kernel/init.ts'
import { eventually } from '../../support/eventually.ts'
import { Arena, planOf, processesWith, THEIR_INIT, unique } from '../arena/arena.ts'
import { SLEEP, tool } from '../arena/hostile-tool.ts'
import type { Swap } from '../arena/orders.ts'

test('S50 D1 without our init: a tool takes over bubblewrap’s and outlives it; the next worker ends it and names its folder', async () => {
  const arena = await Arena.open()
  const word = unique()
  const { here, there } = arena.runFolder()
  const plan = planOf(tool(word, ['sleeper'], SLEEP), { workspace: 'run' })
  const seen = await arena.bare({ plan, runFolder: there, swaps: THEIR_INIT, killOn: 'ready' })
  expect(seen.out).toContain('init taken')
  await sleep(200)
  expect(processesWith(word).length).toBeGreaterThan(1)
  expect(await arena.orphans()).toEqual({ found: 1, alive: [], folders: [basename(here)] })
  expect(processesWith(word)).toEqual([])
  expect(await arena.orphans()).toEqual({ found: 0, alive: [], folders: [] })
  await arena.close()
})

test('S50 D1 a sandbox that an older version left behind, without our init in it, is ended too', async () => {
  const arena = await Arena.open()
  const word = unique()
  const plan = planOf(tool(word, ['sleeper'], SLEEP))
  const bubblewraps: Swap = [['--as-pid-1', '--perms', '0555', '--ro-bind-data', '12', INIT], []]
  const seen = await arena.bare({ plan, swaps: [bubblewraps, [['--', INIT], ['--']]], killOn: 'ready' })
  expect(seen.out).toContain('init taken')
  await sleep(200)
  expect(processesWith(word).length).toBeGreaterThan(1)
  expect(await arena.orphans()).toMatchObject({ found: 1, alive: [] })
  expect(processesWith(word)).toEqual([])
  await arena.close()
})

test('S50 D1 a worker does not treat the sandboxes of another running worker as orphans', async () => {
  const [arena, other] = await Promise.all([Arena.open(), Arena.open()])
  const word = unique()
  const running = arena.launch({
    plan: planOf(['sh', '-c', `echo ready; exec sleep 30.${word}`]),
    cancelOn: 'never',
  })
  await eventually('it runs', () => processesWith(word).length > 0)
  expect(await other.orphans()).toEqual({ found: 0, alive: [], folders: [] })
  expect(processesWith(word).length).toBeGreaterThan(0)
  await arena.kill()
  await expect(running).rejects.toThrow(/the driver ended/)
  await Promise.all([arena.close(), other.close()])
})
