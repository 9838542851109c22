// Promise: whatever dies or is slow, here or at Slack, an approval is posted, every known message
// shows how it ended, and a person who pressed a button is answered while Slack waits. Secrets of
// the channel are in no response, log or journal.

import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import type { Call } from '../../../shared/wire/calls.ts'
import type { Delivery } from '../../../shared/wire/channels.ts'
import {
  APP,
  buttonsOf,
  CHANNEL,
  FakeSlack,
  faultIn,
  interact,
  press,
  SECRET,
  type SlackMessage,
  send,
  TEAM,
  TOKEN,
} from '../../support/channels/fake-slack.ts'
import { eventually } from '../../support/eventually.ts'
import { unwrap } from '../../support/fixtures.ts'
import { HurtStack, insist, revive, strike } from '../../support/stack/hurt-stack.ts'
import { SHORT_DELIVERIES } from '../../support/stack/other-limits.ts'

let slack: FakeSlack
let hurt: HurtStack
beforeAll(async () => {
  slack = await FakeSlack.open()
  hurt = await HurtStack.start({
    worker: 'idle',
    loopbackChannels: slack.standIns,
    limits: SHORT_DELIVERIES,
  })
  unwrap(await hurt.operator('putOperator', { params: { name: 'ann' }, body: { roles: ['approver'] } }))
  const body = {
    kind: 'slack' as const,
    bot_token: TOKEN,
    signing_secret: SECRET,
    app_id: APP,
    team_id: TEAM,
    channel: CHANNEL,
    users: { U0ANN: 'ann' },
  }
  unwrap(await hurt.operator('putChannel', { params: { name: 'room' }, body }))
})
afterEach(() => {
  slack.instead = () => false
})
afterAll(async () => {
  await hurt?.stop()
  await slack?.close()
})

const ask = (mark = 'asked\n') => hurt.propose('mark_asking', { mark })
const posted = (call: Call): Promise<SlackMessage> =>
  eventually('a message', () => slack.about(call.id)[0], 60_000)
const isOver = (one: SlackMessage, outcome: string): boolean =>
  JSON.stringify(one.blocks.slice(0, 2)).includes(outcome) && buttonsOf(one).size === 0
const over = (call: Call, outcome: string) =>
  eventually(
    `all messages say: ${outcome}`,
    () => slack.about(call.id).length > 0 && slack.about(call.id).every((one) => isOver(one, outcome)),
    60_000,
  )
const answer = (call: Call) =>
  insist(() =>
    hurt.operator('answerApproval', { params: { id: call.approval?.id ?? '' }, body: { decision: 'deny' } }),
  )
const delivery = (call: Call, kind: Delivery['kind'], is: (one: Delivery) => boolean): Promise<Delivery> =>
  eventually(
    `a delivery of what was ${kind}`,
    async () => {
      const { items } = unwrap(
        await insist(() => hurt.operator('listDeliveries', { params: { name: 'room' }, query: {} })),
      )
      return items.find((one) => one.approval === call.approval?.id && one.kind === kind && is(one))
    },
    60_000,
  )

test('an edge that is killed before the post, before the answer and before the update still posts, takes the answer and updates every message', async () => {
  slack.instead = (response) => response.writeHead(503).end() !== undefined
  const call = await ask()
  await delivery(call, 'asked', ({ why }) => why === 'it answered 503')
  await strike(hurt.stack.edge)
  slack.instead = () => false
  await revive(hurt.stack.edge)
  const message = await posted(call)
  await delivery(call, 'asked', ({ state }) => state === 'sent')

  await strike(hurt.stack.edge)
  await revive(hurt.stack.edge)
  slack.instead = (response, method) =>
    method === 'chat.update' && response.writeHead(503).end() !== undefined
  const yes = { ...press(message, 'approve'), response_url: undefined } // so that only the outbox reports the end
  expect((await interact(hurt.stack.url, yes)).status).toBe(200)
  await delivery(call, 'ended', ({ why }) => why === 'it answered 503')
  await strike(hurt.stack.edge)
  slack.instead = () => false
  await revive(hurt.stack.edge)
  await over(call, 'Approved by ann through slack')
})

test('a lost response of Slack leads to a second message, and both messages show the end', async () => {
  let lost = 0
  // It posts the message, but its response is lost.
  slack.instead = (response, method) => {
    if (method !== 'chat.postMessage' || lost > 0) return false
    lost++
    response.writeHead(502).end()
    return true
  }
  const call = await ask()
  const known = await posted(call)
  const copy: SlackMessage = { ...known, ts: '1.77', edits: 0 }
  slack.messages.push(copy)
  expect((await interact(hurt.stack.url, press(copy, 'deny'))).status).toBe(200)
  await over(call, 'Denied by ann through slack')
  expect(slack.about(call.id)).toHaveLength(2)
})

test('Slack’s rate limit is respected: no request is sent before the time that it names', async () => {
  const before = slack.calls.length
  slack.instead = (response, method, count) => {
    const first =
      method === 'chat.postMessage' &&
      slack.calls.slice(before).filter((one) => one.method === method).length === 1
    if (first)
      response
        .writeHead(429, { 'retry-after': '2' })
        .end(JSON.stringify({ ok: false, error: 'ratelimited', count }))
    return first
  }
  const call = await ask()
  await posted(call)
  const [refused, taken] = slack.calls.slice(before).filter(({ method }) => method === 'chat.postMessage')
  expect((taken?.at ?? 0) - (refused?.at ?? 0)).toBeGreaterThanOrEqual(2_000) // longer than the pause after any other failure
  unwrap(await answer(call))
  await over(call, 'Denied by root')
})

test('while Slack accepts one message a second and refuses all others, every approval is posted in the end', async () => {
  let takes = 0
  let refused = 0
  slack.instead = (response, method) => {
    if (method !== 'chat.postMessage') return false
    if (Date.now() < takes) {
      refused++
      response.writeHead(429, { 'retry-after': '1' }).end('{"ok":false,"error":"ratelimited"}')
      return true
    }
    takes = Date.now() + 1_000
    return false
  }
  const calls = await Promise.all(Array.from({ length: 12 }, (_, i) => ask(`storm ${i}\n`)))
  // The edge gets no request in the meantime, so only its alarm wakes it.
  await eventually('all messages', () => calls.every((call) => slack.about(call.id).length > 0), 120_000)
  expect(refused).toBeLessThan(2 * calls.length) // Slack asks for pauses and gets them: after the first burst at most one refusal for each accepted message
  const { items } = unwrap(await hurt.operator('listDeliveries', { params: { name: 'room' }, query: {} }))
  const ours = items.filter(({ approval }) => calls.some((call) => call.approval?.id === approval))
  expect(ours.map(({ state, tries }) => [state, tries])).toEqual(calls.map(() => ['sent', 1])) // refused requests do not count as tries
}, 180_000)

test('a refusal of Slack is shown by its name and retried, and the post succeeds once the cause is fixed', async () => {
  slack.instead = (response, method) => {
    if (method === 'chat.postMessage')
      response
        .writeHead(200, { 'content-type': 'application/json' })
        .end('{"ok":false,"error":"not_in_channel"}')
    return method === 'chat.postMessage'
  }
  const call = await ask()
  await delivery(
    call,
    'asked',
    ({ state, why }) => state === 'due' && why === 'Slack refused it: `not_in_channel`',
  )
  slack.instead = () => false
  await posted(call)
  // A deleted message does not affect others.
  slack.messages.length = 0
  unwrap(await answer(call))
  expect(await delivery(call, 'ended', ({ state }) => state === 'failed')).toMatchObject({
    tries: 1,
    why: 'Slack refused it: `message_not_found`',
  })
})

test('if Slack hangs, a person who pressed a button still gets a timely response that says what failed', async () => {
  const call = await ask()
  const message = await posted(call)
  slack.instead = (_, method) => method === 'views.open' // the request arrives and gets no answer
  const pressed = await interact(hurt.stack.url, press(message, 'more'))
  expect([pressed.status, pressed.took < 3_000]).toEqual([200, true])
  await eventually(
    'the word',
    () => slack.alone.some((text) => text.startsWith('the form did not open: no answer within')),
    30_000,
  )
  slack.instead = () => false
  await interact(hurt.stack.url, press(message, 'more'))
  const { view } = await eventually('a form', () => slack.views.at(-1))
  const sent = await interact(hurt.stack.url, send(view, 'deny', 'no'))
  expect([sent.body, sent.took < 3_000]).toEqual([null, true])
  await over(call, 'Denied by ann through slack')
})

test('G09 hostile arguments stay inside their block in every message, and Slack’s rules accept them', async () => {
  const hostile = '```\n<!channel> <@U0ANN> <https://evil.example|Approve> *x* \u202egpj.exe &lt;'
  const call = await ask(`${hostile}${'漢'.repeat(5_000)}`)
  const message = await posted(call)
  const text = JSON.stringify(message.blocks)
  expect(faultIn(message.blocks, 50)).toBeUndefined()
  expect(text).toContain('<!channel> <@U0ANN> <https://evil.example|Approve> *x* ')
  expect(text).not.toContain('\u202e')
  expect(message.text).not.toMatch(/[<>]/)
  expect(text).not.toContain('"mrkdwn"')
  unwrap(await answer(call))
  await over(call, 'Denied by root')
  expect(faultIn(slack.about(call.id)[0]?.blocks, 50)).toBeUndefined()
})

test('V02 Slack’s token and signing secret are in no response, log or journal, and on disk only in the channels’ object', async () => {
  const call = await ask()
  const message = await posted(call)
  const answers: unknown[] = [
    unwrap(await hurt.operator('listChannels', {})),
    message,
    await interact(hurt.stack.url, press(message, 'deny', { app: 'A0OTHER' })),
  ]
  slack.instead = (response) => response.writeHead(500).end(`${TOKEN} ${SECRET}`) !== undefined
  unwrap(await answer(call))
  answers.push(await delivery(call, 'ended', ({ why }) => why === 'it answered 500'))
  const { items } = unwrap(await hurt.operator('readJournal', { params: { run: call.run }, query: {} }))
  for (const secret of [TOKEN, SECRET]) {
    expect(JSON.stringify([answers, items])).not.toContain(secret)
    const holds = hurt.filesWith(secret)
    expect(holds).not.toEqual([])
    for (const file of holds) expect(file).toMatch(/^edge\/objects\/countersign-channel\//)
  }
  expect(slack.calls.every(({ authorization }) => authorization === `Bearer ${TOKEN}`)).toBe(true) // control: this token was used
})
