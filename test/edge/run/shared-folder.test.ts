// Calls that share the folder of a run go to the one worker that has it. Other workers' claims are
// refused, and if that worker is gone the call ends with a reason. No call ever finds another
// folder under the same name.

import { expect, test } from 'vitest'
import { eventually } from '../../support/eventually.ts'
import { Fixtures, refusalOf, unwrap } from '../../support/fixtures.ts'
import { sharedStack } from '../../support/stack/stack.ts'
import { grantOf, PeerWorker } from '../../support/worker/peer-worker.ts'

const fixtures = new Fixtures('run-folder', sharedStack())
const agent = await fixtures.agent()
const [sharing, apart] = [await fixtures.tool({ workspace: 'run' }), await fixtures.tool()]
const [holder, other] = [
  await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool),
  await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool),
]

const WITHIN = 30_000
const propose = async (run: string, tool = sharing) =>
  unwrap(await agent.client('proposeCall', { params: { run }, body: { tool, args: {} } }))
const newRun = async () => unwrap(await agent.client('createRun', { body: {} })).id
const read = async (run: string, call: string) =>
  unwrap(await agent.client('readCall', { params: { run, call } }))

test.concurrent('the first claim fixes the worker of the run’s folder, and only that worker may claim later calls', async () => {
  const run = await newRun()
  const [first, beside, elsewhere] = [await propose(run), await propose(run), await propose(run, apart)]
  const claim = unwrap(await holder.claim(first.id))
  expect(grantOf(claim.grant).folder).toBe('new')
  expect(refusalOf(await other.claim(beside.id))).toBe('409 not_claimable')
  expect(grantOf(unwrap(await holder.claim(beside.id)).grant).folder).toBe('new') // no call can have left files yet
  const plain = unwrap(await other.claim(elsewhere.id))
  expect(grantOf(plain.grant).folder).toBeUndefined()
  unwrap(await holder.settle(claim))
  const later = await propose(run)
  expect(refusalOf(await other.claim(later.id))).toBe('409 not_claimable')
  expect(grantOf(unwrap(await holder.claim(later.id)).grant).folder).toBe('kept')
})

const NOT_HERE = { outcome: { kind: 'refused', code: 'sandbox_unavailable', detail: 'not here' } } as const

test.concurrent('a worker that refused every call of a run no longer has its folder', async () => {
  const run = await newRun()
  const [first, beside, next] = [await propose(run), await propose(run), await propose(run)]
  const [one, two] = [unwrap(await holder.claim(first.id)), unwrap(await holder.claim(beside.id))]
  unwrap(await holder.settle(one, { outcome: { kind: 'refused', code: 'quota_exceeded', detail: 'full' } }))
  expect(refusalOf(await other.claim(next.id))).toBe('409 not_claimable') // one call still uses the folder
  unwrap(await holder.settle(two, NOT_HERE))
  const moved = unwrap(await other.claim(next.id))
  expect(grantOf(moved.grant).folder).toBe('new')
  unwrap(await other.settle(moved))
  const last = await propose(run)
  expect(refusalOf(await holder.claim(last.id))).toBe('409 not_claimable')
  const reused = unwrap(await other.claim(last.id))
  expect(grantOf(reused.grant).folder).toBe('kept')
  unwrap(await other.settle(reused, NOT_HERE)) // the files of the call before are still there
  expect(refusalOf(await holder.claim((await propose(run)).id))).toBe('409 not_claimable')
})

test.concurrent('a call that was refused before it began leaves the folder new; one whose worker was lost does not', {
  timeout: 60_000,
}, async () => {
  const run = await newRun()
  const refused = unwrap(await holder.claim((await propose(run)).id))
  unwrap(await holder.settle(refused, NOT_HERE))
  const silent = await propose(run)
  expect(grantOf(unwrap(await holder.claim(silent.id)).grant).folder).toBe('new')
  await eventually(
    'it is given up',
    async () => (await read(run, silent.id)).state === 'indeterminate',
    WITHIN,
  )
  expect(grantOf(unwrap(await holder.claim((await propose(run)).id)).grant).folder).toBe('kept')
})

test.concurrent('if the worker with the folder is gone, the call ends with `workspace_lost`, attested, and a new run works', {
  timeout: 60_000,
}, async () => {
  const leaving = await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool)
  const run = await newRun()
  await leaving.run((await propose(run)).id)
  unwrap(await fixtures.root('revokeWorker', { params: { worker: leaving.id } }))
  const call = await propose(run)
  expect(refusalOf(await other.claim(call.id))).toBe('409 not_claimable')
  await eventually('it is given up', async () => (await read(run, call.id)).state === 'lapsed', WITHIN)
  const { result, attestation } = await read(run, call.id)
  expect(result?.error).toMatchObject({
    code: 'workspace_lost',
    detail: expect.stringContaining('create a new run'),
  })
  expect(attestation?.executor).toBe('edge')
  const apartStill = await propose(run, apart)
  unwrap(await other.claim(apartStill.id))
  expect(grantOf(unwrap(await other.claim((await propose(await newRun())).id)).grant).folder).toBe('new')
})
