// Promise: a tenant's operators read what their own tenant uses and may use, and the operator of
// the installation reads the same numbers of every tenant.

import { expect, test, vi } from 'vitest'
import { refusalOf, unwrap } from '../../support/fixtures.ts'
import { sharedStack } from '../../support/stack/stack.ts'
import { installation, newTenant } from '../../support/tenants.ts'
import { PeerWorker } from '../../support/worker/peer-worker.ts'

const dev = sharedStack()
const governor = installation(dev)

test('the usage of a tenant counts its calls, ended and open, its open runs and its workers, next to its quota', async () => {
  const fixtures = await newTenant(dev, 'usage-counted', { calls_per_day: 7, workers: 2 })
  const { client } = await fixtures.agent()
  const tool = await fixtures.tool()
  const peer = await PeerWorker.enrol(dev.url, fixtures.root, fixtures.pool)
  const propose = async () => unwrap(await client('proposeCallInNewRun', { body: { tool, args: {} } }))
  const ended = await propose()
  unwrap(await peer.settle(unwrap(await peer.claim(ended.id))))
  const { run } = await propose()
  unwrap(await client('proposeCall', { params: { run }, body: { tool, args: {} } }))
  await propose()

  const used = async () => unwrap(await fixtures.root('readUsage', {})).use
  await vi.waitFor(async () => expect((await used()).calls_open).toBe(3), { timeout: 20_000 })
  expect(unwrap(await fixtures.root('readUsage', {}))).toMatchObject({
    tenant: 'usage-counted',
    quota: { calls_per_day: 7, workers: 2 },
    use: { calls_today: 4, calls_ended: 1, calls_open: 3, runs_open: 2, workers: 1 },
  })
  await vi.waitFor(async () => {
    const read = unwrap(await governor('readTenant', { params: { tenant: 'usage-counted' } }))
    expect(read.use).toEqual(await used())
  })
})

test('auditors may read the usage of their tenant; operators without a role, agents and the installation key may not', async () => {
  const fixtures = await newTenant(dev, 'usage-read')
  const auditor = await fixtures.operator(['auditor'])
  expect(unwrap(await auditor.client('readUsage', {})).tenant).toBe('usage-read')
  const nobody = await fixtures.operator([])
  expect(refusalOf(await nobody.client('readUsage', {}))).toBe('403 forbidden')
  const { client } = await fixtures.agent()
  expect(refusalOf(await client('readUsage', {}))).toBe('403 forbidden')
  expect(refusalOf(await governor('readUsage', {}))).toBe('401 unauthenticated')
})
