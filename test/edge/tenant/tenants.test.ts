// Promise: the operator of the installation creates tenants, each with a first operator whose key
// is shown once, and can read nothing inside them. The installation's own log records every change.

import { mkdirSync, readFileSync, rmdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { verifyCheckpoint } from '../../../shared/evidence/checkpoint.ts'
import { verifyChain } from '../../../shared/evidence/journal.ts'
import { mintInstallationKey, mintKey } from '../../../shared/ids.ts'
import { bearer, client } from '../../../shared/routes/client.ts'
import { eventually } from '../../support/eventually.ts'
import { Fixtures, refusalOf, unwrap } from '../../support/fixtures.ts'
import { logHashes, logHead } from '../../support/log-reader.ts'
import { objectId } from '../../support/stack/object-file.ts'
import { sharedStack, sharedState } from '../../support/stack/stack.ts'
import { installation, newTenant } from '../../support/tenants.ts'

const dev = sharedStack()
const governor = installation(dev)
const fixtures = new Fixtures('tenants', dev)
const REFUSED = '401 unauthenticated'

test('D18 the first operator of a new tenant can administer it, and its agents’ calls are decided and logged separately', async () => {
  const acme = await newTenant(dev, 'tenants-acme')
  const [agent, tool] = [await acme.agent(), await acme.tool()]
  const call = unwrap(await agent.client('proposeCallInNewRun', { body: { tool, args: {} } }))
  expect(call.state).toBe('granted')
  unwrap(await agent.client('cancelCall', { params: { run: call.run, call: call.id } }))
  const ended = await eventually(
    'the call is in the tenant’s log',
    async () => unwrap(await acme.root('listEndedCalls', { query: {} })).items[0],
  )
  expect([ended.call, ended.agent]).toEqual([call.id, agent.name])
  const head = await eventually('the agent, the tool and the call are in the log', async () => {
    const now = await logHead(client(dev.url), 'tenants-acme')
    return now.size >= 3 && now
  })
  expect([head.size, head.origin.endsWith('/tenants-acme')]).toEqual([3, true])
  expect(unwrap(await acme.root('listOperators', {})).items.map(({ name, roles }) => [name, roles])).toEqual([
    ['root', ['admin']],
  ])
})

test('the first operator may have another name, and only the first response contains its key', async () => {
  const made = unwrap(await governor('createTenant', { body: { name: 'tenants-named', operator: 'alice' } }))
  expect(made).toMatchObject({ name: 'tenants-named', state: 'active', operator: 'alice' })
  expect(made.key).toMatch(/^cs_operator_tenants-named_/)
  unwrap(await client(dev.url, bearer(made.key))('listAgents', {}))
  const responses = JSON.stringify([
    unwrap(await governor('listTenants', { query: {} })),
    unwrap(await governor('readTenant', { params: { tenant: 'tenants-named' } })),
    unwrap(await governor('readInstallationJournal', { query: {} })),
  ])
  expect(responses).not.toContain(made.key.split('_').at(-1))
})

test('D18 the first key is shown even if the tenant’s object can’t be reached, and works as soon as it can', async () => {
  const name = 'tenants-unreached'
  const file = join(
    sharedState(),
    'edge/objects/countersign-tenant',
    `${objectId('countersign-tenant', name)}.sqlite`,
  )
  mkdirSync(file) // the object can't open a folder as its database file
  const made = unwrap(await governor('createTenant', { body: { name } }))
  const operator = client(dev.url, bearer(made.key))
  expect((await operator('listAgents', {})).ok).toBe(false)
  rmdirSync(file)
  await eventually('the key works', async () => (await operator('listAgents', {})).ok, 30_000)
  expect(refusalOf(await governor('createTenant', { body: { name } }))).toBe('409 conflict')
})

test('a tenant’s name has to be new, well formed, and not the name of the installation’s log', async () => {
  await newTenant(dev, 'tenants-once')
  expect(refusalOf(await governor('createTenant', { body: { name: 'tenants-once' } }))).toBe('409 conflict')
  expect(refusalOf(await governor('createTenant', { body: { name: 'default' } }))).toBe('409 conflict')
  for (const name of ['installation', 'Upper', '1st', 'a_b', 'a.b', 'a/b', '', 'x'.repeat(33)])
    expect([name, refusalOf(await governor('createTenant', { body: { name } }))]).toEqual([
      name,
      '400 invalid_request',
    ])
})

test('only one of two simultaneous requests that create the same tenant succeeds', async () => {
  const answers = await Promise.all(
    Array.from({ length: 8 }, () => governor('createTenant', { body: { name: 'tenants-race' } })),
  )
  expect(answers.filter(({ ok }) => ok)).toHaveLength(1)
  expect(new Set(answers.filter(({ ok }) => !ok).map(refusalOf))).toEqual(new Set(['409 conflict']))
})

test('K03 the installation key gives no access to a tenant, no tenant’s key manages tenants, and all wrong keys get the same refusal', async () => {
  expect(refusalOf(await governor('listTools', {}))).toBe(REFUSED)
  expect(refusalOf(await governor('listOperators', {}))).toBe(REFUSED)
  expect(
    refusalOf(await governor('putOperator', { params: { name: 'me' }, body: { roles: ['admin'] } })),
  ).toBe(REFUSED)
  const admin = await fixtures.operator(['admin'])
  const key = dev.installation_key
  const wrong = [
    admin.key,
    fixtures.rootKey,
    mintInstallationKey(Date.now()),
    `${key.slice(0, -1)}${key.endsWith('0') ? '1' : '0'}`,
    key.toLowerCase(),
    mintKey('operator', 'installation', Date.now()).key,
  ]
  for (const one of wrong) {
    const asked = client(dev.url, bearer(one))
    expect(refusalOf(await asked('listTenants', { query: {} }))).toBe(REFUSED)
    expect(refusalOf(await asked('createTenant', { body: { name: 'tenants-forged' } }))).toBe(REFUSED)
    expect(refusalOf(await asked('suspendTenant', { params: { tenant: 'default' }, body: {} }))).toBe(REFUSED)
  }
  expect(refusalOf(await governor('readTenant', { params: { tenant: 'tenants-forged' } }))).toBe(
    '404 not_found',
  )
})

test('set-up stores the installation key so that only its owner can read it, and gives the edge its hash', () => {
  const secrets = readFileSync(join(sharedState(), 'secrets.json'), 'utf8')
  expect(JSON.parse(secrets).installation).toBe(dev.installation_key)
  const config = readFileSync(join(sharedState(), 'edge/config.capnp'), 'utf8')
  expect(config).not.toContain(dev.installation_key.split('_').at(-1))
})

test('J01 changes of tenants form a hash chain, and each entry becomes a leaf of the installation’s signed log', async () => {
  await newTenant(dev, 'tenants-journal')
  unwrap(await governor('putQuota', { params: { tenant: 'tenants-journal' }, body: { workers: 3 } }))
  const items = unwrap(await governor('readInstallationJournal', { query: {} })).items
  expect(verifyChain(items).ok).toBe(true)
  const ours = items
    .filter(({ body }) => body['tenant'] === 'tenants-journal')
    .map(({ kind, body }) => [kind, body['quota']])
  expect(ours).toMatchObject([
    ['tenant.created', { workers: 100 }],
    ['tenant.quota', { workers: 3 }],
  ])
  const log = client(dev.url)
  const head = await eventually('the log has all entries', async () => {
    const checkpoint = await logHead(log, 'installation')
    return checkpoint.size >= items.length ? checkpoint : undefined
  })
  const leaves = await logHashes(log, 'installation')
  expect(leaves.slice(0, items.length)).toEqual(items.map(({ hash }) => hash))
  const edge = dev.keys.keys.find(({ role }) => role === 'edge')
  expect(head.origin).toMatch(/\/installation$/)
  expect(verifyCheckpoint(head.note, head.origin, edge?.x ?? '')).toMatchObject({
    ok: true,
    value: { size: head.size },
  })
})

test('tenants are listed page by page in the order of their names', async () => {
  await newTenant(dev, 'tenants-z1')
  await newTenant(dev, 'tenants-z2')
  const { items } = unwrap(await governor('listTenants', { query: { after: 'tenants-z1' } }))
  expect(items[0]?.name).toBe('tenants-z2')
  expect(items.map(({ name }) => name)).toEqual(items.map(({ name }) => name).toSorted())
})

test('the public metrics name no tenant', async () => {
  await newTenant(dev, 'tenants-unnamed')
  const metrics = await (await fetch(new URL('/metrics', dev.url))).text()
  expect(metrics).toContain('countersign_calls_ended_total')
  expect(metrics).not.toContain('tenants-unnamed')
})
