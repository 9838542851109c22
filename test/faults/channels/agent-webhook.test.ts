// Promise: an agent's webhook gets each answer to a question about its calls and each end, signed,
// at least once under one id, whatever dies in between. It gets ids, a state and an address, never
// a result or a secret, and nothing once the agent or the webhook is gone.

import type { ServerResponse } from 'node:http'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { LIMITS } from '../../../shared/limits.ts'
import { bearer, type Client, client } from '../../../shared/routes/client.ts'
import type { Call } from '../../../shared/wire/calls.ts'
import type { AgentDelivery, AgentWebhook } from '../../../shared/wire/principals.ts'
import { type Came, signedBy, taking, WebhookReceiver } from '../../support/channels/webhook-receiver.ts'
import { eventually } from '../../support/eventually.ts'
import { refusalOf, toolSpec, unwrap } from '../../support/fixtures.ts'
import { HurtStack, insist, revive, strike } from '../../support/stack/hurt-stack.ts'
import { fileOf } from '../../support/stack/object-file.ts'
import { SHORT_DELIVERIES } from '../../support/stack/other-limits.ts'

const HMAC_KEY = `whsec_${Buffer.alloc(32, 7).toString('base64')}`
let hurt: HurtStack
let receiver: WebhookReceiver
let count = 0
beforeAll(async () => {
  receiver = await WebhookReceiver.open()
  hurt = await HurtStack.start({ loopbackChannels: true, limits: SHORT_DELIVERIES })
  for (const [name, sensitive] of [
    ['plain', false],
    ['asks', true],
  ] as const) {
    const body = toolSpec({ sensitive, executor: { argv: ['echo', 'RESULT0'] } })
    unwrap(await hurt.operator('putTool', { params: { name }, body }))
  }
})
afterEach(() => {
  receiver.reply = taking
})
afterAll(async () => {
  await hurt?.stop()
  await receiver?.close()
})

type HookedAgent = { name: string; agent: Client; secret: string }
/** A new agent, whose calls wait for no worker unless its pool is `default`. */
async function hooked(webhook: Partial<AgentWebhook> = {}, pool = 'nobody'): Promise<HookedAgent> {
  count += 1
  const name = `hooked-${count}`
  const url = `${receiver.url}/${name}`
  const body = { tools: ['*'], pool, webhook: { url, ...webhook } }
  const { key = '', webhook_secret = '' } = unwrap(
    await hurt.operator('putAgent', { params: { name }, body }),
  )
  return { name, agent: client(hurt.stack.url, bearer(key)), secret: webhook_secret }
}
const propose = async ({ agent }: HookedAgent, tool: string, wait?: number): Promise<Call> =>
  unwrap(
    await agent('proposeCallInNewRun', {
      body: { tool, args: { text: 'ARGUMENT0' } },
      ...(wait === undefined ? {} : { wait }),
    }),
  )
const answer = async (call: Call, decision: 'approve' | 'deny') =>
  unwrap(
    await hurt.operator('answerApproval', { params: { id: call.approval?.id ?? '' }, body: { decision } }),
  )
const cameFor = ({ name }: Pick<HookedAgent, 'name'>): Came[] =>
  receiver.came.filter(({ path }) => path === `POST /${name}`)
const arrived = (agent: HookedAgent, n: number): Promise<Came[]> =>
  eventually(`${n} events arrive`, () => cameFor(agent).length >= n && cameFor(agent), 30_000)
const told = ({ body }: Came) => JSON.parse(body) as { type: string; timestamp: string; data: unknown }
const deliveries = async ({ name }: HookedAgent): Promise<AgentDelivery[]> =>
  unwrap(await insist(() => hurt.operator('listAgentDeliveries', { params: { name } }))).items
const idOf = ({ headers }: Came): unknown => headers['webhook-id']

test('an answer and an end are posted with ids, state and address, signed, and without arguments or results', async () => {
  const mine = await hooked({}, 'default')
  const call = await propose(mine, 'asks')
  await answer(call, 'approve')
  const [first, second] = await arrived(mine, 2)
  if (first === undefined || second === undefined) throw new Error('two events arrived')
  const both = [first, second].map(told).sort((a, b) => (a.type < b.type ? -1 : 1))
  const data = {
    agent: mine.name,
    run: call.run,
    call: call.id,
    tool: 'asks',
    state: expect.any(String),
    url: `${hurt.stack.url}/v1/runs/${call.run}/calls/${call.id}`,
  }
  expect(both).toEqual([
    { type: 'call.answered', timestamp: expect.any(String), data },
    { type: 'call.ended', timestamp: expect.any(String), data: { ...data, state: 'succeeded' } },
  ])
  for (const one of [first, second]) {
    expect(signedBy(mine.secret, one)).toBe(true)
    expect(one.body).not.toMatch(/RESULT0|ARGUMENT0/)
  }
  expect(idOf(first)).not.toBe(idOf(second))
  // The address answers to the agent's key.
  const url = (both[1]?.data as { url: string } | undefined)?.url ?? ''
  expect((await fetch(url)).status).toBe(401)
  expect(unwrap(await mine.agent('readCall', { params: { run: call.run, call: call.id } })).state).toBe(
    'succeeded',
  )
})

test('a denial by policy, a denial by a person, and a cancellation are ends', async () => {
  const mine = await hooked()
  const body = { tools: ['plain', 'asks'], pool: 'nobody', webhook: { url: `${receiver.url}/${mine.name}` } }
  unwrap(await hurt.operator('putAgent', { params: { name: mine.name }, body }))
  const refused = await propose(mine, 'mark_nothing').catch(() => null) // no such tool: no call, no event
  expect(refused).toBeNull()
  const [denied, cancelled] = [await propose(mine, 'asks'), await propose(mine, 'plain')]
  await answer(denied, 'deny')
  unwrap(await mine.agent('cancelCall', { params: { run: cancelled.run, call: cancelled.id } }))
  const all = (await arrived(mine, 3)).map(told).map(({ type, data }) => ({ type, ...(data as object) }))
  expect(all).toContainEqual(
    expect.objectContaining({ type: 'call.answered', call: denied.id, state: 'rejected' }),
  )
  expect(all).toContainEqual(
    expect.objectContaining({ type: 'call.ended', call: denied.id, state: 'rejected' }),
  )
  expect(all).toContainEqual(
    expect.objectContaining({ type: 'call.ended', call: cancelled.id, state: 'cancelled' }),
  )
  expect(all).toHaveLength(3)
})

test('a webhook gets only the events that it asks for, and no events of other agents', async () => {
  const [ends, both] = [await hooked({ events: ['call.ended'] }), await hooked()]
  const call = await propose(ends, 'asks')
  await answer(call, 'deny')
  const other = await propose(both, 'asks')
  await answer(other, 'deny')
  await arrived(both, 2)
  const [end] = await arrived(ends, 1)
  expect(end === undefined ? '' : told(end).type).toBe('call.ended')
  expect((await deliveries(ends)).map(({ type, call: of, state }) => [type, of, state])).toEqual([
    ['call.ended', call.id, 'sent'],
  ])
  expect(cameFor(both).every(({ body }) => body.includes(other.id))).toBe(true)
})

test('an event is retried under one id after refusals and after the edge was killed', async () => {
  const mine = await hooked()
  receiver.reply = (response) => response.writeHead(503).end()
  const call = await propose(mine, 'asks')
  await answer(call, 'deny')
  await arrived(mine, 2)
  await strike(hurt.stack.edge)
  receiver.reply = taking
  const before = cameFor(mine).length
  await revive(hurt.stack.edge)
  await eventually('the attempts go on', () => cameFor(mine).length >= before + 2, 60_000)
  await eventually('both are sent', async () =>
    (await deliveries(mine)).every(({ state }) => state === 'sent'),
  )
  expect(new Set(cameFor(mine).map(idOf)).size).toBe(2)
})

test('an event of a call that ended just before the edge was killed still arrives', async () => {
  const mine = await hooked()
  const call = await propose(mine, 'plain')
  unwrap(await mine.agent('cancelCall', { params: { run: call.run, call: call.id } }))
  await strike(hurt.stack.edge) // within the delay of the run's outbox
  await revive(hurt.stack.edge)
  const [end] = await arrived(mine, 1)
  expect(end === undefined ? null : told(end).data).toMatchObject({ call: call.id, state: 'cancelled' })
})

test('the secret of a webhook is shown once, changes with the URL, and overlaps after a rotation', async () => {
  const mine = await hooked()
  const params = { name: mine.name }
  const spec = { tools: ['*'], pool: 'nobody', webhook: { url: `${receiver.url}/${mine.name}` } }
  expect(mine.secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/)
  const again = unwrap(await hurt.operator('putAgent', { params, body: spec }))
  expect([again.webhook_secret, again.key]).toEqual([undefined, undefined])
  const listed = unwrap(await hurt.operator('listAgents', {})).items.find(({ name }) => name === mine.name)
  expect(JSON.stringify(listed)).not.toContain('whsec_')

  const { webhook_secret: rotated = '' } = unwrap(await hurt.operator('rotateAgentWebhook', { params }))
  expect(rotated).not.toBe(mine.secret)
  const end = async () => {
    const before = cameFor(mine).length
    const call = await propose(mine, 'plain')
    unwrap(await mine.agent('cancelCall', { params: { run: call.run, call: call.id } }))
    return (await arrived(mine, before + 1)).at(-1) ?? { headers: {}, body: '' }
  }
  const during = await end()
  expect([signedBy(rotated, during), signedBy(mine.secret, during)]).toEqual([true, true])
  const { webhook_secret: third = '' } = unwrap(await hurt.operator('rotateAgentWebhook', { params }))
  const later = await end()
  expect([third, rotated, mine.secret].map((secret) => signedBy(secret, later))).toEqual([true, true, false])

  // Another receiver must not know a secret of the former one.
  const moved = { ...spec, webhook: { url: `${receiver.url}/${mine.name}?moved` } }
  const { webhook_secret: fresh = '' } = unwrap(await hurt.operator('putAgent', { params, body: moved }))
  expect([third, rotated, mine.secret]).not.toContain(fresh)
  unwrap(await hurt.operator('putAgent', { params, body: spec }))
  expect(refusalOf(await hurt.operator('rotateAgentWebhook', { params: { name: 'dev' } }))).toBe(
    '404 not_found',
  )
  // No file of the edge has a secret.
  for (const secret of [mine.secret, rotated, third, fresh]) expect(hurt.filesWith(secret)).toEqual([])
})

test('waiting events are dropped once the webhook is removed or the agent was created again under its name', async () => {
  const [removed, replaced] = [await hooked(), await hooked()]
  receiver.reply = (response) => response.writeHead(500).end()
  for (const one of [removed, replaced]) {
    const call = await propose(one, 'plain')
    unwrap(await one.agent('cancelCall', { params: { run: call.run, call: call.id } }))
    await arrived(one, 1)
  }
  const body = { tools: ['*'], pool: 'nobody' }
  unwrap(await hurt.operator('putAgent', { params: { name: removed.name }, body }))
  unwrap(await hurt.operator('deleteAgent', { params: { name: replaced.name } }))
  const webhook = { url: `${receiver.url}/${replaced.name}` }
  const made = unwrap(
    await hurt.operator('putAgent', { params: { name: replaced.name }, body: { ...body, webhook } }),
  )
  expect(made.webhook_secret).not.toBe(replaced.secret)
  for (const one of [removed, replaced])
    await eventually(
      'it is dropped',
      async () =>
        (await deliveries(one)).some(({ state, why }) => state === 'dropped' && why?.includes('no webhook')),
      30_000,
    )
  receiver.reply = taking
})

test('N14 a webhook address inside a private network is refused when the agent is stored', async () => {
  const refused = async (url: string) =>
    refusalOf(
      await hurt.operator('putAgent', { params: { name: 'inside' }, body: { tools: [], webhook: { url } } }),
    )
  for (const url of [
    'https://169.254.169.254/',
    'https://10.0.0.1/',
    'http://redis:6379/',
    'file:///etc/passwd',
  ])
    expect([url, await refused(url)]).toEqual([url, '422 channel_refused'])
})

test('at most 32 events are being sent to the agents of a tenant (`agent_deliveries_at_once`), and people still get messages', async () => {
  const agents = await Promise.all(Array.from({ length: 5 }, () => hooked()))
  const held: ServerResponse[] = []
  receiver.reply = (response) => void held.push(response)
  await Promise.all(
    agents.flatMap((mine) =>
      Array.from({ length: 8 }, async () => {
        const call = await propose(mine, 'plain')
        unwrap(await mine.agent('cancelCall', { params: { run: call.run, call: call.id } }))
      }),
    ),
  )
  await eventually('32 events are being sent', () => held.length === 32, 30_000)
  const params = { name: 'people' }
  const body = { kind: 'webhook' as const, url: `${receiver.url}/people`, keys: [HMAC_KEY] }
  unwrap(await hurt.operator('putChannel', { params, body }))
  const asked = await propose(agents[0] ?? expect.fail(), 'asks')
  await eventually('people are asked', () => receiver.about(asked.approval?.id ?? '').length === 1, 30_000)
  expect(held).toHaveLength(33) // the question, and no event
  receiver.reply = taking
  for (const response of held) response.writeHead(204).end()
  for (const mine of agents) await arrived(mine, 8)
  unwrap(await hurt.operator('deleteChannel', { params }))
})

test('an outbox that is full of waiting events takes no more, and settled ones make room', async () => {
  const mine = await hooked()
  receiver.reply = (response) => response.writeHead(500).end()
  const end = async () => {
    const call = await propose(mine, 'plain')
    unwrap(await mine.agent('cancelCall', { params: { run: call.run, call: call.id } }))
    return call.id
  }
  await end()
  await arrived(mine, 1)
  await strike(hurt.stack.edge)
  const channel = `agent:${mine.name}`
  const later = Date.now() + 3_600_000
  const db = fileOf('channel', hurt.stack.state.dir)
  const counted = 'select count(*) as n from deliveries where channel = ?'
  const { n } = db.prepare(counted).get(channel) as { n: number }
  db.prepare('update deliveries set next_at = ? where channel = ?').run(later, channel)
  const add = db.prepare(
    `insert into deliveries (id, approval, channel, kind, state, tries, next_at, changed_at)
     values (?, ?, ?, 'event', 'due', 1, ?, ?)`,
  )
  for (let i = n; i < LIMITS.agent_events; i++) add.run(`full-${i}`, `full-${i}`, channel, later, i)
  db.close()
  await revive(hurt.stack.edge)
  receiver.reply = taking
  const held = async (id: string) => (await deliveries(mine)).some(({ call }) => call === id)
  const refused = await end()
  await eventually('the log has the call', async () =>
    unwrap(await hurt.operator('listEndedCalls', { query: { last: 100 } })).items.some(
      ({ call }) => call === refused,
    ),
  )
  expect(await held(refused)).toBe(false)
  await strike(hurt.stack.edge)
  const settled = fileOf('channel', hurt.stack.state.dir)
  expect(settled.prepare(counted).get(channel)).toEqual({ n: LIMITS.agent_events })
  settled.prepare("update deliveries set next_at = null, state = 'sent' where id like 'full-%'").run()
  settled.close()
  await revive(hurt.stack.edge)
  const next = await end()
  await eventually('it is held', () => held(next), 30_000)
})
