// Promise: the edge enforces each limit of a tenant's quota where the counted thing is created,
// each refusal has its own code, and the operator of the installation can read the current use.

import { randomBytes } from 'node:crypto'
import { copyFileSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterAll, expect, test, vi } from 'vitest'
import { sha256 } from '../../../shared/bytes/json.ts'
import { LIMITS } from '../../../shared/limits.ts'
import { client } from '../../../shared/routes/client.ts'
import { refusalOf, unwrap } from '../../support/fixtures.ts'
import { Publisher } from '../../support/skills/skill.ts'
import {
  argumentsOf,
  LARGE,
  type StorageOperation,
  storageSkill,
} from '../../support/skills/storage-skill.ts'
import { objectId } from '../../support/stack/object-file.ts'
import { sharedStack, startTestStack } from '../../support/stack/stack.ts'
import { installation, newTenant } from '../../support/tenants.ts'
import { newSigner, PeerWorker } from '../../support/worker/peer-worker.ts'

const KiB = 1024
const MiB = 1024 * KiB

const dev = sharedStack()
const governor = installation(dev)
const useOf = async (tenant: string) => unwrap(await governor('readTenant', { params: { tenant } })).use

test('D18 the last call that fits the daily quota is accepted, the next is refused, and a changed quota applies at once', async () => {
  const fixtures = await newTenant(dev, 'quota-calls', { calls_per_day: 3 })
  const [agent, tool] = [await fixtures.agent(), await fixtures.tool()]
  const propose = (key?: string) =>
    agent.client('proposeCallInNewRun', {
      body: { tool, args: {} },
      ...(key === undefined ? {} : { headers: { 'idempotency-key': key } }),
    })
  const first = unwrap(await propose('one'))
  // In parallel: the count is one row, so only one of them can be the last.
  const answers = await Promise.all(Array.from({ length: 10 }, () => propose()))
  expect(answers.filter(({ ok }) => ok)).toHaveLength(2)
  expect(new Set(answers.filter(({ ok }) => !ok).map(refusalOf))).toEqual(
    new Set(['403 calls_quota_exceeded']),
  )
  expect((await useOf('quota-calls'))?.calls_today).toBe(3)
  expect(unwrap(await propose('one')).id).toBe(first.id) // a repeated request creates nothing, and gets the same answer
  unwrap(await governor('putQuota', { params: { tenant: 'quota-calls' }, body: { calls_per_day: 4 } }))
  unwrap(await propose())
  expect(refusalOf(await propose())).toBe('403 calls_quota_exceeded')
})

test('D18 a proposal that is repeated under its key uses up one call of the day, however often it is repeated', async () => {
  const fixtures = await newTenant(dev, 'quota-repeated', { calls_per_day: 3 })
  const [agent, tool] = [await fixtures.agent(), await fixtures.tool()]
  const { id: run } = unwrap(await agent.client('createRun', { body: {} }))
  const propose = (key: string) =>
    agent.client('proposeCall', {
      params: { run },
      headers: { 'idempotency-key': key },
      body: { tool, args: {} },
    })
  const first = unwrap(await propose('one'))
  for (let time = 0; time < 5; time++) expect(unwrap(await propose('one')).id).toBe(first.id)
  expect((await useOf('quota-repeated'))?.calls_today).toBe(1)
  unwrap(await propose('two'))
  unwrap(await propose('three'))
  expect(refusalOf(await propose('four'))).toBe('403 calls_quota_exceeded')
})

test('D18 a worker beyond the quota can enrol only after another is revoked, with the same token', async () => {
  const fixtures = await newTenant(dev, 'quota-workers', { workers: 1 })
  const first = await PeerWorker.enrol(dev.url, fixtures.root, fixtures.pool)
  const { token } = unwrap(await fixtures.root('createEnrolment', { body: { pool: fixtures.pool } }))
  const enrol = () =>
    client(dev.url)('enrol', { body: { token, x: newSigner().x, name: 'second', tiers: [] } })
  expect(refusalOf(await enrol())).toBe('409 workers_quota_exceeded')
  expect((await useOf('quota-workers'))?.workers).toBe(1)
  unwrap(await fixtures.root('revokeWorker', { params: { worker: first.id } }))
  unwrap(await enrol())
})

const storedBy = async (tenant: string) => (await useOf(tenant))?.storage_bytes ?? 0
const limitStorage = async (tenant: string, storage_bytes: number) =>
  unwrap(await governor('putQuota', { params: { tenant }, body: { storage_bytes } }))

test('D18 files of all runs of a tenant together may not exceed its quota, whichever agent owns the runs', async () => {
  const fixtures = await newTenant(dev, 'quota-files')
  const [one, two] = [await fixtures.agent(), await fixtures.agent()]
  await fixtures.tool({ input_files: true })
  const put = async (by: typeof one, bytes: number) => {
    const { id: run } = unwrap(await by.client('createRun', { body: {} }))
    const body = Buffer.alloc(bytes, bytes.toString())
    return by.client('putFile', { params: { run, sha256: sha256(body) }, body })
  }
  const before = await storedBy('quota-files')
  await limitStorage('quota-files', before + 10 * MiB)
  unwrap(await put(one, 6 * MiB))
  expect(refusalOf(await put(two, 5 * MiB))).toBe('409 storage_full')
  unwrap(await put(two, 3 * MiB))
  expect(await storedBy('quota-files')).toBeGreaterThanOrEqual(before + 9 * MiB)
})

test('D18 a tenant whose calls have used up its storage gets no new run, call, file or claim; what is stored stays readable, and a running call is settled', {
  timeout: 60_000,
}, async () => {
  const fixtures = await newTenant(dev, 'quota-left')
  const [agent, tool] = [
    await fixtures.agent(),
    await fixtures.tool({ input_files: true, limits: { output_bytes: MiB } }),
  ]
  const peer = await PeerWorker.enrol(dev.url, fixtures.root, fixtures.pool)
  const { id: run } = unwrap(await agent.client('createRun', { body: {} }))
  const propose = async (key: string) =>
    agent.client('proposeCall', {
      params: { run },
      headers: { 'idempotency-key': key },
      body: { tool, args: {} },
    })
  const inNewRun = () => agent.client('proposeCallInNewRun', { body: { tool, args: {} } })
  const first = unwrap(await propose('first'))
  const [running, waiting] = [unwrap(await propose('running')), unwrap(await propose('waiting'))]
  const claim = unwrap(await peer.claim(running.id))
  const before = (await useOf('quota-left'))?.calls_bytes ?? 0
  const output = randomBytes(512 * KiB)
  unwrap(await peer.settle(unwrap(await peer.claim(first.id)), { stdout: output }))
  const used = () => useOf('quota-left')
  await vi.waitFor(
    async () => expect((await used())?.calls_bytes ?? 0).toBeGreaterThan(before + output.byteLength),
    { timeout: 10_000, interval: 100 },
  )
  expect((await used())?.calls_bytes).toBeLessThan(before + output.byteLength + 256 * KiB)
  await limitStorage('quota-left', before + output.byteLength)

  const full = '409 storage_full'
  const lists = async () => unwrap(await agent.client('listRuns', { query: {} })).items.length
  const runs = await lists()
  expect(refusalOf(await propose('second'))).toBe(full)
  expect(refusalOf(await inNewRun())).toBe(full)
  expect(refusalOf(await agent.client('createRun', { body: {} }))).toBe(full)
  expect(
    refusalOf(
      await agent.client('putFile', { params: { run, sha256: sha256('1') }, body: Buffer.from('1') }),
    ),
  ).toBe(full)
  expect(refusalOf(await peer.claim(waiting.id))).toBe(full)

  expect(unwrap(await propose('first')).id).toBe(first.id) // a repeated request stores nothing
  expect(unwrap(await agent.client('readCall', { params: { run, call: first.id } })).state).toBe('succeeded')
  unwrap(await agent.client('readAttestation', { params: { run, call: first.id } }))
  unwrap(await peer.settle(claim, { stdout: output }))
  expect(unwrap(await agent.client('readCall', { params: { run, call: running.id } })).state).toBe(
    'succeeded',
  )

  const both = before + 2 * output.byteLength
  await vi.waitFor(async () => expect((await used())?.calls_bytes ?? 0).toBeGreaterThan(both), {
    timeout: 10_000,
    interval: 100,
  })
  expect((await used())?.calls_bytes).toBeLessThan(both + 512 * KiB) // reports are absolute
  await limitStorage('quota-left', before + 16 * MiB)
  unwrap(await peer.claim(waiting.id))
  unwrap(await propose('second'))
  expect(await lists()).toBe(runs) // a refused request made no run
})

test('a version of a skill uses the quota only for the parts that no earlier version has', async () => {
  const fixtures = await newTenant(dev, 'quota-versions')
  const acme = await Publisher.listed('quota-versions', fixtures.root)
  const code = await storageSkill()
  const packed = (version: string) =>
    acme.pack(acme.manifest('keeper', { version, capabilities: { kv: ['cache/'] } }), code)
  const publish = (version: string) => fixtures.root('publishSkill', { body: packed(version) })
  const used = async () => (await useOf('quota-versions'))?.skills_bytes ?? 0
  unwrap(await publish('1.0.0'))
  const first = await used()
  const signed = Buffer.from(packed('1.1.0').payload, 'base64').byteLength
  const slack = (first - signed) / 2 // for journal and lists; a second copy of the modules needs twice as much
  await limitStorage('quota-versions', first)
  expect(refusalOf(await publish('1.1.0'))).toBe('409 storage_full')
  await limitStorage('quota-versions', (await storedBy('quota-versions')) + signed + slack)
  unwrap(await publish('1.1.0'))
  expect(await used()).toBe(first + signed)
})

test('D18 what skills store, and their code, uses the same quota as files, and is usable again once it is deleted', async () => {
  const step = LIMITS.skill_storage_step_bytes
  const fixtures = await newTenant(dev, 'quota-skills')
  const [agent, maker] = [await fixtures.agent(), await fixtures.operator(['admin'])]
  const acme = await Publisher.listed('quota-acme', fixtures.root)
  const code = await storageSkill()
  const packed = (version: string) =>
    acme.pack(acme.manifest('keeper', { version, capabilities: { kv: ['cache/'] } }), code)
  const by = { maker: maker.client, root: fixtures.root }
  const tool = await acme.enable(by, acme.manifest('keeper', { capabilities: { kv: ['cache/'] } }), code)
  /** Leaves room for these bytes, and for what the calls of this test store. */
  const leave = async (bytes: number) =>
    limitStorage('quota-skills', (await storedBy('quota-skills')) + bytes + 3 * step)
  const used = async () => (await useOf('quota-skills'))?.skills_bytes
  const does = async (deed: StorageOperation, key: string) => {
    const body = { tool, args: argumentsOf(deed, key, 'x') }
    const { result } = unwrap(await agent.client('proposeCallInNewRun', { body, wait: 20 }))
    return result?.ok ? result.output : result?.error?.detail
  }
  const ofCode = (await used()) ?? 0
  expect(ofCode).toBeGreaterThan(code.byteLength) // the package and the modules made of it

  await leave(step)
  expect([await does('set', 'cache/01'), await does('set', 'cache/02')]).toEqual(['true', 'true'])
  expect(await used()).toBe(ofCode + step)
  expect(await does('setLarge', 'cache/03')).toMatch(/^the tenant stores \d+ bytes, and its quota is \d+$/)
  expect(await does('get', 'cache/03')).toBe('null')

  await leave(4 * step)
  expect(await does('setLarge', 'cache/03')).toBe('true') // two small values and a large one
  expect(await used()).toBe(ofCode + 5 * step)
  expect(await does('delete', 'cache/03')).toBe('true')
  await vi.waitFor(async () => expect(await used()).toBe(ofCode + step), 10_000)
  await leave(4 * step)
  expect(await does('setLarge', 'cache/03')).toBe('true')
  unwrap(await fixtures.root('clearSkillStorage', { params: { id: 'keeper' } }))
  await vi.waitFor(async () => expect(await used()).toBe(ofCode), 10_000)

  await limitStorage('quota-skills', 0)
  expect(refusalOf(await maker.client('publishSkill', { body: packed('1.1.0') }))).toBe('409 storage_full')
  expect(await used()).toBe(ofCode)
})

test('D18 calls of a skill at the same time store no more than the quota, together', async () => {
  const step = LIMITS.skill_storage_step_bytes
  const fixtures = await newTenant(dev, 'quota-together')
  const [agent, maker] = [await fixtures.agent(), await fixtures.operator(['admin'])]
  const acme = await Publisher.listed('together-acme', fixtures.root)
  const manifest = acme.manifest('hoarder', { capabilities: { kv: ['cache/'] } })
  const tool = await acme.enable({ maker: maker.client, root: fixtures.root }, manifest, await storageSkill())
  const before = (await useOf('quota-together'))?.skills_bytes ?? 0
  // Two large values and their keys take nine steps. A third needs four more: three are for the calls.
  await limitStorage('quota-together', (await storedBy('quota-together')) + 12 * step)
  const calls = Array.from({ length: 8 }, async (_, i) => {
    const body = { tool, args: argumentsOf('setLarge', `cache/0${i}`) }
    return unwrap(await agent.client('proposeCallInNewRun', { body, wait: 20 })).state
  })
  expect((await Promise.all(calls)).filter((state) => state === 'succeeded')).toHaveLength(2)
  const { keys, bytes } = unwrap(
    await fixtures.root('readSkillStorage', { params: { id: 'hoarder' }, query: {} }),
  )
  expect([keys, bytes]).toEqual([2, 2 * (LARGE + 8)])
  expect((await useOf('quota-together'))?.skills_bytes).toBe(before + 9 * step)
})

test('D18 an open page beyond the quota receives no events', async () => {
  const fixtures = await newTenant(dev, 'quota-streams', { streams: 1 })
  const [agent, tool] = [await fixtures.agent(), await fixtures.tool({ capabilities: ['network'] })]
  const asked = await fixtures.proposeForApproval(agent.client, tool)
  const events = `${await fixtures.link(fixtures.root, asked.approval.id)}/events`
  const abort = new AbortController()
  const open = await fetch(events, { signal: abort.signal })
  expect(open.status).toBe(200)
  expect((await useOf('quota-streams'))?.streams).toBe(1)
  expect((await fetch(events)).status).toBe(429)
  abort.abort()
})

test('a quota that is not a whole number or exceeds the maximum is refused', async () => {
  await newTenant(dev, 'quota-bounds')
  for (const body of [
    { workers: -1 },
    { workers: 1.5 },
    { workers: 1_001 },
    { calls_per_day: 1e12 },
    { other: 1 },
  ])
    expect(refusalOf(await governor('putQuota', { params: { tenant: 'quota-bounds' }, body }))).toBe(
      '400 invalid_request',
    )
  const { quota } = unwrap(
    await governor('putQuota', { params: { tenant: 'quota-bounds' }, body: { workers: 0 } }),
  )
  expect(quota).toEqual({
    calls_per_day: 1_000_000,
    storage_bytes: LIMITS.tenant_storage_bytes,
    workers: 0,
    streams: 512,
  })
})

/**
 * The count that the tenant's object has stored, read from a copy of its file while the edge runs.
 */
function countedIn(state: string, tenant: string): number {
  const folder = join(state, 'edge/objects/countersign-tenant')
  const name = `${objectId('countersign-tenant', tenant)}.sqlite`
  const copy = mkdtempSync(join(tmpdir(), 'countersign-count-'))
  try {
    for (const file of readdirSync(folder).filter((one) => one === name || one === `${name}-wal`))
      copyFileSync(join(folder, file), join(copy, file))
    const db = new DatabaseSync(join(copy, name))
    const n = Number(db.prepare('select n from calls_counted').get()?.['n'])
    db.close()
    return n
  } finally {
    rmSync(copy, { recursive: true })
  }
}

test('D18 a restart of the edge counts no call that was not proposed, and forgets none', {
  timeout: 120_000,
}, async () => {
  const stack = await startTestStack({ worker: 'idle' })
  afterAll(() => stack.stop())
  const of = installation(stack.dev)
  const counted = async (tenant: string) =>
    unwrap(await of('readTenant', { params: { tenant } })).use?.calls_today
  const proposer = async (tenant: string, calls_per_day: number) => {
    const fixtures = await newTenant(stack.dev, tenant, { calls_per_day })
    const [agent, tool] = [await fixtures.agent(), await fixtures.tool()]
    return () => agent.client('proposeCallInNewRun', { body: { tool, args: {} } })
  }
  const [few, seldom, busy] = [
    await proposer('few', 5),
    await proposer('seldom', 1_000_000),
    await proposer('busy', 1_000_000),
  ]
  unwrap(await few())
  unwrap(await few())
  unwrap(await seldom())
  for (const one of await Promise.all(Array.from({ length: 30 }, () => busy()))) unwrap(one)
  // Simultaneous calls are counted in advance until at most a second after the last one.
  await vi.waitFor(() => expect(countedIn(stack.state.dir, 'busy')).toBe(30), {
    timeout: 10_000,
    interval: 100,
  })
  await stack.edge.stop()
  expect((await stack.edge.start()).ok).toBe(true)
  expect([await counted('few'), await counted('seldom'), await counted('busy')]).toEqual([2, 1, 30])
  for (let more = 0; more < 3; more++) unwrap(await few())
  expect(refusalOf(await few())).toBe('403 calls_quota_exceeded')
  await stack.edge.stop()
  expect((await stack.edge.start()).ok).toBe(true)
  expect(refusalOf(await few())).toBe('403 calls_quota_exceeded')
})
