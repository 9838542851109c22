// Calls that share the folder of a run go to the one worker that has it. Other workers' claims are
// refused, and if that worker is gone the call ends with a reason. No call ever finds another
// folder under the same name.

import { expect, test } from 'vitest'
import { Desk, granted, refusal } from '../../support/fixtures.ts'
import { sharedStack } from '../../support/stack/stack.ts'
import { eventually } from '../../support/worker/lone-worker.ts'
import { grantOf, PeerWorker } from '../../support/worker/peer-worker.ts'

const desk = new Desk('run-folder', sharedStack())
const agent = await desk.agent()
const [sharing, apart] = [await desk.tool({ workspace: 'run' }), await desk.tool()]
const [holder, other] = [
  await PeerWorker.enrol(desk.url, desk.root, desk.pool),
  await PeerWorker.enrol(desk.url, desk.root, desk.pool),
]

const WITHIN = 30_000
const propose = async (run: string, tool = sharing) =>
  granted(await agent.client('proposeCall', { params: { run }, body: { tool, args: {} } }))
const newRun = async () => granted(await agent.client('createRun', { body: {} })).id
const read = async (run: string, call: string) =>
  granted(await agent.client('readCall', { params: { run, call } }))

test.concurrent('the first claim fixes the worker of the run’s folder, and only that worker may claim later calls', async () => {
  const run = await newRun()
  const [first, beside, elsewhere] = [await propose(run), await propose(run), await propose(run, apart)]
  const claim = granted(await holder.claim(first.id))
  expect(grantOf(claim.grant).folder).toBe('new')
  expect(refusal(await other.claim(beside.id))).toBe('409 not_claimable')
  expect(grantOf(granted(await holder.claim(beside.id)).grant).folder).toBe('new') // nothing can be there yet
  const plain = granted(await other.claim(elsewhere.id))
  expect(grantOf(plain.grant).folder).toBeUndefined()
  granted(await holder.settle(claim))
  const later = await propose(run)
  expect(refusal(await other.claim(later.id))).toBe('409 not_claimable')
  expect(grantOf(granted(await holder.claim(later.id)).grant).folder).toBe('kept')
})

const NOT_HERE = { outcome: { kind: 'refused', code: 'sandbox_unavailable', detail: 'not here' } } as const

test.concurrent('a worker that refused every call of a run no longer has its folder', async () => {
  const run = await newRun()
  const [first, beside, next] = [await propose(run), await propose(run), await propose(run)]
  const [one, two] = [granted(await holder.claim(first.id)), granted(await holder.claim(beside.id))]
  granted(await holder.settle(one, { outcome: { kind: 'refused', code: 'quota_exceeded', detail: 'full' } }))
  expect(refusal(await other.claim(next.id))).toBe('409 not_claimable') // one is in the folder still
  granted(await holder.settle(two, NOT_HERE))
  const moved = granted(await other.claim(next.id))
  expect(grantOf(moved.grant).folder).toBe('new')
  granted(await other.settle(moved))
  const last = await propose(run)
  expect(refusal(await holder.claim(last.id))).toBe('409 not_claimable')
  const reused = granted(await other.claim(last.id))
  expect(grantOf(reused.grant).folder).toBe('kept')
  granted(await other.settle(reused, NOT_HERE)) // the files of the call before are still there
  expect(refusal(await holder.claim((await propose(run)).id))).toBe('409 not_claimable')
})

test.concurrent('a call that was refused before it began leaves the folder new; one whose worker was lost does not', {
  timeout: 60_000,
}, async () => {
  const run = await newRun()
  const refused = granted(await holder.claim((await propose(run)).id))
  granted(await holder.settle(refused, NOT_HERE))
  const silent = await propose(run)
  expect(grantOf(granted(await holder.claim(silent.id)).grant).folder).toBe('new')
  await eventually(
    'it is given up',
    async () => (await read(run, silent.id)).state === 'indeterminate',
    WITHIN,
  )
  expect(grantOf(granted(await holder.claim((await propose(run)).id)).grant).folder).toBe('kept')
})

test.concurrent('if the worker with the folder is gone, the call ends with `workspace_lost`, attested, and a new run works', {
  timeout: 60_000,
}, async () => {
  const leaving = await PeerWorker.enrol(desk.url, desk.root, desk.pool)
  const run = await newRun()
  await leaving.run((await propose(run)).id)
  granted(await desk.root('revokeWorker', { params: { worker: leaving.id } }))
  const call = await propose(run)
  expect(refusal(await other.claim(call.id))).toBe('409 not_claimable')
  await eventually('it is given up', async () => (await read(run, call.id)).state === 'lapsed', WITHIN)
  const { result, attestation } = await read(run, call.id)
  expect(result?.error).toMatchObject({
    code: 'workspace_lost',
    detail: expect.stringContaining('make a new run'),
  })
  expect(attestation?.executor).toBe('edge')
  const apartStill = await propose(run, apart)
  granted(await other.claim(apartStill.id))
  expect(grantOf(granted(await other.claim((await propose(await newRun())).id)).grant).folder).toBe('new')
})
