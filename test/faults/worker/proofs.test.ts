// Promise: a call goes to a worker that has recently proven what the call needs. Without such a
// worker it waits, its grant stays unused, and its end says what was missing.

import { afterAll, beforeAll, expect, test } from 'vitest'
import { Keys } from '../../../shared/evidence/keys.ts'
import { LIMITS } from '../../../shared/limits.ts'
import { bearer, type Client, client } from '../../../shared/routes/client.ts'
import { eventually } from '../../support/eventually.ts'
import { refusalOf, unwrap } from '../../support/fixtures.ts'
import { HurtStack, revive } from '../../support/stack/hurt-stack.ts'
import { fileOf, runFileOf } from '../../support/stack/object-file.ts'
import { PeerWorker } from '../../support/worker/peer-worker.ts'

const POOL = 'proofs'
const TOOL = 'in-tier-c'

let hurt: HurtStack
let agent: Client
beforeAll(async () => {
  hurt = await HurtStack.start()
  const executor = { kind: 'process' as const, tiers: ['C' as const], argv: ['true'], stdin: 'none' as const }
  const body = {
    description: 'd',
    input_schema: { type: 'object' },
    capabilities: [],
    executor,
    workspace: 'call' as const,
    limits: {},
  }
  unwrap(
    await hurt.operator('putTool', {
      params: { name: TOOL },
      body: { ...body, egress: { mode: 'strict', hosts: [] } },
    }),
  )
  const { key = '' } = unwrap(
    await hurt.operator('putAgent', { params: { name: POOL }, body: { tools: ['*'], pool: POOL } }),
  )
  agent = client(hurt.stack.url, bearer(key))
})
afterAll(() => hurt?.stop())

const propose = async () => unwrap(await agent('proposeCallInNewRun', { body: { tool: TOOL, args: {} } }))
const enrol = (tiers: ('B' | 'C')[]) => PeerWorker.enrol(hurt.stack.url, hurt.operator, POOL, tiers)

test('K04 a call that a worker may not claim is forwarded once, by a doorbell for a worker that may', async () => {
  const [modest, able] = [await enrol(['B']), await enrol(['B', 'C'])]
  const redis = hurt.redis()
  const bells = (): Promise<number> => redis.llen(`cs:doorbell-default.${able.id}:wait`)
  const call = await propose()
  for (const _ of [1, 2, 3]) expect(refusalOf(await modest.claim(call.id))).toMatch(/sandbox_unavailable/)
  await eventually('its bell is rung', async () => (await bells()) > 0)
  expect(await bells()).toBe(1)
  redis.disconnect()
  await able.run(call.id)
  for (const { id } of [modest, able]) unwrap(await hurt.operator('revokeWorker', { params: { worker: id } }))
})

test('L9 K04 an expired proof does not count, and a call that no worker could claim lapses with the reason', async () => {
  const [able, again] = [await enrol(['B', 'C']), await enrol(['B', 'C'])]
  const [waits, lapses] = [await propose(), await propose()]
  await hurt.stack.edge.stop()
  const tenant = fileOf('tenant', hurt.stack.state.dir)
  tenant
    .prepare('update proofs set received_at = received_at - ? where worker in (?, ?)')
    .run(LIMITS.proof_ms, able.id, again.id)
  tenant.close()
  const run = runFileOf(lapses.run, hurt.stack.state.dir)
  // The two calls share an object, where the number of a call begins with that of its run.
  run
    .prepare(
      `update calls set record = json_set(record, '$.status.until', ?)
       where n / 4294967296 = (select id - 1 from run where json_extract(record, '$.id') = ?)`,
    )
    .run(Date.now(), lapses.run)
  run.close()
  await revive(hurt.stack.edge)

  expect(await hurt.operator('readWorker', { params: { worker: able.id } })).toMatchObject({
    value: {
      tiers: [],
      advertised: [],
      means: { tiers: [], egress: false, cgroups: false, profiles: [] },
      proof: { tiers: { C: { ok: true } } },
    },
  })
  expect(refusalOf(await able.claim(waits.id))).toMatch(/sandbox_unavailable/)
  const read = async (call: typeof lapses) =>
    unwrap(await agent('readCall', { params: { run: call.run, call: call.id } }))
  await eventually('it is given up', async () => (await read(lapses)).state === 'lapsed', 70_000)
  expect((await read(lapses)).result?.error).toEqual({
    code: 'never_claimed',
    detail: 'no worker claimed it in time: no worker of its pool has proven what it needs: tier C',
  })
  unwrap(await again.prove(['B', 'C']))
  await again.run(waits.id)
})

test('D2 T02 a weak key that an older edge enrolled is left out of the key file, and the others stay verifiable', async () => {
  const [weak, sound] = [await enrol(['C']), await enrol(['C'])]
  await hurt.stack.edge.stop()
  const tenant = fileOf('tenant', hurt.stack.state.dir)
  const x = Buffer.from('26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05', 'hex').toString(
    'base64url',
  ) // order 8
  tenant.prepare('update workers set x = ? where id = ?').run(x, weak.id)
  tenant.close()
  await revive(hurt.stack.edge)
  const served: unknown = await (
    await fetch(new URL('/.well-known/countersign/keys.json', hurt.stack.url))
  ).json()
  const read = Keys.safeParse(served)
  expect(read.error).toBeUndefined()
  const workers = read.data?.keys.map(({ worker }) => worker)
  expect([workers?.includes(weak.id), workers?.includes(sound.id)]).toEqual([false, true])
})
