// A Slack user answers as their operator, for the approval that they were shown, once. Every
// message of an ended approval shows the outcome and has no buttons.

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
  press,
  SECRET,
  type SlackMessage,
  send,
  TEAM,
  TOKEN,
} from '../../support/channels/fake-slack.ts'
import { eventually } from '../../support/eventually.ts'
import { Fixtures, unwrap } from '../../support/fixtures.ts'
import { RawRequest } from '../../support/http/raw-http.ts'
import { HurtStack } from '../../support/stack/hurt-stack.ts'

let slack: FakeSlack
let hurt: HurtStack
let fixtures: Fixtures
beforeAll(async () => {
  slack = await FakeSlack.open()
  hurt = await HurtStack.start({ loopbackChannels: slack.standIns })
  fixtures = new Fixtures('slack', hurt.stack.dev)
  for (const name of ['ann', 'bob']) await operator(name, ['approver'])
  await operator('eve', ['auditor'])
})
afterEach(async () => {
  for (const { name } of unwrap(await hurt.operator('listChannels', {})).items)
    unwrap(await hurt.operator('deleteChannel', { params: { name } }))
})
afterAll(async () => {
  await hurt?.stop()
  await slack?.close()
})

const operator = async (name: string, roles: string[]) =>
  unwrap(await hurt.operator('putOperator', { params: { name }, body: { roles } }))

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
  unwrap(await hurt.operator('putChannel', { params: { name }, body: { ...ROOM, ...change } }))
const idOf = ({ approval }: Call): string => approval?.id ?? ''
const approvalOf = async (call: Call): Promise<Approval> =>
  unwrap(await hurt.operator('readApproval', { params: { id: idOf(call) } }))

/** A pending approval, once it has this many messages. */
async function askInSlack(
  messages = 1,
  ask: () => Promise<Call> = () => hurt.propose('mark_asking', { mark: 'asked\n' }),
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
const headOf = ({ blocks }: SlackMessage): string => JSON.stringify(blocks.slice(0, 2))
/** Checks that each message of an approval shows its outcome and has no buttons. */
const replaced = (call: Call, outcome: string) => {
  const isOver = (one: SlackMessage): boolean => headOf(one).includes(outcome) && buttonsOf(one).size === 0
  const look = () => slack.about(call.id).length > 0 && slack.about(call.id).every(isOver)
  return eventually(`every message says: ${outcome}`, look, 30_000)
}
const waitForWhisper = (sentence: string) =>
  eventually(
    `somebody is told: ${sentence}`,
    () => slack.alone.some((text) => text.includes(sentence)),
    20_000,
  )

test('a Slack question can be answered with a form, and the outcome replaces every message of it', async () => {
  await room()
  await room('people', {
    recipients: { roles: ['approver'], operators: [] },
    users: { U0ANN: 'ann', U0BOB: 'bob' },
  })
  const session = { run: { session: fixtures.name() } }
  const propose = () =>
    hurt.agent('proposeCallInNewRun', {
      body: { tool: 'mark_asking', args: { mark: 'asked\n' }, ...session },
    })
  const { call, posted } = await askInSlack(3, async () => unwrap(await propose()))
  expect(posted.map(({ channel }) => channel).sort()).toEqual([CHANNEL, 'D0ANN', 'D0BOB'])
  const inRoom = posted.find(({ channel }) => channel === CHANNEL) ?? fail()
  // In a shared conversation everybody could use a link that decides; a direct message has the
  // personal one.
  const linkOf = (one: SlackMessage) => String(buttonsOf(one).get('page')?.['url'])
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
  // The call ran, its evidence names the channel, and the standing answer covers the next similar
  // call.
  const { state } = await hurt.ended(call)
  expect(state).toBe('succeeded')
  const evidence = unwrap(
    await hurt.operator('readAttestation', { params: { run: call.run, call: call.id } }),
  )
  const statement = JSON.parse(Buffer.from(evidence.envelope.payload, 'base64').toString()) as {
    predicate: { facts: unknown }
  } // the edge's type
  expect(statement.predicate.facts).toMatchObject({
    approval: { answers: [{ by: 'ann', channel: 'slack' }] },
  })
  const { items } = unwrap(await hurt.operator('readJournal', { params: { run: call.run }, query: {} }))
  expect(items.find(({ kind }) => kind === 'approved')?.body).toMatchObject({ by: 'ann', channel: 'slack' })
  expect(unwrap(await propose()).state).not.toBe('awaiting_approval')
  expect(unwrap(await hurt.operator('listStanding', {})).items).toMatchObject([
    { by: 'ann', assurance: 'slack' },
  ])
})

test('a Slack button answers once, even when pressed twice or replayed, and a late press shows the outcome', async () => {
  await room()
  const { call, first } = await askInSlack()
  const deny = press(first, 'deny')
  const at = Date.now()
  const both = await Promise.all([
    interact(hurt.stack.url, deny, { at }),
    interact(hurt.stack.url, deny, { at }),
  ])
  for (const { status, body, took } of both) expect([status, body, took < 3_000]).toEqual([200, null, true])
  await replaced(call, 'Denied by ann through slack')
  await waitForWhisper('the call is rejected')
  expect((await interact(hurt.stack.url, deny, { at })).status).toBe(200)
  expect(await approvalOf(call)).toMatchObject({
    status: 'denied',
    answers: [{ by: 'ann', decision: 'deny', channel: 'slack' }],
  })
  await replaced(call, 'Denied by ann through slack')
})

test('a press in Slack is acknowledged after 2 s (`slack_ack_ms`), and the work that it began continues', async () => {
  await room()
  const { first } = await askInSlack()
  const slow = Promise.withResolvers<void>()
  slack.instead = (response, method) => {
    if (method !== 'views.open') return false
    void slow.promise.then(() => response.end(JSON.stringify({ ok: false, error: 'expired_trigger_id' })))
    return true
  }
  const began = performance.now()
  expect((await interact(hurt.stack.url, press(first, 'more'))).status).toBe(200)
  const took = performance.now() - began
  expect([took >= 2_000, took < LIMITS.delivery_ms]).toEqual([true, true])
  slow.resolve()
  await waitForWhisper('the form did not open')
  slack.instead = () => false
})

test('P10 a Slack request that is forged, altered, old or from another app or workspace is refused and changes nothing', async () => {
  await room()
  const { call, first } = await askInSlack()
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

test('P10 a request without plausible Slack signature headers is refused before its body arrives', async () => {
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
  expect(await bodiless(now, wellFormed)).toBe(401) // the tenant has no Slack channel
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

test('P07 a Slack button is refused for another approval, use or channel', async () => {
  await room()
  await room('second')
  const one = await askInSlack(2)
  const other = await askInSlack(2)
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
  // The seal of a form is bound to its approval too.
  expect(
    (await interact(hurt.stack.url, send({ private_metadata: `${id}.form.${seal}` }, 'approve', null)))
      .status,
  ).toBe(401)
  // The buttons of a removed channel don't work for a new one of the same app.
  unwrap(await hurt.operator('deleteChannel', { params: { name: 'room' } }))
  unwrap(await hurt.operator('deleteChannel', { params: { name: 'second' } }))
  await room('third')
  expect((await pressing(value)).status).toBe(401)
  for (const { call } of [one, other]) expect((await approvalOf(call)).answers).toEqual([])
})

test('P09 a Slack user who is unmapped, no longer an operator, or not allowed to answer is refused with the reason', async () => {
  await room()
  const { call, first } = await askInSlack()
  for (const user of ['U0STRANGER', 'U0GONE', 'U0EVE', '__proto__', 'constructor']) {
    const before = slack.alone.length
    expect((await interact(hurt.stack.url, press(first, 'approve', { user }))).status).toBe(200)
    await eventually(`${user} is told`, () => slack.alone.length > before)
    expect(slack.alone.at(-1)).toMatch(/^you (?:may not answer here|may no longer answer)/)
  }
  await interact(hurt.stack.url, press(first, 'more', { user: 'U0BOB' }))
  const { view } = await eventually('a form', () => slack.views.at(-1))
  await operator('bob', ['auditor']) // between opening the form and answering
  const sent = await interact(hurt.stack.url, send(view, 'approve', null, { user: 'U0BOB' }))
  expect(sent).toMatchObject({
    status: 200,
    body: { response_action: 'errors', errors: { answer: 'you may no longer answer approvals' } },
  })
  expect((await approvalOf(call)).answers).toEqual([])
  await operator('bob', ['approver'])
  expect((await interact(hurt.stack.url, send(view, 'deny', null, { user: 'U0BOB' }))).body).toBeNull() // control
  await replaced(call, 'Denied by bob')
})

test('an answer given elsewhere replaces every Slack message of the approval', async () => {
  await room()
  await room('people', { recipients: { roles: [], operators: ['ann', 'bob'] } })
  const { call } = await askInSlack(3)
  unwrap(
    await hurt.operator('answerApproval', {
      params: { id: idOf(call) },
      body: { decision: 'deny', reason: 'no' },
    }),
  )
  await replaced(call, 'Denied by root through api')
})

test('the Slack message of a former operator loses its buttons when the approval ends', async () => {
  await operator('cid', ['approver'])
  await room('people', { recipients: { roles: [], operators: ['cid'] }, users: { U0CID: 'cid' } })
  const { call } = await askInSlack()
  unwrap(await hurt.operator('deleteOperator', { params: { name: 'cid' } }))
  unwrap(await hurt.operator('answerApproval', { params: { id: idOf(call) }, body: { decision: 'deny' } }))
  await replaced(call, 'Denied by root through api')
})

test('the Slack message of a cancelled or expired approval says so, and a later press changes nothing', async () => {
  await room()
  const cancelled = await askInSlack()
  const late = press(cancelled.first, 'approve')
  unwrap(await hurt.operator('cancelCall', { params: { run: cancelled.call.run, call: cancelled.call.id } }))
  await replaced(cancelled.call, 'Cancelled before it was decided')
  slack.messages.push({ ...cancelled.first, ts: '1.9', blocks: (late['message'] as SlackMessage).blocks }) // a copy that the outbox does not know
  await interact(hurt.stack.url, { ...late, response_url: 'https://hooks.slack.com/actions/1.9' })
  await waitForWhisper('the call was cancelled before enough people had answered')
  await replaced(cancelled.call, 'Cancelled before it was decided')
  const tool = await fixtures.tool({ sensitive: true, approval_ttl_s: 3 })
  const expired = await askInSlack(1, async () =>
    unwrap(await hurt.agent('proposeCallInNewRun', { body: { tool, args: {} } })),
  )
  await replaced(expired.call, 'Expired: not enough people answered in time')
  expect((await approvalOf(expired.call)).answers).toEqual([])
})

test('if two approvers are required, the first learns that more answers are needed, and the Slack message stays open', async () => {
  await room()
  const two = `@id("two") forbid (principal, action in Action::"tool.execute", resource) when { resource.sensitive && context.approval.count < 2 };`
  await fixtures.withPolicies({ two }, async () => {
    const { call, first } = await askInSlack()
    await interact(hurt.stack.url, press(first, 'approve'))
    await waitForWhisper('more answers are needed')
    expect(buttonsOf(first).size).toBeGreaterThan(0)
    await interact(hurt.stack.url, press(first, 'approve'))
    await waitForWhisper('you have already answered')
    await interact(hurt.stack.url, press(first, 'approve', { user: 'U0BOB' }))
    await replaced(call, 'Approved by bob')
    expect((await approvalOf(call)).answers).toMatchObject([{ by: 'ann' }, { by: 'bob' }])
  })
})

test('changed arguments replace the question in every Slack message, and the outcome leaves no buttons', async () => {
  await room()
  await room('people', {
    recipients: { roles: ['approver'], operators: [] },
    users: { U0ANN: 'ann', U0BOB: 'bob' },
  })
  const two = `@id("two") forbid (principal, action in Action::"tool.execute", resource) when { resource.sensitive && context.approval.count < 2 };`
  await fixtures.withPolicies({ two }, async () => {
    const { call, posted, first } = await askInSlack(3)
    const before = press(first, 'approve')
    const change = {
      decision: 'approve' as const,
      digest: (await approvalOf(call)).digest,
      arguments: { mark: 'changed\n' },
    }
    const { digest } = unwrap(
      await hurt.operator('answerApproval', { params: { id: idOf(call) }, body: change }),
    )
    const told = (one: SlackMessage) => JSON.stringify(one.blocks)
    await eventually(
      'each message asks again',
      () => posted.every((one) => told(one).includes(digest) && told(one).includes('Changed by root')),
      30_000,
    )
    expect([slack.about(call.id).length, posted.every((one) => buttonsOf(one).has('approve'))]).toEqual([
      3,
      true,
    ])
    expect((await interact(hurt.stack.url, before)).status).toBe(401) // its seal has the old digest
    await interact(hurt.stack.url, press(first, 'approve'))
    await replaced(call, 'Approved by ann through slack')
    expect(slack.about(call.id).length).toBe(3)
  })
})

test('if the Slack message of a question was deleted, changed arguments are asked about in a new one', async () => {
  await room()
  const two = `@id("two") forbid (principal, action in Action::"tool.execute", resource) when { resource.sensitive && context.approval.count < 2 };`
  await fixtures.withPolicies({ two }, async () => {
    const { call, first } = await askInSlack()
    slack.messages.splice(slack.messages.indexOf(first), 1)
    const change = {
      decision: 'approve' as const,
      digest: (await approvalOf(call)).digest,
      arguments: { mark: 'changed\n' },
    }
    unwrap(await hurt.operator('answerApproval', { params: { id: idOf(call) }, body: change }))
    await eventually(
      'another',
      () => slack.about(call.id).some((one) => JSON.stringify(one.blocks).includes('Changed by root')),
      30_000,
    )
    unwrap(await hurt.operator('cancelCall', { params: { run: call.run, call: call.id } }))
    await replaced(call, 'Cancelled before it was decided')
  })
})

test('where policy requires assurance `key`, a press in Slack leads to the console and the approval stays pending', async () => {
  await room()
  const surely = `@id("surely") forbid (principal, action in Action::"tool.execute", resource) when { resource.sensitive && context.approval.granted && context.approval.assurance != "key" };`
  await fixtures.withPolicies({ surely }, async () => {
    const { call, first } = await askInSlack()
    const elsewhere = 'policy accepts an approval of this call only in the console or on the command line'
    await interact(hurt.stack.url, press(first, 'approve'))
    await waitForWhisper(elsewhere)
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
    unwrap(
      await hurt.operator('answerApproval', { params: { id: idOf(call) }, body: { decision: 'approve' } }),
    ) // with the operator's key
    await replaced(call, 'Approved by root through api')
  })
})

test('a Slack webhook gets one message that leads to the console and another one with the outcome', async () => {
  unwrap(
    await hurt.operator('putChannel', {
      params: { name: 'hook' },
      body: { kind: 'slack-webhook', webhook_url: 'https://hooks.slack.com/services/T0/B0/CANARY' },
    }),
  )
  const { call, first } = await askInSlack()
  expect([...buttonsOf(first).keys()]).toEqual(['page'])
  expect(JSON.stringify(first)).not.toContain('/approve/')
  unwrap(await hurt.operator('answerApproval', { params: { id: idOf(call) }, body: { decision: 'deny' } }))
  await eventually(
    'the end',
    () => slack.about(call.id).some((one) => headOf(one).includes('Denied by root')),
    20_000,
  )
})
