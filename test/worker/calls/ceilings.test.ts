// A call gets the lower of its plan's limits and the worker's ceilings, and its attestation states
// the result.

import { afterAll, beforeAll, expect, test } from 'vitest'
import { LoneWorker } from '../../support/worker/lone-worker.ts'

const CEILINGS = { memory_bytes: 48 * 1024 * 1024, pids: 12, timeout_ms: 2_000 }

let lone: LoneWorker
beforeAll(async () => {
  lone = await LoneWorker.make({ concurrency: 2 })
  lone.configure({ limits: CEILINGS })
  await lone.start()
})
afterAll(() => lone?.end())

async function executed(argv: string[], limits: object = {}) {
  const call = lone.edge.propose({ argv, timeout_ms: 20_000 })
  Object.assign(call.plan.limits, limits)
  await lone.ringFor(call)
  const { execution } = (await lone.settled(call, 30_000)).statement.predicate
  return { ...execution, planned: call.plan.limits }
}

test('a call ends at the worker’s time limit if its plan allows more', async () => {
  const { outcome, limits, planned } = await executed(['sleep', '15'])
  expect([outcome, planned.timeout_ms]).toEqual([{ kind: 'timeout' }, 20_000])
  expect(limits).toEqual({ ...planned, ...CEILINGS })
})

test('a call gets the worker’s limits of memory and processes if its plan allows more', async () => {
  const filled = await executed(['dd', 'if=/dev/zero', 'of=/tmp/full', 'bs=1M', 'count=60'], {
    memory_bytes: 512 * 1024 * 1024,
  })
  expect(filled.outcome).toEqual({ kind: 'memory_cap' })
  const crowd = 'for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do sleep 1 & done'
  expect((await executed(['sh', '-c', crowd])).outcome).not.toEqual({ kind: 'exit', code: 0 })
})

test('a plan with lower limits than the worker’s keeps its own', async () => {
  const { limits, planned } = await executed(['true'], { pids: 5, memory_bytes: 32 * 1024 * 1024 })
  expect(limits).toMatchObject({
    pids: 5,
    memory_bytes: 32 * 1024 * 1024,
    output_bytes: planned.output_bytes,
  })
})
