// Promise: a tenant with an export target loses nothing before the bucket has confirmed it. Runs of a
// deleted tenant wait for the store, SIGKILL exports nothing twice, and the operator of the
// installation can give up the export.

import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { archiveOf } from '../../edge/archive/archive-of.ts'
import { objectOfRun, runObjectName } from '../../shared/ids.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Client } from '../../shared/routes/client.ts'
import { eventually } from '../support/eventually.ts'
import { type Fixtures, unwrap } from '../support/fixtures.ts'
import { StrictStore } from '../support/s3/strict-store.ts'
import { HurtStack, insist, revive, strike } from '../support/stack/hurt-stack.ts'
import { objectId } from '../support/stack/object-file.ts'
import { installation, newTenant } from '../support/tenants.ts'
import { PeerWorker } from '../support/worker/peer-worker.ts'

let hurt: HurtStack
let store: StrictStore
beforeAll(async () => {
  store = await StrictStore.start()
  const limits = { retention_day_ms: 1_000, removal_retry_ms: 500 }
  hurt = await HurtStack.start({ sealAfterS: 1, worker: 'idle', loopbackChannels: true, limits })
})
afterAll(async () => {
  await hurt?.stop()
  await store?.stop()
})

/** A tenant with an export target and an ended call in each of some runs. */
async function exporting(
  name: string,
  count: number,
): Promise<{ fixtures: Fixtures; client: Client; runs: string[] }> {
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
  return { fixtures, client, runs }
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

test('evidence that a rule no longer keeps stays until the bucket has confirmed it', {
  timeout: 60_000,
}, async () => {
  const name = 'export-retained'
  const { fixtures, client, runs } = await exporting(name, 1)
  const [run = ''] = runs
  const { items } = unwrap(await client('listCalls', { query: {} }))
  const read = async () =>
    unwrap(await insist(() => client('readCall', { params: { run, call: items[0]?.id ?? '' } })))
  store.failing = true
  unwrap(await fixtures.root('putRetention', { body: { outputs: 1, arguments: 1, evidence: 1 } }))
  const tries = () => store.requests.filter((line) => line.startsWith(`PUT /evidence/${name}/r`)).length
  await eventually('the export is tried again', () => tries() > LIMITS.export_tries, 30_000)
  expect([(await read()).removed, files(name)]).toEqual([undefined, []])
  store.failing = false
  await eventually('the evidence is removed', async () => (await read()).removed?.evidence, 30_000)
  const exported = files(name).map((key) => store.objects.get(key)?.toString() ?? '')
  expect(
    exported.filter((text) => text.includes('"kind":"call"') && text.includes('"envelope"')),
  ).toHaveLength(1)
})

test('a tenant whose store gives no answer delays no other deletion', { timeout: 120_000 }, async () => {
  const [slow, other] = ['export-stalled', 'export-none']
  await exporting(slow, 1)
  await newTenant(hurt.stack.dev, other)
  let answer: () => void = () => undefined
  store.stalling = new Promise((resolve) => {
    answer = resolve
  })
  const begun = Date.now()
  for (const name of [slow, other]) {
    unwrap(await governor()('suspendTenant', { params: { tenant: name }, body: {} }))
    await remove(name)
    await sleep(1_000) // the deletion of the first waits for the store
  }
  await eventually('the other tenant is erased', () => isErased(other))
  expect(Date.now() - begun).toBeLessThan(3 * LIMITS.export_ms)
  expect(await isErased(slow)).toBe(false)
  answer()
  store.stalling = undefined
  await eventually('the tenant is erased', () => isErased(slow), 60_000)
  expect(files(slow).length).toBe(1)
})

test('SIGKILL between the removal of a run and that of its entry in the archive stops no deletion', {
  timeout: 120_000,
}, async () => {
  const name = 'export-halved'
  const { fixtures, runs, client } = await exporting(name, 12)
  const archive = objectFile('archive', `${name}/${archiveOf(objectOfRun(runs[0] ?? ''))}`)
  const entries = () => count(archive, 'select 1 from entries where digest is not null')
  const stored = () =>
    runs.filter((run) => count(objectFile('run', runObjectName(name, run)), 'select 1 from run') > 0).length
  await eventually('the runs are sealed', () => entries() === runs.length && stored() === 0, 30_000)
  const { name: tool = '' } = unwrap(await fixtures.root('listTools', {})).items[0] ?? {}
  for (const run of runs) unwrap(await client('proposeCall', { params: { run }, body: { tool, args: {} } }))
  // They are stored again, and each still has its entry.
  expect([entries(), stored()]).toEqual([runs.length, runs.length])
  unwrap(await governor()('suspendTenant', { params: { tenant: name }, body: {} }))
  const struck = once(new Worker(STRIKE, { eval: true, workerData: [archive, hurt.stack.edge.pid] }), 'exit')
  await remove(name)
  await struck
  await eventually('the edge is dead', () => !hurt.stack.edge.running)
  await revive(hurt.stack.edge)
  await eventually('the tenant is erased', () => isErased(name), 60_000)
  expect([entries(), stored()]).toEqual([0, 0])
})

/** Kills the edge as soon as an archive has lost an entry: our own thread would be too late. */
const STRIKE = `
  const [file, pid] = require('node:worker_threads').workerData
  const { DatabaseSync } = require('node:sqlite')
  const entries = new DatabaseSync(file, { readOnly: true, timeout: 5_000 }).prepare('select id from entries')
  const before = entries.all().length
  while (entries.all().length === before);
  process.kill(pid, 'SIGKILL')
`

const objectFile = (kind: 'archive' | 'run', name: string): string =>
  join(hurt.stack.state.edge, `objects/countersign-${kind}/${objectId(`countersign-${kind}`, name)}.sqlite`)

/** The number of rows; 0 without the table. */
function count(file: string, sql: string): number {
  if (!existsSync(file)) return 0
  const db = new DatabaseSync(file, { readOnly: true, timeout: 5_000 })
  try {
    return db.prepare(sql).all().length
  } catch (thrown) {
    if (String(thrown).includes('no such table')) return 0
    throw thrown
  } finally {
    db.close()
  }
}
