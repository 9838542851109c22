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

test('S50 D1 a worker in a container whose process 1 is a bubblewrap ends sandboxes that this process adopted', async () => {
  const container = [
    'bwrap',
    '--unshare-user',
    '--unshare-pid',
    '--bind',
    '/',
    '/',
    '--dev-bind',
    '/dev',
    '/dev',
  ]
  const arena = await Arena.open({ under: [...container, '--proc', '/proc', '--'] })
  const word = unique()
  const plan = planOf(tool(word, ['sleeper'], SLEEP))
  const seen = await arena.bare({ plan, swaps: THEIR_INIT, killOn: 'ready' })
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

test('S35 D1 a daemon of a tier B call outlives its killed worker only until another worker starts', async () => {
  const [arena, bystander] = await Promise.all([Arena.open(), Arena.open()])
  const [word, other] = [unique(), unique()]
  const daemon = (name: string) => [
    'sh',
    '-c',
    `setsid -f sleep 60.${name}; echo ready; exec sleep 61.${name}`,
  ]
  const runs = (of: Arena, name: string) =>
    new Promise<void>((ready) => {
      of.launch({ plan: planOf(daemon(name), { tier: 'B' }) }, () => ready()).catch(() => undefined) // its worker is killed
    })
  await Promise.all([runs(arena, word), runs(bystander, other)])
  const both = () => processesWith(word).length === 2 && processesWith(other).length === 2
  await eventually('both calls have their daemons', both)
  await arena.kill()
  await eventually('the first process has ended with its worker', () => processesWith(word).length === 1)

  expect(await bystander.orphans()).toEqual({ found: 1, alive: [], folders: [] })
  expect([processesWith(word).length, processesWith(other).length]).toEqual([0, 2])
  await bystander.kill()
  const next = await Arena.open()
  expect(processesWith(other)).toEqual([])
  await Promise.all([arena, bystander, next].map((each) => each.close()))
})
