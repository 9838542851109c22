// A worker that has no descriptors left: it goes on, ends what it has to end, takes nothing for gone or full that it can't see, and has lost
// none of them when there are some again.

import { execFileSync, spawnSync } from 'node:child_process'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { afterAll, expect, test } from 'vitest'
import { processesWith } from '../../support/stack/hurt-stack.ts'
import { eventually, LoneWorker } from '../../support/worker/lone-worker.ts'

const lone = await LoneWorker.make()
afterAll(() => lone.end())

const SHORT = new URL('../../support/worker/descriptor-exhaustion.ts', import.meta.url).pathname

test('what fails halfway for want of descriptors loses none, and what could not be looked at is not known', {
  timeout: 60_000,
}, () => {
  const { stdout, stderr } = spawnSync(
    '/usr/bin/prlimit',
    ['--nofile=256:256', '--', process.execPath, SHORT],
    { encoding: 'utf8' },
  )
  expect(stderr).toBe('')
  const { output, release, cold, gated, stocked, disk, processes } = JSON.parse(stdout)
  for (const tried of [output, release, cold, gated])
    expect(tried).toEqual({ failed: expect.any(Number), lost: 0 })
  expect([output, release, cold, gated].map(({ failed }) => failed > 1)).toEqual([true, true, true, true])
  expect(stocked).toEqual({ refused: true, lost: 0 })
  expect(disk).toEqual({ entered: true, counted: 'EMFILE', over: false, kept: true })
  expect(processes).toEqual({ early: [null, null], late: [true, true], killed: 'SIGKILL' })
})

test('a call’s time is up while no descriptor is left: it ends, the worker goes on, and says so', {
  timeout: 90_000,
}, async () => {
  await lone.start()
  await lone.settled(await lone.call({ argv: ['true'] }))
  const { pid = 0 } = lone.process
  const { uid, gid } = statSync(lone.state.worker) // as the worker itself could
  const mayOpen = (soft: string): unknown =>
    execFileSync('/usr/bin/prlimit', ['--pid', `${pid}`, `--nofile=${soft}:`], { uid, gid })
  const [, soft = ''] = /^Max open files +([0-9]+)/m.exec(readFileSync(`/proc/${pid}/limits`, 'latin1')) ?? []
  for (const tier of ['B', 'C'] as const) {
    const word = `3${tier === 'B' ? 1 : 2}.${process.pid}`
    const call = await lone.call({ argv: ['sleep', word], tier, timeout_ms: 3_000 })
    await eventually('it runs', () => processesWith(word).length > 0)
    mayOpen('3')
    await eventually('it is ended', () => processesWith(word).length === 0).finally(() => mayOpen(soft))
    const { predicate } = (await lone.settled(call)).statement
    expect([tier, predicate.state, predicate.execution.outcome]).toEqual([
      tier,
      'timed_out',
      { kind: 'timeout' },
    ])
  }
  expect([lone.process.running, lone.process.pid]).toEqual([true, pid])
  expect(readdirSync(`/proc/${pid}/fd`).length).toBeGreaterThan(3) // it was short of them indeed
  await lone.settled(await lone.call({ argv: ['true'] }))
})
