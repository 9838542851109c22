// Promise: deleting a tenant takes two steps and is permanent. Its keys are refused, its ids answer
// like ids that never existed, its data is gone from the storage folder, its name can't be used
// again, and the installation's journal records the deletion.

import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Stack } from '../../../infra/stack.ts'
import { bearer, type Client, client } from '../../../shared/routes/client.ts'
import { eventually } from '../../support/eventually.ts'
import { refusalOf, unwrap } from '../../support/fixtures.ts'
import { component, Publisher } from '../../support/skills/skill.ts'
import { bytesOf } from '../../support/stack/hurt-stack.ts'
import { advanceAlarm, objectId } from '../../support/stack/object-file.ts'
import { startTestStack } from '../../support/stack/stack.ts'
import { installation, newFurnishedTenant, newTenant, type Tenant } from '../../support/tenants.ts'

const name = 'deleted-acme'
const params = { tenant: name }
const UNKNOWN = '401 unauthenticated'
let stack: Stack
let governor: Client
let acme: Tenant
let other: Tenant

beforeAll(async () => {
  stack = await startTestStack({ worker: 'idle' })
  governor = installation(stack.dev)
  ;[acme, other] = [
    await newFurnishedTenant(stack.dev, name),
    await newFurnishedTenant(stack.dev, 'deleted-other'),
  ]
})
afterAll(() => stack.stop())

const remove = (tenant: string, repeated = tenant) =>
  governor('deleteTenant', { params: { tenant }, body: { name: repeated } })
const objects = (): string[] => {
  const folder = join(stack.state.dir, 'edge/objects')
  return readdirSync(folder, { recursive: true }).map((file) => join(folder, String(file)))
}
/**
 * Files of objects that contain this text. workerd's list of alarms (`metadata.sqlite`) names
 * objects and can't be cleared by us.
 */
const holding = (text: string): string[] =>
  objects().filter((file) => /\/[0-9a-f]{64}\.sqlite/.test(file) && bytesOf(file).includes(text))

test('D18 deleting is refused for an active tenant, without the repeated name, and for the default tenant', async () => {
  expect(refusalOf(await remove(name))).toBe('409 conflict')
  unwrap(await governor('suspendTenant', { params, body: {} }))
  expect(refusalOf(await remove(name, 'deleted-other'))).toBe('400 invalid_request')
  expect(refusalOf(await remove('default'))).toBe('403 forbidden')
  expect(refusalOf(await remove('deleted-never'))).toBe('404 not_found')
  unwrap(await governor('resumeTenant', { params, body: {} }))
  unwrap(await acme.fixtures.root('listAgents', {}))
})

test('D18 a deleted tenant’s keys are refused, and none of its data is left on disk', {
  timeout: 120_000,
}, async () => {
  // A run of which the tenant may not know yet: it waits for a worker that never comes.
  const stray = unwrap(
    await acme.agent.client('proposeCallInNewRun', {
      body: { tool: acme.ids.tool, args: { text: 'the stray one' } },
    }),
  )
  expect(stray.state).toBe('granted')
  expect(holding(`of ${name} alone`).length).toBeGreaterThan(0)
  unwrap(await governor('suspendTenant', { params, body: {} }))
  expect(unwrap(await remove(name))).toMatchObject({ name, state: 'deleted' })

  expect(refusalOf(await acme.agent.client('readRun', { params: { run: acme.ids.run } }))).toBe(UNKNOWN)
  expect(refusalOf(await acme.fixtures.root('listAgents', {}))).toBe(UNKNOWN)
  expect(refusalOf(await acme.peer.client('heartbeat', { body: { tiers: [], running: [] } }))).toBe(
    '401 bad_signature',
  )
  expect((await acme.console.get('/console')).status).toBe(401)
  expect((await fetch(new URL(`/approve/${acme.ids.token}`, stack.url))).status).toBe(401)
  const open = client(stack.url)
  expect(refusalOf(await open('keys', { query: { tenant: name } }))).toBe('404 not_found')
  expect(refusalOf(await open('logCheckpoint', { params: { tenant: name } }))).toBe('404 not_found')
  const tile = { tenant: name, tile: 'entries/000.p/1' }
  expect(refusalOf(await open('logTile', { params: tile }))).toBe('404 not_found')
  expect(refusalOf(await governor('resumeTenant', { params, body: {} }))).toBe('404 not_found')
  expect(refusalOf(await governor('createTenant', { body: { name } }))).toBe('409 conflict')

  await eventually(
    'the tenant’s data is erased',
    async () => unwrap(await governor('readTenant', { params })).erased,
    60_000,
  )
  const { use } = unwrap(await governor('readTenant', { params }))
  expect(use).toBeNull()
  await eventually(
    'no file contains data of the tenant',
    () => holding(`of ${name} alone`).length === 0 && holding(acme.ids.secret).length === 0,
  )
  expect(holding(acme.ids.session)).toEqual([])
  for (const run of [acme.ids.run, acme.ids.approval.replace(/^apr_(\w{26})_.*$/, 'run_$1')])
    expect(holding(run)).toEqual([])

  // The run removes itself when its alarm fires, which here repeats the doorbell a few seconds
  // after the proposal.
  const file = objectId('countersign-run', `${name}/${stray.run}`)
  await eventually(
    'the stray run has removed itself',
    () => holding('the stray one').every((path) => !path.includes(file)),
    90_000,
  )
  const { items } = unwrap(await governor('readInstallationJournal', { query: {} }))
  expect(items.filter(({ body }) => body['tenant'] === name).map(({ kind }) => kind)).toEqual([
    'tenant.created',
    'tenant.suspended',
    'tenant.resumed',
    'tenant.suspended',
    'tenant.deleted',
    'tenant.erased',
  ])
})

test('D18 no object is made for a skill that does not exist: its storage is empty, and trials share one object', async () => {
  const { root } = other.fixtures
  const skills = () => objects().filter((file) => /countersign-skill\/[0-9a-f]{64}\.sqlite$/.test(file))
  const author = new Publisher('author')
  const tried = async (id: string) => {
    const code = Buffer.from(await component()).toString('base64')
    const trials = [{ tool: 'run', input: {} }] as never // the edge fills in defaults
    return root('trySkill', { body: { manifest: author.manifest(id), component: code, trials } })
  }
  expect(unwrap(await tried('first')).items).toHaveLength(1)
  const before = skills()
  for (const id of ['never-1', 'never-2']) {
    expect(unwrap(await tried(id)).items).toHaveLength(1)
    expect(unwrap(await root('readSkillStorage', { params: { id }, query: {} }))).toEqual({
      keys: 0,
      bytes: 0,
      items: [],
      clearings: [],
    })
    expect(unwrap(await root('clearSkillStorage', { params: { id } }))).toMatchObject({ keys: 0, bytes: 0 })
  }
  expect(skills()).toEqual(before)
})

test('D18 no object is made for a session that nobody has used, by a dry run or a reset', async () => {
  const { root } = other.fixtures
  const tool = await other.fixtures.tool()
  const sessions = () => objects().filter((file) => /countersign-session\/[0-9a-f]{64}\.sqlite$/.test(file))
  const counts = `@id("counts") forbid (principal, action == Action::"tool.execute/${tool}", resource) when { context.budget.session.calls >= 1 };`
  await other.fixtures.withPolicies({ counts }, async () => {
    const agent = await other.fixtures.agent()
    const dryRun = async (session?: string) => {
      const run = session === undefined ? {} : { session }
      return unwrap(await root('decide', { body: { agent: agent.name, tool, args: {}, run } })).decision
        .effect
    }
    const before = sessions()
    for (const session of ['never-run', undefined]) expect(await dryRun(session)).toBe('allow')
    const params = { session: 'never-run' }
    expect(unwrap(await root('resetSession', { params, body: { agent: agent.name } })).ended).toBe(0)
    expect(sessions()).toEqual(before)
    unwrap(await agent.client('proposeCallInNewRun', { body: { tool, args: {}, run: params } }))
    expect(await dryRun('never-run')).toBe('deny')
    expect(sessions()).toHaveLength(before.length + 1)
  })
})

test('D18 deleting a tenant leaves all data of another tenant', async () => {
  const { run, call } = other.ids
  expect(unwrap(await other.agent.client('readCall', { params: { run, call } })).id).toBe(call)
  expect(unwrap(await other.agent.client('listFiles', { params: { run } })).items).toHaveLength(1)
  expect(unwrap(await other.fixtures.root('listSecrets', {})).items).toHaveLength(1)
  expect(unwrap(await other.fixtures.root('listSkills', { query: {} })).items).toHaveLength(1)
})

test('D18 a deleted tenant stays deleted after a restart of the edge, and a request for it makes no object', async () => {
  await stack.edge.stop()
  expect((await stack.edge.start()).ok).toBe(true)
  const before = objects().filter((file) => file.endsWith('.sqlite'))
  expect(refusalOf(await acme.fixtures.root('listAgents', {}))).toBe(UNKNOWN)
  expect(refusalOf(await client(stack.url, bearer(acme.agent.key))('listTools', {}))).toBe(UNKNOWN)
  expect(refusalOf(await client(stack.url)('keys', { query: { tenant: name } }))).toBe('404 not_found')
  expect(objects().filter((file) => file.endsWith('.sqlite') && !before.includes(file))).toEqual([])
  expect(unwrap(await governor('readTenant', { params }))).toMatchObject({ state: 'deleted', erased: true })
})

test('D18 an empty tenant can be deleted too', async () => {
  await newTenant(stack.dev, 'deleted-empty')
  unwrap(await governor('suspendTenant', { params: { tenant: 'deleted-empty' }, body: {} }))
  unwrap(await remove('deleted-empty'))
  await eventually(
    'the empty tenant is erased',
    async () => unwrap(await governor('readTenant', { params: { tenant: 'deleted-empty' } })).erased,
  )
})

test('D18 runs without calls are removed with their tenant, even a run that the tenant’s list has missed', async () => {
  const idle = await newTenant(stack.dev, 'deleted-idle')
  const agent = await idle.agent()
  unwrap(await agent.client('createRun', { body: { session: 'never-called' } }))
  const refused = { tool: 'no-such-tool', args: {}, run: { session: 'only-refused' } }
  expect((await agent.client('proposeCallInNewRun', { body: refused })).ok).toBe(false)
  unwrap(await governor('putQuota', { params: { tenant: 'deleted-idle' }, body: { calls_per_day: 0 } }))
  const beyond = { tool: await idle.tool(), args: {}, run: { session: 'never-counted' } }
  expect(refusalOf(await agent.client('proposeCallInNewRun', { body: beyond }))).toBe(
    '403 calls_quota_exceeded',
  )
  const sessions = ['never-called', 'only-refused', 'never-counted']
  const kept = () => sessions.flatMap(holding).filter((file) => file.includes('countersign-run'))
  const files = new Set(kept().map((file) => file.replace(/-wal$/, '')))
  expect(files.size).toBe(2) // the refused calls share an object
  unwrap(await governor('suspendTenant', { params: { tenant: 'deleted-idle' }, body: {} }))
  unwrap(await remove('deleted-idle'))
  await eventually(
    'the tenant is erased',
    async () => unwrap(await governor('readTenant', { params: { tenant: 'deleted-idle' } })).erased,
  )
  await stack.edge.stop()
  const left = new Set(kept().map((file) => file.replace(/-wal$/, '')))
  for (const file of left) advanceAlarm(file)
  expect((await stack.edge.start()).ok).toBe(true)
  await eventually('no file contains data of the runs', () => kept().length === 0, 30_000)
})
