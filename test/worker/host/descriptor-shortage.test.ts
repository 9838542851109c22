// A worker without free file descriptors keeps running, still ends calls, does not mistake "can't
// look" for "gone" or "full", and leaks none.

import { execFileSync, spawnSync } from 'node:child_process'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { afterAll, expect, test } from 'vitest'
import { eventually } from '../../support/eventually.ts'
import { processesWith } from '../../support/stack/hurt-stack.ts'
import { LoneWorker } from '../../support/worker/lone-worker.ts'

const lone = await LoneWorker.make()
afterAll(() => lone.end())

const SHORT = new URL('../../support/worker/descriptor-exhaustion.ts', import.meta.url).pathname

test('operations that run out of descriptors leak none, and failed checks count as unknown', {
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
    expect(tried).toEqual({ failed: expect.any(Number), leaked: 0 })
  expect([output, release, cold, gated].map(({ failed }) => failed > 1)).toEqual([true, true, true, true])
  expect(stocked).toEqual({ refused: true, leaked: 0 })
  expect(disk).toEqual({ entered: true, counted: 'EMFILE', over: false, kept: true })
  expect(processes).toEqual({ early: [null, null], late: [true, true], killed: 'SIGKILL' })
})

test('a call that times out while no descriptor is free is ended and reported, and the worker continues', {
  timeout: 90_000,
}, async () => {
  await lone.start()
  await lone.settled(await lone.call({ argv: ['true'] }))
  const { pid = 0 } = lone.process
  const { uid, gid } = statSync(lone.state.worker) // with the worker's own rights
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
  expect(readdirSync(`/proc/${pid}/fd`).length).toBeGreaterThan(3) // it did run out of descriptors
  await lone.settled(await lone.call({ argv: ['true'] }))
})
