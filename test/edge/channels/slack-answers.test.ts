// Whoever answers in Slack answers as the operator that they are, about the approval that they were shown, and once. Every message of an
// approval that has ended says so and can't be pressed, whoever ended it and wherever.

import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { LIMITS } from '../../../shared/limits.ts'
import type { Approval } from '../../../shared/wire/approvals.ts'
import type { Call } from '../../../shared/wire/calls.ts'
import type { ChannelSpec } from '../../../shared/wire/channels.ts'
import {
  APP,
  buttonsOf,
  CHANNEL,
  FakeSlack,
  interact,
  type Posted,
  press,
  SECRET,
  send,
  TEAM,
  TOKEN,
} from '../../support/channels/fake-slack.ts'
import { Desk } from '../../support/fixtures.ts'
import { RawRequest } from '../../support/http/raw-http.ts'
import { eventually, HurtStack, must } from '../../support/stack/hurt-stack.ts'

let slack: FakeSlack
let hurt: HurtStack
let desk: Desk
beforeAll(async () => {
  slack = await FakeSlack.open()
  hurt = await HurtStack.start({ loopbackChannels: slack.standIns })
  desk = new Desk('slack', hurt.stack.dev)
  for (const name of ['ann', 'bob']) await operator(name, ['approver'])
  await operator('eve', ['auditor'])
})
afterEach(async () => {
  for (const { name } of must(await hurt.operator('listChannels', {})).items)
    must(await hurt.operator('deleteChannel', { params: { name } }))
})
afterAll(async () => {
  await hurt?.stop()
  await slack?.close()
})

const operator = async (name: string, roles: string[]) =>
  must(await hurt.operator('putOperator', { params: { name }, body: { roles } }))

type Change = Partial<Omit<Extract<ChannelSpec, { kind: 'slack' }>, 'kind'>>
const ROOM = {
  kind: 'slack' as const,
  bot_token: TOKEN,
  signing_secret: SECRET,
  app_id: APP,
  team_id: TEAM,
  users: { U0ANN: 'ann', U0BOB: 'bob', U0EVE: 'eve', U0GONE: 'nobody' },
}
const room = async (name = 'room', change: Change = { channel: CHANNEL }) =>
  must(await hurt.operator('putChannel', { params: { name }, body: { ...ROOM, ...change } }))
const idOf = ({ approval }: Call): string => approval?.id ?? ''
const approvalOf = async (call: Call): Promise<Approval> =>
  must(await hurt.operator('readApproval', { params: { id: idOf(call) } }))

/** An approval that is asked about, once that many messages tell of it. */
async function asked(
  messages = 1,
  ask: () => Promise<Call> = () => hurt.propose('mark.asking', { mark: 'asked\n' }),
) {
  const call = await ask()
  const posted = await eventually(
    `${messages} messages`,
    () => slack.about(call.id).length >= messages && slack.about(call.id),
    30_000,
  )
  return { call, posted, first: posted[0] ?? fail() }
}
const fail = (): never => {
  throw new Error('nothing was posted')
}
const headOf = ({ blocks }: Posted): string => JSON.stringify(blocks.slice(0, 2))
/** Each of its messages says how it ended, and has nothing to press. */
const replaced = (call: Call, outcome: string) => {
  const isOver = (one: Posted): boolean => headOf(one).includes(outcome) && buttonsOf(one).size === 0
  const look = () => slack.about(call.id).length > 0 && slack.about(call.id).every(isOver)
  return eventually(`every message says: ${outcome}`, look, 30_000)
}
const told = (sentence: string) =>
  eventually(
    `somebody is told: ${sentence}`,
    () => slack.alone.some((text) => text.includes(sentence)),
    20_000,
  )

test('the whole way: asked in a room and in person, a form with scope and reason, and the outcome in the place of every message', async () => {
  await room()
  await room('people', {
    recipients: { roles: ['approver'], operators: [] },
    users: { U0ANN: 'ann', U0BOB: 'bob' },
  })
  const session = { run: { session: desk.name() } }
  const propose = () =>
    hurt.agent('proposeCallInNewRun', {
      body: { tool: 'mark.asking', args: { mark: 'asked\n' }, ...session },
    })
  const { call, posted } = await asked(3, async () => must(await propose()))
  expect(posted.map(({ channel }) => channel).sort()).toEqual([CHANNEL, 'D0ANN', 'D0BOB'])
  const inRoom = posted.find(({ channel }) => channel === CHANNEL) ?? fail()
  // In a room a link that decides would be everybody's; in person it is theirs.
  const linkOf = (one: Posted) => String(buttonsOf(one).get('page')?.['url'])
  expect(linkOf(inRoom)).toBe(`${hurt.stack.url}/console/approvals/${idOf(call)}`)
  for (const one of posted.filter(({ channel }) => channel !== CHANNEL))
    expect(linkOf(one)).toContain('/approve/')

  expect(await interact(hurt.stack.url, press(inRoom, 'more'))).toMatchObject({ status: 200, body: null })
  const { view } = await eventually('a form', () => slack.views.at(-1), 20_000)
  expect(JSON.stringify(view)).toContain('very call of ')
  expect((await approvalOf(call)).status).toBe('pending')
  expect(await interact(hurt.stack.url, send(view, 'approve 600', 'fine\nby me'))).toMatchObject({
    status: 200,
    body: null,
  })
  await replaced(call, 'Approved by ann through slack')
  expect(await approvalOf(call)).toMatchObject({
    status: 'approved',
    answers: [
      {
        by: 'ann',
        decision: 'approve',
        channel: 'slack',
        scope: 'timeboxed',
        ttl_s: 600,
        reason: 'fine\nby me',
      },
    ],
  })
  // It ran, its evidence names the way, and the same answer holds for the next of its kind.
  const { state } = await hurt.ended(call)
  expect(state).toBe('succeeded')
  const evidence = must(await hurt.operator('readAttestation', { params: { run: call.run, call: call.id } }))
  const statement = JSON.parse(Buffer.from(evidence.envelope.payload, 'base64').toString()) as {
    predicate: { facts: unknown }
  } // the edge's
  expect(statement.predicate.facts).toMatchObject({
    approval: { answers: [{ by: 'ann', channel: 'slack' }] },
  })
  const { items } = must(await hurt.operator('readJournal', { params: { run: call.run }, query: {} }))
  expect(items.find(({ kind }) => kind === 'approved')?.body).toMatchObject({ by: 'ann', channel: 'slack' })
  expect(must(await propose()).state).not.toBe('awaiting_approval')
  expect(must(await hurt.operator('listStanding', {})).items).toMatchObject([
    { by: 'ann', assurance: 'slack' },
  ])
})

test('a press answers at once; pressed twice, or sent again, it is one answer, and whoever comes late is told', async () => {
  await room()
  const { call, first } = await asked()
  const deny = press(first, 'deny')
  const at = Date.now()
  const both = await Promise.all([
    interact(hurt.stack.url, deny, { at }),
    interact(hurt.stack.url, deny, { at }),
  ])
  for (const { status, body, took } of both) expect([status, body, took < 3_000]).toEqual([200, null, true])
  await replaced(call, 'Denied by ann through slack')
  await told('the call is rejected')
  expect((await interact(hurt.stack.url, deny, { at })).status).toBe(200)
  expect(await approvalOf(call)).toMatchObject({
    status: 'denied',
    answers: [{ by: 'ann', decision: 'deny', channel: 'slack' }],
  })
  await replaced(call, 'Denied by ann through slack')
})

test('P10 forged, altered, old, of another app or workspace: refused, whoever it names, and nothing changes', async () => {
  await room()
  const { call, first } = await asked()
  const yes = press(first, 'approve')
  const minutes = (n: number) => Date.now() + n * 60_000
  const tried = [
    await interact(hurt.stack.url, yes, { signature: '' }),
    await interact(hurt.stack.url, yes, { signature: `v0=${'0'.repeat(64)}` }),
    await interact(hurt.stack.url, yes, { secret: `${SECRET}0` }),
    await interact(hurt.stack.url, press(first, 'deny'), {
      change: () => new URLSearchParams({ payload: JSON.stringify(yes) }).toString(),
    }),
    await interact(hurt.stack.url, yes, { change: (body) => `${body}&x=` }),
    await interact(hurt.stack.url, yes, { at: minutes(-6) }),
    await interact(hurt.stack.url, yes, { at: minutes(6) }),
    await interact(hurt.stack.url, press(first, 'approve', { team: 'T0OTHER' })),
    await interact(hurt.stack.url, press(first, 'approve', { home: 'T0OTHER' })),
    await interact(hurt.stack.url, press(first, 'approve', { app: 'A0OTHER' })),
    await interact(hurt.stack.url, yes, { tenant: 'other' }),
  ]
  for (const { status, body } of tried) expect([status, body?.['code']]).toEqual([401, 'slack_refused'])
  const huge = await interact(hurt.stack.url, yes, {
    change: (body) => body + 'x'.repeat(LIMITS.slack_body_bytes),
  })
  expect(huge.status).toBe(413)
  expect((await approvalOf(call)).answers).toEqual([])
  expect((await interact(hurt.stack.url, yes)).status).toBe(200) // control
  await replaced(call, 'Approved by ann')
})

test('P10 what can’t be Slack’s is refused before its body is there', async () => {
  const now = String(Math.floor(Date.now() / 1000))
  const bodiless = async (timestamp: string, signature: string): Promise<number | undefined> => {
    const request = new RawRequest(hurt.stack.url)
    const headers = [
      `x-slack-request-timestamp: ${timestamp}`,
      `x-slack-signature: ${signature}`,
      'content-length: 400000',
    ]
    request.head('POST', '/v1/channels/slack/interactions', [
      ...headers,
      'content-type: application/x-www-form-urlencoded',
    ])
    const { status } = await request.answered(LIMITS.body_ms / 2)
    request.end()
    return status
  }
  const wellFormed = `v0=${'0'.repeat(64)}`
  expect(await bodiless(now, wellFormed)).toBe(401) // the tenant has no channel to Slack
  await room()
  for (const signature of [
    '',
    'v0=',
    `${wellFormed}0`,
    wellFormed.replace('v0', 'v1'),
    wellFormed.toUpperCase(),
  ])
    expect([signature, await bodiless(now, signature)]).toEqual([signature, 401])
  for (const timestamp of ['', 'x', '0', String(Number(now) - 600), String(Number(now) + 600)])
    expect([timestamp, await bodiless(timestamp, wellFormed)]).toEqual([timestamp, 401])
})

test('P07 a button is of its approval, its word and its channel: with any of them another it is refused', async () => {
  await room()
  await room('second')
  const one = await asked(2)
  const other = await asked(2)
  const value = String(buttonsOf(one.first).get('approve')?.['value'])
  const [id = '', word = '', seal = ''] = value.split('.')
  const sealOf = (button: string) => String(buttonsOf(one.first).get(button)?.['value']).split('.')[2] ?? ''
  const pressing = (changed: string) => {
    const pressed = press(one.first, 'approve')
    return interact(hurt.stack.url, { ...pressed, actions: [{ action_id: 'approve', value: changed }] })
  }
  const flipped = `${seal.slice(0, -2)}${seal.at(-2) === 'A' ? 'B' : 'A'}${seal.at(-1)}`
  for (const changed of [
    `${idOf(other.call)}.${word}.${seal}`,
    `${id}.approve.${sealOf('deny')}`,
    `${id}.deny.${seal}`,
    `${id}.approve.${sealOf('more')}`,
    `${id}.${word}.${flipped}`,
    `${id}.${word}.${seal.toLowerCase()}`,
    `apr_${'0'.repeat(26)}_1.${word}.${seal}`,
  ])
    expect([changed, (await pressing(changed)).status]).toEqual([changed, 401])
  // A form is sealed too: that of one approval says nothing of another.
  expect(
    (await interact(hurt.stack.url, send({ private_metadata: `${id}.form.${seal}` }, 'approve', null)))
      .status,
  ).toBe(401)
  // A channel that took the place of another, of the same app, did not make these.
  must(await hurt.operator('deleteChannel', { params: { name: 'room' } }))
  must(await hurt.operator('deleteChannel', { params: { name: 'second' } }))
  await room('third')
  expect((await pressing(value)).status).toBe(401)
  for (const { call } of [one, other]) expect((await approvalOf(call)).answers).toEqual([])
})

test('P09 somebody whom the channel does not name, who is no operator any more, or whom policy does not let: told so, and nothing changes', async () => {
  await room()
  const { call, first } = await asked()
  for (const user of ['U0STRANGER', 'U0GONE', 'U0EVE', '__proto__', 'constructor']) {
    const before = slack.alone.length
    expect((await interact(hurt.stack.url, press(first, 'approve', { user }))).status).toBe(200)
    await eventually(`${user} is told`, () => slack.alone.length > before)
    expect(slack.alone.at(-1)).toMatch(/^you (?:are not among|may not answer)/)
  }
  await interact(hurt.stack.url, press(first, 'more', { user: 'U0BOB' }))
  const { view } = await eventually('a form', () => slack.views.at(-1))
  await operator('bob', ['auditor']) // between the form and the answer
  const sent = await interact(hurt.stack.url, send(view, 'approve', null, { user: 'U0BOB' }))
  expect(sent).toMatchObject({
    status: 200,
    body: { response_action: 'errors', errors: { answer: 'you may not answer approvals any more' } },
  })
  expect((await approvalOf(call)).answers).toEqual([])
  await operator('bob', ['approver'])
  expect((await interact(hurt.stack.url, send(view, 'deny', null, { user: 'U0BOB' }))).body).toBeNull() // control
  await replaced(call, 'Denied by bob')
})

test('answered elsewhere: every message is replaced, in the room and in person', async () => {
  await room()
  await room('people', { recipients: { roles: [], operators: ['ann', 'bob'] } })
  const { call } = await asked(3)
  must(
    await hurt.operator('answerApproval', {
      params: { id: idOf(call) },
      body: { decision: 'deny', reason: 'no' },
    }),
  )
  await replaced(call, 'Denied by root through api')
})

test('the message of a recipient who is no operator any more can’t be pressed either', async () => {
  await operator('cid', ['approver'])
  await room('people', { recipients: { roles: [], operators: ['cid'] }, users: { U0CID: 'cid' } })
  const { call } = await asked()
  must(await hurt.operator('deleteOperator', { params: { name: 'cid' } }))
  must(await hurt.operator('answerApproval', { params: { id: idOf(call) }, body: { decision: 'deny' } }))
  await replaced(call, 'Denied by root through api')
})

test('cancelled or expired, the message says so; a press that comes after is told, and changes nothing', async () => {
  await room()
  const cancelled = await asked()
  const late = press(cancelled.first, 'approve')
  must(await hurt.operator('cancelCall', { params: { run: cancelled.call.run, call: cancelled.call.id } }))
  await replaced(cancelled.call, 'Cancelled before it was decided')
  slack.messages.push({ ...cancelled.first, ts: '1.9', blocks: (late['message'] as Posted).blocks }) // a copy that we know nothing of
  await interact(hurt.stack.url, { ...late, response_url: 'https://hooks.slack.com/actions/1.9' })
  await told('the call was cancelled before enough people had answered')
  await replaced(cancelled.call, 'Cancelled before it was decided')
  const tool = await desk.tool({ sensitive: true, approval_ttl_s: 3 })
  const expired = await asked(1, async () =>
    must(await hurt.agent('proposeCallInNewRun', { body: { tool, args: {} } })),
  )
  await replaced(expired.call, 'Expired: not enough people answered in time')
  expect((await approvalOf(expired.call)).answers).toEqual([])
})

test('where two have to say yes, the first is told that others are asked, and the message stays open for the second', async () => {
  await room()
  const two = `@id("two") forbid (principal, action in Action::"tool.execute", resource) when { resource.sensitive && context.approval.count < 2 };`
  await desk.withPolicies({ two }, async () => {
    const { call, first } = await asked()
    await interact(hurt.stack.url, press(first, 'approve'))
    await told('others are still asked')
    expect(buttonsOf(first).size).toBeGreaterThan(0)
    await interact(hurt.stack.url, press(first, 'approve'))
    await told('you have answered before')
    await interact(hurt.stack.url, press(first, 'approve', { user: 'U0BOB' }))
    await replaced(call, 'Approved by bob')
    expect((await approvalOf(call)).answers).toMatchObject([{ by: 'ann' }, { by: 'bob' }])
  })
})

test('changed arguments are asked about in the place of the question, in the room and in person; at the end nothing can be pressed', async () => {
  await room()
  await room('people', {
    recipients: { roles: ['approver'], operators: [] },
    users: { U0ANN: 'ann', U0BOB: 'bob' },
  })
  const two = `@id("two") forbid (principal, action in Action::"tool.execute", resource) when { resource.sensitive && context.approval.count < 2 };`
  await desk.withPolicies({ two }, async () => {
    const { call, posted, first } = await asked(3)
    const before = press(first, 'approve')
    const change = {
      decision: 'approve' as const,
      digest: (await approvalOf(call)).digest,
      arguments: { mark: 'changed\n' },
    }
    const { digest } = must(
      await hurt.operator('answerApproval', { params: { id: idOf(call) }, body: change }),
    )
    const told = (one: Posted) => JSON.stringify(one.blocks)
    await eventually(
      'each asks anew',
      () => posted.every((one) => told(one).includes(digest) && told(one).includes('Changed by root')),
      30_000,
    )
    expect([slack.about(call.id).length, posted.every((one) => buttonsOf(one).has('approve'))]).toEqual([
      3,
      true,
    ])
    expect((await interact(hurt.stack.url, before)).status).toBe(401) // it was about something else
    await interact(hurt.stack.url, press(first, 'approve'))
    await replaced(call, 'Approved by ann through slack')
    expect(slack.about(call.id).length).toBe(3)
  })
})

test('the message of the question was deleted: changed arguments are asked about in another', async () => {
  await room()
  const two = `@id("two") forbid (principal, action in Action::"tool.execute", resource) when { resource.sensitive && context.approval.count < 2 };`
  await desk.withPolicies({ two }, async () => {
    const { call, first } = await asked()
    slack.messages.splice(slack.messages.indexOf(first), 1)
    const change = {
      decision: 'approve' as const,
      digest: (await approvalOf(call)).digest,
      arguments: { mark: 'changed\n' },
    }
    must(await hurt.operator('answerApproval', { params: { id: idOf(call) }, body: change }))
    await eventually(
      'another',
      () => slack.about(call.id).some((one) => JSON.stringify(one.blocks).includes('Changed by root')),
      30_000,
    )
    must(await hurt.operator('cancelCall', { params: { run: call.run, call: call.id } }))
    await replaced(call, 'Cancelled before it was decided')
  })
})

test('a policy may want more than Slack’s word: who presses is told where to answer, and the question stays', async () => {
  await room()
  const surely = `@id("surely") forbid (principal, action in Action::"tool.execute", resource) when { resource.sensitive && context.approval.granted && context.approval.assurance != "key" };`
  await desk.withPolicies({ surely }, async () => {
    const { call, first } = await asked()
    const elsewhere = 'policy accepts an approval of this call only in the console or on the command line'
    await interact(hurt.stack.url, press(first, 'approve'))
    await told(elsewhere)
    await interact(hurt.stack.url, press(first, 'more'))
    const { view } = await eventually(
      'a form',
      () => slack.views.find((one) => JSON.stringify(one).includes(idOf(call))),
      20_000,
    )
    for (const answer of ['approve', 'approve session'])
      expect(JSON.stringify((await interact(hurt.stack.url, send(view, answer, null))).body)).toContain(
        elsewhere,
      )
    expect(await approvalOf(call)).toMatchObject({ status: 'pending', answers: [] })
    expect(buttonsOf(first).has('approve')).toBe(true)
    must(await hurt.operator('answerApproval', { params: { id: idOf(call) }, body: { decision: 'approve' } })) // with a key
    await replaced(call, 'Approved by root through api')
  })
})

test('only a webhook of Slack: a message that leads to the console, where one signs in, and another that tells the end', async () => {
  must(
    await hurt.operator('putChannel', {
      params: { name: 'hook' },
      body: { kind: 'slack-webhook', webhook_url: 'https://hooks.slack.com/services/T0/B0/CANARY' },
    }),
  )
  const { call, first } = await asked()
  expect([...buttonsOf(first).keys()]).toEqual(['page'])
  expect(JSON.stringify(first)).not.toContain('/approve/')
  must(await hurt.operator('answerApproval', { params: { id: idOf(call) }, body: { decision: 'deny' } }))
  await eventually(
    'the end',
    () => slack.about(call.id).some((one) => headOf(one).includes('Denied by root')),
    20_000,
  )
})
