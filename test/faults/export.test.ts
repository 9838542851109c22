// Promise: a tenant with an export target loses nothing before the bucket has confirmed it. Runs of a
// deleted tenant wait for the store, SIGKILL exports nothing twice, and the operator of the
// installation can give up the export.

import { afterAll, beforeAll, expect, test } from 'vitest'
import { objectOfRun } from '../../shared/ids.ts'
import { LIMITS } from '../../shared/limits.ts'
import { eventually } from '../support/eventually.ts'
import { type Fixtures, unwrap } from '../support/fixtures.ts'
import { StrictStore } from '../support/s3/strict-store.ts'
import { HurtStack, insist, revive, strike } from '../support/stack/hurt-stack.ts'
import { installation, newTenant } from '../support/tenants.ts'
import { PeerWorker } from '../support/worker/peer-worker.ts'

let hurt: HurtStack
let store: StrictStore
beforeAll(async () => {
  store = await StrictStore.start()
  hurt = await HurtStack.start({ sealAfterS: 1, worker: 'idle', loopbackChannels: true })
})
afterAll(async () => {
  await hurt?.stop()
  await store?.stop()
})

/** A tenant with an export target and an ended call in each of some runs. */
async function exporting(name: string, count: number): Promise<{ fixtures: Fixtures; runs: string[] }> {
  const fixtures = await newTenant(hurt.stack.dev, name)
  const { client } = await fixtures.agent()
  const tool = await fixtures.tool()
  const peer = await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool)
  unwrap(await fixtures.root('putExportTarget', { body: store.target() }))
  const runs: string[] = []
  for (let i = 0; i < count; i++) {
    const run = unwrap(await client('createRun', { body: {} })).id
    const call = unwrap(await client('proposeCall', { params: { run }, body: { tool, args: {} } }))
    await peer.run(call.id, { stdout: run })
    runs.push(run)
  }
  const isListed = async () =>
    unwrap(await fixtures.root('listEndedCalls', { query: {} })).items.length === count
  await eventually('the log has every call', isListed)
  return { fixtures, runs }
}

const governor = () => installation(hurt.stack.dev)
const remove = async (name: string, without_export = false) =>
  unwrap(
    await insist(() =>
      governor()('deleteTenant', { params: { tenant: name }, body: { name, without_export } }),
    ),
  )
const isErased = async (name: string) =>
  unwrap(await insist(() => governor()('readTenant', { params: { tenant: name } }))).erased === true
/** The names of a tenant's exported files, without the small object that tried the target. */
const files = (name: string) =>
  [...store.objects.keys()].filter((key) => key.startsWith(`${name}/`) && key.endsWith('.jsonl'))
const objectsIn = (name: string) => files(name).map((key) => key.split('/')[1] ?? '')

/** Deletes a tenant while the store fails. */
async function removeInVain(name: string): Promise<void> {
  unwrap(await governor()('suspendTenant', { params: { tenant: name }, body: {} }))
  store.failing = true
  await remove(name)
  // One alarm and one deletion make fewer attempts, so failed exports have been tried again.
  const attempts = () =>
    [...Map.groupBy(store.requests, (line) => line).entries()].map(([line, { length }]) =>
      line.startsWith(`PUT /evidence/${name}/r`) ? length : 0,
    )
  await eventually(
    'the export is tried again',
    () => Math.max(...attempts()) > 3 * LIMITS.export_tries,
    60_000,
  )
  expect(await isErased(name)).toBe(false)
}

test('the runs of a deleted tenant stay until the bucket has confirmed them, and are stored once despite SIGKILL', {
  timeout: 240_000,
}, async () => {
  const name = 'export-killed'
  const { runs } = await exporting(name, 3)
  await removeInVain(name)
  expect(files(name)).toEqual([])

  // The store has the file, and the edge dies before it gets the answer.
  const died = new Promise<void>((resolve) => {
    store.onStored = async () => {
      store.onStored = undefined
      await strike(hurt.stack.edge)
      resolve()
    }
  })
  store.failing = false
  await died
  expect(files(name).length).toBeGreaterThan(0)
  await revive(hurt.stack.edge)
  await eventually('the tenant is erased', () => isErased(name), 120_000)
  expect(objectsIn(name).sort()).toEqual(runs.map(objectOfRun).sort())
  for (const run of runs)
    expect(
      files(name).some((key) => store.objects.get(key)?.includes(Buffer.from(run).toString('base64'))),
    ).toBe(true)
})

test('a deletion whose export can’t succeed goes on after the operator of the installation gives the export up', {
  timeout: 240_000,
}, async () => {
  const name = 'export-given-up'
  await exporting(name, 1)
  await removeInVain(name)
  await remove(name, true)
  await eventually('the tenant is erased', () => isErased(name), 120_000)
  store.failing = false
  expect(files(name)).toEqual([])
  const journal = unwrap(await governor()('readInstallationJournal', { query: {} })).items
  expect(journal.filter(({ body }) => body['tenant'] === name).map(({ kind }) => kind)).toEqual([
    'tenant.created',
    'tenant.suspended',
    'tenant.deleted',
    'tenant.export_waived',
    'tenant.erased',
  ])
})
