// Calls that share their run's folder on one worker: the edge rings for them on the worker's own
// queue, they run in the same folder, are refused if it is gone, and count towards the worker's
// concurrency.

import { existsSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { eventually } from '../../support/eventually.ts'
import type { FakeCall } from '../../support/worker/fake-edge.ts'
import { LoneWorker } from '../../support/worker/lone-worker.ts'

let lone: LoneWorker
beforeAll(async () => {
  lone = await LoneWorker.make({ concurrency: 2 })
  lone.configure({ runs_bytes: 2 ** 30 })
  await lone.start()
})
afterAll(() => lone?.end())

const WITHIN = 30_000
const folderOf = (run: string): string => join(lone.state.worker, 'runs', run)

async function rungAlone(proposal: Parameters<LoneWorker['call']>[0]): Promise<FakeCall> {
  const call = lone.edge.propose(proposal)
  await lone.ringOwnQueue(call)
  return call
}

test('a call from the worker’s own queue finds the files that an earlier call of its run left', {
  timeout: 60_000,
}, async () => {
  const first = await lone.call({ argv: ['touch', 'left-behind'], folder: 'new' })
  expect((await lone.settled(first, WITHIN)).statement.predicate.state).toBe('succeeded')
  const second = await rungAlone({ argv: ['ls'], run: first.run, folder: 'kept' })
  expect((await lone.settled(second, WITHIN)).stdout.toString()).toBe('left-behind\n')
})

test('a call whose run folder is gone is refused with the error `workspace_lost`, and no new folder is made', {
  timeout: 60_000,
}, async () => {
  const first = await lone.call({ argv: ['touch', 'left-behind'], folder: 'new' })
  await lone.settled(first, WITHIN)
  rmSync(folderOf(first.run), { recursive: true })
  const second = await rungAlone({ argv: ['touch', 'again'], run: first.run, folder: 'kept' })
  const { predicate } = (await lone.settled(second, WITHIN)).statement
  expect(predicate).toMatchObject({
    state: 'failed',
    error: 'workspace_lost',
    execution: { outcome: { kind: 'refused', code: 'workspace_lost' }, argv_sha256: null },
  })
  expect(existsSync(folderOf(first.run))).toBe(false)
})

test('S30 a call whose run folder could exceed the limit of all run folders is refused with the reason', {
  timeout: 60_000,
}, async () => {
  const call = await lone.call({ argv: ['true'], folder: 'new', workspace_bytes: 2 ** 31 })
  const { predicate } = (await lone.settled(call, WITHIN)).statement
  const outcome = { kind: 'refused', code: 'quota_exceeded', detail: expect.stringContaining('runs_bytes') }
  expect(predicate).toMatchObject({
    state: 'failed',
    error: 'quota_exceeded',
    execution: { outcome, argv_sha256: null },
  })
  expect(existsSync(folderOf(call.run))).toBe(false)
})

test('both queues together respect the worker’s concurrency, take no more from Redis, and alternate', {
  timeout: 60_000,
}, async () => {
  const argv = ['sleep', '1.5']
  const [shared, alone] = await Promise.all([
    Promise.all([1, 2, 3].map(() => lone.call({ argv }))),
    Promise.all([1, 2, 3].map(() => rungAlone({ argv, folder: 'new' }))),
  ])
  const calls = [...shared, ...alone]
  const running = (): number => calls.filter(({ state }) => state === 'running').length
  await eventually(
    'two run, and what they leave lies in Redis for others',
    async () => running() === 2 && (await lone.waitingDoorbells()) === 4,
    WITHIN,
  )
  let most = 0
  const ended = (of: FakeCall[]): number => of.filter(({ settled }) => settled !== undefined).length
  await eventually(
    'four have ended',
    () => {
      most = Math.max(most, running())
      return ended(calls) >= 4
    },
    WITHIN,
  )
  expect([ended(shared) > 0, ended(alone) > 0]).toEqual([true, true])
  for (const call of calls) await lone.settled(call, WITHIN)
  expect(most).toBe(2)
})
