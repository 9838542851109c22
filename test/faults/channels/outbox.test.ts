// Promise: each approver is asked at least once, under one id, whatever dies in between; in order,
// after the pauses that the tenant chose, and no longer once the approval has ended. Secrets of a
// channel are in no response, log or journal, and not in Redis.

import { randomBytes } from 'node:crypto'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { LIMITS } from '../../../shared/limits.ts'
import type { Call } from '../../../shared/wire/calls.ts'
import type { ChannelSpec, Delivery, DeliveryState } from '../../../shared/wire/channels.ts'
import { signedBy, taking, WebhookReceiver } from '../../support/channels/webhook-receiver.ts'
import { eventually } from '../../support/eventually.ts'
import { unwrap } from '../../support/fixtures.ts'
import { HurtStack, insist, revive, strike } from '../../support/stack/hurt-stack.ts'
import { fileOf } from '../../support/stack/object-file.ts'
import { SHORT_DELIVERIES } from '../../support/stack/other-limits.ts'

const CANARY = 'CANARY0w3b'
const KEY = `whsec_${CANARY}${'A'.repeat(34)}`
const PAIR = 'whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg=='
const PUBLIC = 'whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4='

let hurt: HurtStack
let receiver: WebhookReceiver
beforeAll(async () => {
  hurt = await HurtStack.start({ worker: 'idle', loopbackChannels: true, limits: SHORT_DELIVERIES })
  receiver = await WebhookReceiver.open()
  unwrap(await hurt.operator('putOperator', { params: { name: 'ada' }, body: { roles: ['approver'] } }))
  unwrap(await hurt.operator('putOperator', { params: { name: 'bob' }, body: { roles: ['auditor'] } }))
})
afterEach(async () => {
  receiver.reply = taking
  await hurt.deleteChannels()
})
afterAll(() => Promise.all([hurt?.stop(), receiver?.close()]))

type Change = Partial<Omit<Extract<ChannelSpec, { kind: 'webhook' }>, 'kind'>>
const put = async (name: string, change: Change = {}) =>
  unwrap(
    await hurt.operator('putChannel', {
      params: { name },
      body: { kind: 'webhook', url: `${receiver.url}/${name}?t=${CANARY}`, keys: [KEY], ...change },
    }),
  )
const ask = () => hurt.propose('mark_asking', { mark: 'asked\n' })
const approvalOf = ({ approval }: Call): string => approval?.id ?? ''
const answer = (call: Call, decision: 'approve' | 'deny' = 'deny') =>
  hurt.operator('answerApproval', { params: { id: approvalOf(call) }, body: { decision } })
const deliveries = async (name: string, call: Call): Promise<Delivery[]> =>
  unwrap(await insist(() => hurt.operator('listDeliveries', { params: { name }, query: {} }))).items.filter(
    ({ approval }) => approval === approvalOf(call),
  )
const delivered = (
  name: string,
  call: Call,
  kind: Delivery['kind'],
  state: DeliveryState,
  within_ms = 30_000,
): Promise<Delivery> =>
  eventually(
    `${name}: ${kind} is ${state}`,
    async () =>
      (await deliveries(name, call)).find((delivery) => delivery.kind === kind && delivery.state === state),
    within_ms,
  )
const ASKS_TWO =
  '@id("two") forbid (principal, action == Action::"tool.execute/mark_asking", resource) when { context.approval.count < 2 };'
const came = (call: Call) => receiver.about(approvalOf(call))
const idOf = ({ headers }: { headers: Record<string, unknown> }): unknown => headers['webhook-id']

test('a webhook receives an approval signed by each key, with a personal link, and then its end', async () => {
  await put('pager', { keys: [KEY, PAIR], recipients: { roles: ['approver'], operators: ['bob'] } })
  const call = await ask()
  await delivered('pager', call, 'asked', 'sent')
  const [asked, ...more] = came(call)
  expect(more).toEqual([])
  expect(asked).toMatchObject({
    path: `POST /pager?t=${CANARY}`,
    type: 'approval.requested',
    data: { recipient: 'ada', approval: { status: 'pending', prompt: { tool: 'mark_asking' } } },
  })
  for (const key of [KEY, PUBLIC]) expect(signedBy(key, asked ?? { headers: {}, body: '' })).toBe(true)
  expect(signedBy(KEY, { headers: asked?.headers ?? {}, body: `${asked?.body} ` })).toBe(false)
  // Policy does not let Bob answer: he gets no link, and the delivery says why.
  expect((await delivered('pager', call, 'asked', 'dropped')).why).toMatch(/policy does not let/)

  const url = asked?.data.approval.url ?? ''
  const nonce = /name="nonce" value="([^"]+)"/.exec(await (await fetch(url)).text())?.[1] ?? ''
  const form = new URLSearchParams({ decision: 'approve', nonce, reason: '' })
  const posted = await fetch(url, {
    method: 'POST',
    body: form,
    headers: { origin: hurt.stack.url, 'sec-fetch-site': 'same-origin' },
  })
  expect(posted.status).toBe(200)
  await delivered('pager', call, 'ended', 'sent')
  expect(came(call)[1]).toMatchObject({
    type: 'approval.ended',
    data: { recipient: 'ada', approval: { status: 'approved', answers: [{ by: 'ada', channel: 'link' }] } },
  })
  expect(came(call)[1]?.body).not.toContain('/approve/')
  expect(new Set(came(call).map(idOf)).size).toBe(2)
})

test('after an edit, approvers of the former arguments are asked again with a link for the new ones', async () => {
  await put('pager', { recipients: { roles: ['approver'], operators: [] } })
  const before = unwrap(await hurt.operator('readPolicies', {})).policies
  unwrap(await hurt.operator('putPolicies', { body: { policies: { ...before, two: ASKS_TWO } } }))
  const call = await ask()
  await delivered('pager', call, 'asked', 'sent')
  const changed = { decision: 'approve' as const, arguments: { mark: 'less' } }
  const { digest } = unwrap(
    await hurt.operator('answerApproval', { params: { id: approvalOf(call) }, body: changed }),
  )
  const [first, second] = await eventually(
    'it is asked again',
    () => came(call).length === 2 && came(call),
    30_000,
  )
  expect([second?.type, second?.data.recipient, second?.data.approval.digest]).toEqual([
    'approval.requested',
    'ada',
    digest,
  ])
  expect(idOf(second ?? { headers: {} })).not.toBe(idOf(first ?? { headers: {} }))
  const [old, now] = [first?.data.approval.url ?? '', second?.data.approval.url ?? '']
  expect([(await fetch(old)).status, (await fetch(now)).status]).toEqual([410, 200])
  unwrap(await hurt.operator('putPolicies', { body: { policies: before } }))
  unwrap(await hurt.operator('cancelRun', { params: { run: call.run } }))
  await delivered('pager', call, 'ended', 'sent')
  expect(came(call).length).toBe(3)
})

const dropped = async (name: string, call: Call) => (await delivered(name, call, 'asked', 'dropped')).why

test('P06 a channel that was replaced sends no links of its former recipients, and a deleted one asks nobody again', async () => {
  await put('pager', { after_s: 3, recipients: { roles: ['approver'], operators: [] } })
  await put('gone', { recipients: { roles: ['approver'], operators: [] } })
  const before = unwrap(await hurt.operator('readPolicies', {})).policies
  unwrap(await hurt.operator('putPolicies', { body: { policies: { ...before, two: ASKS_TWO } } }))
  const call = await ask()
  await eventually('it waits', async () => (await deliveries('pager', call)).length === 1)
  await put('pager', { url: `${receiver.url}/another`, after_s: 3 })
  expect(await dropped('pager', call)).toBe('the recipient is no longer a recipient of the channel')
  await delivered('gone', call, 'asked', 'sent')
  unwrap(await hurt.operator('deleteChannel', { params: { name: 'gone' } }))
  const changed = { decision: 'approve' as const, arguments: { mark: 'less' } }
  unwrap(await hurt.operator('answerApproval', { params: { id: approvalOf(call) }, body: changed }))
  unwrap(await hurt.operator('cancelRun', { params: { run: call.run } }))
  await put('gone', { url: `${receiver.url}/another` })
  const left = (await deliveries('gone', call)).map(({ state }) => state)
  expect(left.filter((state) => state !== 'dropped')).toEqual(['sent']) // the changed question may be sent, because the channel exists again
  expect(came(call).filter(({ path }) => path.includes('another'))).toEqual([])
  unwrap(await hurt.operator('putPolicies', { body: { policies: before } }))
})

test('an approver who has answered is not asked again, although others still are', async () => {
  await put('pager', { after_s: 4, recipients: { roles: ['approver'], operators: ['root'] } })
  const before = unwrap(await hurt.operator('readPolicies', {})).policies
  unwrap(await hurt.operator('putPolicies', { body: { policies: { ...before, two: ASKS_TWO } } }))
  const call = await ask()
  unwrap(await answer(call, 'approve'))
  expect(await dropped('pager', call)).toBe('the recipient has already answered')
  expect(await delivered('pager', call, 'asked', 'sent')).toMatchObject({ recipient: 'ada' })
  unwrap(await hurt.operator('cancelRun', { params: { run: call.run } }))
  unwrap(await hurt.operator('putPolicies', { body: { policies: before } }))
})

test('an approval that ended without a channel is not delivered to one that is set up later', async () => {
  await put('pager')
  receiver.reply = (response) => response.writeHead(410).end()
  const call = await ask()
  await delivered('pager', call, 'asked', 'failed')
  unwrap(await hurt.operator('deleteChannel', { params: { name: 'pager' } }))
  unwrap(await answer(call))
  await put('pager')
  const question = async () => (await deliveries('pager', call)).find(({ kind }) => kind === 'asked')
  await eventually(
    'the question is not tried again',
    async () => {
      const before = await question()
      unwrap(await hurt.operator('retryDeliveries', { params: { name: 'pager' } }))
      const now = await question()
      return now?.state !== 'due' && now?.changed_at_ms === before?.changed_at_ms
    },
    20_000,
  )
})

test('deliveries of approvals that ended over a week ago are deleted, later ones are kept', async () => {
  await put('pager')
  const [old, young] = [await ask(), await ask()]
  for (const call of [old, young]) {
    unwrap(await answer(call))
    await delivered('pager', call, 'ended', 'sent')
  }
  await strike(hurt.stack.edge)
  const db = fileOf('channel', hurt.stack.state.dir)
  const week_ms = LIMITS.delivery_days * 24 * 3_600_000
  expect(
    db.prepare('update approvals set ended_at = ended_at - ? where id = ?').run(week_ms, approvalOf(old))
      .changes,
  ).toBe(1)
  db.close()
  await revive(hurt.stack.edge)
  await put('other') // any request sets its alarm
  await eventually('it is forgotten', async () => (await deliveries('pager', old)).length === 0, 30_000)
  expect(await deliveries('pager', young)).toHaveLength(2)
})

test('an edge that is killed before the delivery, and again between two attempts, delivers under the same id', async () => {
  await put('pager')
  receiver.reply = (response) => response.writeHead(503).end()
  const call = await ask()
  await strike(hurt.stack.edge) // before the run has reported to its channels, or just after
  await revive(hurt.stack.edge)
  await eventually('an attempt', () => came(call).length > 0, 30_000)
  await eventually('a pause', async () =>
    (await deliveries('pager', call)).some(({ why }) => why === 'it answered 503'),
  )
  await strike(hurt.stack.edge)
  receiver.reply = taking
  const before = came(call).length
  await revive(hurt.stack.edge)
  await eventually('another attempt, woken by nobody', () => came(call).length > before, 30_000)
  await delivered('pager', call, 'asked', 'sent')
  expect(new Set(came(call).map(idOf)).size).toBe(1)
})

test('an attempt during which the edge is killed is repeated under the same id', async () => {
  await put('pager')
  receiver.reply = () => undefined // the request arrives and gets no answer
  const call = await ask()
  await eventually('an attempt', () => came(call).length === 1)
  await strike(hurt.stack.edge)
  receiver.reply = taking
  await revive(hurt.stack.edge)
  expect((await delivered('pager', call, 'asked', 'sent')).tries).toBe(2)
  expect(new Set(came(call).map(idOf)).size).toBe(1)
})

test('a second channel is used only if the first one is not answered in time', async () => {
  await put('now')
  await put('later', { after_s: 3 })
  const [quick, slow] = [await ask(), await ask()]
  await delivered('now', quick, 'asked', 'sent')
  unwrap(await answer(quick))
  await delivered('now', quick, 'ended', 'sent')
  const delivery = await delivered('later', slow, 'asked', 'sent')
  expect(came(slow).map(({ path }) => path.split('?')[0])).toEqual(['POST /now', 'POST /later'])
  expect((came(slow)[1]?.at ?? 0) - (came(slow)[0]?.data.approval.requested_at ?? 0)).toBeGreaterThanOrEqual(
    3_000,
  )
  expect(delivery.tries).toBe(1)
  // The delivery of the other approval was due before it.
  expect(await deliveries('later', quick)).toMatchObject([
    { kind: 'asked', state: 'dropped', tries: 0, why: 'the approval has ended' },
  ])
  expect(came(quick).map(({ path, type }) => `${path.split('?')[0]} ${type}`)).toEqual([
    'POST /now approval.requested',
    'POST /now approval.ended',
  ])
})

test('an approval that is answered while deliveries fail asks nobody else, and its end is delivered', async () => {
  await put('pager')
  receiver.reply = (response) => response.writeHead(500).end()
  const call = await ask()
  await eventually('an attempt', () => came(call).length > 0)
  unwrap(await answer(call))
  receiver.reply = taking
  await delivered('pager', call, 'ended', 'sent')
  expect(await delivered('pager', call, 'asked', 'dropped')).toMatchObject({ why: 'the approval has ended' })
  const types = came(call).map(({ type }) => type)
  expect(types.at(-1)).toBe('approval.ended')
  expect(types.indexOf('approval.ended')).toBe(types.length - 1)
})

test('N14 a delivery follows no redirect, reads no huge response, times out, gives up at 410, and is retried on an operator’s request', async () => {
  await put('strict') // a channel for which no other test has waiting messages
  receiver.reply = (response) => response.writeHead(307, { location: `${receiver.url}/elsewhere` }).end()
  const testResult = async () => unwrap(await hurt.operator('testChannel', { params: { name: 'strict' } }))
  expect(await testResult()).toEqual({ sent: false, why: 'it answered 307; redirects are not followed' })
  expect(receiver.came.filter(({ path }) => path.includes('elsewhere'))).toEqual([])
  receiver.reply = (response) => {
    response.writeHead(400, { 'content-type': 'text/plain' })
    const chunk = randomBytes(1 << 20).toString('base64')
    const more = () => {
      while (!response.destroyed && response.write(`INSIDE${chunk}`));
    }
    response.on('drain', more)
    more()
  }
  expect(await testResult()).toEqual({ sent: false, why: 'it answered 400' }) // reading the endless body would never finish
  receiver.reply = () => undefined
  expect((await testResult()).why).toMatch(/no answer within/)
  receiver.reply = (response) => response.writeHead(410).end()
  const call = await ask()
  expect(await delivered('strict', call, 'asked', 'failed')).toMatchObject({
    tries: 1,
    why: 'it answered 410',
  })
  receiver.reply = taking
  expect(unwrap(await hurt.operator('retryDeliveries', { params: { name: 'strict' } }))).toEqual({ due: 1 })
  await delivered('strict', call, 'asked', 'sent')
})

test('N14 a channel with a private address is refused', async () => {
  for (const url of [
    'http://127.0.0.2/',
    'https://169.254.169.254/',
    'https://localhost/',
    'https://a:b@example.com/',
    'http://example.com/',
  ]) {
    const done = await hurt.operator('putChannel', {
      params: { name: 'inside' },
      body: { kind: 'webhook', url, keys: [KEY] },
    })
    expect([url, done.ok ? 'taken' : done.error.code]).toEqual([url, 'channel_refused'])
  }
})

test('V02 a channel’s secrets are in no response, log or journal, and on disk only in its own object', async () => {
  const answers: unknown[] = [await put('pager'), unwrap(await hurt.operator('listChannels', {}))]
  const call = await ask()
  await delivered('pager', call, 'asked', 'sent')
  receiver.reply = (response) => response.writeHead(500).end(CANARY)
  unwrap(await answer(call))
  await eventually('a failed attempt', async () =>
    (await deliveries('pager', call)).some(({ why }) => why === 'it answered 500'),
  )
  // Nobody listens there, and the runtime logs the failed connection.
  await put('nobody', { url: `http://127.0.0.1:1/${CANARY}?t=${CANARY}` })
  answers.push(unwrap(await hurt.operator('testChannel', { params: { name: 'nobody' } })))
  expect(answers.at(-1)).toEqual({ sent: false, why: 'the receiver could not be reached' })
  const refused = await hurt.operator('putChannel', {
    params: { name: 'x' },
    body: { kind: 'webhook', url: `http://${CANARY}:${CANARY}@example.com/`, keys: [KEY] },
  })
  answers.push(await deliveries('pager', call), refused)
  const { items: journal } = unwrap(await hurt.agent('readJournal', { params: { run: call.run }, query: {} }))
  expect(JSON.stringify([answers, journal])).not.toContain(CANARY)
  expect(JSON.stringify(answers)).toContain(receiver.url) // control: the answers are about this channel
  const holds = hurt.filesWith(CANARY)
  expect(holds).not.toEqual([])
  for (const file of holds) expect(file).toMatch(/^edge\/objects\/countersign-channel\//)
})

test('a receiver that hangs delays only its own channel', async () => {
  const hanging = await WebhookReceiver.open()
  let [open, most] = [0, 0]
  hanging.reply = (response) => {
    open += 1
    most = Math.max(most, open)
    response.once('close', () => {
      open -= 1
    })
  }
  try {
    await put('slow', { url: hanging.url })
    await put('quick')
    const calls = await Promise.all(Array.from({ length: 12 }, ask))
    await Promise.all(calls.map((call) => delivered('quick', call, 'asked', 'sent', 8_000)))
    expect(most).toBe(8) // the limit of concurrent attempts
  } finally {
    await hanging.close()
  }
})
