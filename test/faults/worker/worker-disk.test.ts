// Promise: a worker whose disk is full claims no calls until it has room again, and a worker that
// is started on a full disk says in a sentence why it can't serve.

import { execFileSync } from 'node:child_process'
import { rmSync, statfsSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { eventually } from '../../support/eventually.ts'
import { LoneWorker } from '../../support/worker/lone-worker.ts'

let lone: LoneWorker
beforeAll(async () => {
  expect(
    process.getuid?.(),
    'this test must run as root, for it mounts a small disk; `npm test` in CI does',
  ).toBe(0)
  lone = await LoneWorker.make()
  const { worker } = lone.state
  const { uid, gid } = statSync(worker)
  const before = `${worker}.before`
  execFileSync('cp', ['--archive', worker, before])
  execFileSync('mount', ['-t', 'tmpfs', '-o', `size=64m,mode=0700,uid=${uid},gid=${gid}`, 'none', worker])
  execFileSync('cp', ['--archive', `${before}/.`, worker])
  await lone.start()
})
afterAll(async () => {
  await lone?.process.kill()
  if (lone !== undefined) execFileSync('umount', ['--lazy', lone.state.worker])
  await lone?.end()
})

const filler = (): string => join(lone.state.worker, 'filler')
function fill(): void {
  for (let size = 1_000_000; size >= 1; size = Math.floor(size / 2))
    try {
      for (;;) writeFileSync(filler(), Buffer.alloc(size), { flag: 'a' })
    } catch {
      // smaller pieces fit into the rest
    }
  const { bavail } = statfsSync(lone.state.worker)
  expect(bavail).toBe(0)
}

test('a worker with a full disk claims nothing and says so, and serves again once it has room', {
  timeout: 60_000,
}, async () => {
  await lone.settled(await lone.call({ argv: ['true'] }))
  await eventually('nothing of it is left', () => lone.spool.begun.size === 0)
  fill()
  const calls = await Promise.all(Array.from({ length: 12 }, () => lone.call({ argv: ['true'] })))
  await lone.logged('the spool is not writable; running calls continue, and no new ones start until it is', {
    reason: 'ENOSPC',
  })
  await eventually('the rest lies there for others', async () => {
    const lying = await lone.waitingDoorbells()
    return (
      lying > 0 &&
      lying === calls.length - lone.log.filter(({ msg }) => msg === 'a doorbell was ignored').length
    )
  })
  expect(calls.map(({ claims }) => claims)).toEqual(calls.map(() => 0))
  rmSync(filler())
  await lone.logged('the spool is writable again')
  for (const { call } of lone.log.filter(({ msg }) => msg === 'a doorbell was ignored'))
    await Promise.all(calls.filter((one) => one.call === call).map((one) => lone.ringFor(one)))
  for (const call of calls) expect((await lone.settled(call)).statement.predicate.state).toBe('succeeded')
})

test('a worker that is started on a full disk says what is missing', { timeout: 60_000 }, async () => {
  await lone.process.stop()
  fill()
  const { status, stderr } = await lone.command('run')
  rmSync(filler())
  expect(status).toBe(1)
  expect(stderr).toMatch(/^countersign-worker: [^\n]*ENOSPC[^\n]*; free space on its disk\n$/)
})
