// Promise: a skill's post reaches the people of a channel that accepts notices, exactly once, even
// across crashes. It names its origin, shows no secret, delays no question, and is limited in
// number.

import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { DEFAULT_SKILL_LIMITS, LIMITS } from '../../../../shared/limits.ts'
import type { Call } from '../../../../shared/wire/calls.ts'
import type { ChannelSpec, Delivery } from '../../../../shared/wire/channels.ts'
import { signedBy, taking, WebhookReceiver } from '../../../support/channels/webhook-receiver.ts'
import { eventually } from '../../../support/eventually.ts'
import { unwrap } from '../../../support/fixtures.ts'
import { Publisher, type Unbound } from '../../../support/skills/skill.ts'
import {
  argumentsOf,
  postingSkill,
  type StorageOperation,
  WAITS_FOR,
  waitingPostingSkill,
} from '../../../support/skills/storage-skill.ts'
import { HurtStack, insist, revive, strike, type Wish } from '../../../support/stack/hurt-stack.ts'
import { fileOf } from '../../../support/stack/object-file.ts'

const KEY = `whsec_${'A'.repeat(44)}`
const acme = new Publisher('acme')
let hurt: HurtStack
let receiver: WebhookReceiver
let code: Uint8Array
let count = 0
beforeAll(async () => {
  receiver = await WebhookReceiver.open()
  hurt = await HurtStack.start({
    worker: 'idle',
    loopbackChannels: { [new URL(WAITS_FOR).origin]: receiver.url },
    limits: { lease_ms: DEFAULT_SKILL_LIMITS.timeout_ms + 1_000 }, // a skill's call has no heartbeats
  })
  code = await postingSkill()
  await acme.listBySoleAdmin(hurt.operator)
})
afterEach(async () => {
  receiver.reply = taking
  await hurt.deleteChannels()
})
afterAll(() => Promise.all([hurt?.stop(), receiver?.close()]))

async function enabled(id: string, manifest: Unbound, component: Uint8Array): Promise<void> {
  unwrap(await hurt.operator('publishSkill', { body: acme.pack(manifest, component) }))
  unwrap(await hurt.operator('enableSkill', { params: { id, version: '1.0.0' }, body: {} }))
}
/** Each test has its own skill, because posts are limited per skill. */
async function posting(channels: string[] = ['ops-chan']): Promise<string> {
  count += 1
  const id = `poster-${count}`
  await enabled(id, acme.manifest(id, { capabilities: { channels } }), code)
  return id
}
type Change = Partial<Omit<Extract<ChannelSpec, { kind: 'webhook' }>, 'kind'>>
const put = async (name: string, change: Change = { notices: true }) =>
  unwrap(
    await hurt.operator('putChannel', {
      params: { name },
      body: { kind: 'webhook', url: `${receiver.url}/${name}`, keys: [KEY], ...change },
    }),
  )
/** Posts leave the installation, so policy asks; this approves. */
async function posts(
  skill: string,
  text: string,
  channel = 'ops-chan',
  deed: StorageOperation = 'post',
  wish: Wish = {},
): Promise<Call> {
  const asked = await hurt.propose(`${skill}_run`, argumentsOf(deed, channel, text), wish)
  if (asked.approval === undefined) throw new Error(`nobody was asked: the call is ${asked.state}`)
  unwrap(
    await hurt.operator('answerApproval', {
      params: { id: asked.approval.id },
      body: { decision: 'approve' },
    }),
  )
  return unwrap(await hurt.agent('readCall', { params: { run: asked.run, call: asked.id }, wait: 20 }))
}
const ended = ({ state, result }: Call): string =>
  state === 'succeeded' ? (result?.output ?? '') : `${result?.error?.code}: ${result?.error?.detail}`
const deliveries = async (name = 'ops-chan', query = {}): Promise<Delivery[]> =>
  unwrap(await insist(() => hurt.operator('listDeliveries', { params: { name }, query }))).items
const delivery = (call: Call, state: Delivery['state'], within_ms = 30_000): Promise<Delivery> =>
  eventually(
    `the notice of ${call.id} is ${state}`,
    async () =>
      (await deliveries()).find(({ notice, state: is }) => notice === `${call.id}.1` && is === state),
    within_ms,
  )

test('G09 a skill’s post arrives once, signed, as plain text with its origin, and a replay with the same idempotency key posts nothing', async () => {
  await put('ops-chan')
  const skill = await posting()
  const said = '<!channel> *all* clear \u202egpj.exe <https://evil.example|Approve>'
  const wish = { key: 'once' }
  const call = await posts(skill, said, 'ops-chan', 'post', wish)
  expect(ended(call)).toBe('true')
  expect((await hurt.propose(`${skill}_run`, argumentsOf('post', 'ops-chan', said), wish)).id).toBe(call.id)
  expect(await delivery(call, 'sent')).toMatchObject({
    kind: 'notice',
    approval: null,
    recipient: null,
    tries: 1,
  })
  const [came, ...more] = receiver.noticesOf(call.id)
  if (came === undefined || more.length > 0) throw new Error(`it came ${more.length + 1} times`)
  expect(signedBy(KEY, came)).toBe(true)
  expect(JSON.parse(came.body)).toEqual({
    type: 'notice',
    timestamp: expect.any(String),
    data: {
      notice: {
        skill,
        version: '1.0.0',
        tool: 'run',
        agent: 'dev',
        run: call.run,
        call: call.id,
        text: '<!channel> *all* clear \\u{202e}gpj.exe <https://evil.example|Approve>',
      },
    },
  })
  const bundle = unwrap(await hurt.agent('readAttestation', { params: { run: call.run, call: call.id } }))
  expect(JSON.parse(Buffer.from(bundle.envelope.payload, 'base64').toString())).toMatchObject({
    predicate: { execution: { skill: { host_calls: { 'channel.post': 1 } } } },
  })
})

test('W11 a post to a channel that was not granted ends the call; one to a channel without notices, or to none, returns an error to the skill', async () => {
  await put('ops-chan', {})
  await put('dev-chan')
  const skill = await posting(['ops-chan', 'no-chan1'])
  const calls: Call[] = []
  const refused = async (text: string, channel?: string): Promise<Call> => {
    const call = await posts(skill, text, channel)
    calls.push(call)
    return call
  }
  expect(ended(await refused('hello', 'dev-chan'))).toMatch(/^capability_denied: .*`dev-chan`/)
  for (const channel of ['ops-chan', 'no-chan1'])
    expect(ended(await refused('hello', channel))).toBe(
      `skill_error: there is no channel \`${channel}\` that skills may post to`,
    )
  for (const text of ['', '   ', 'x'.repeat(LIMITS.notice_chars + 1)]) {
    await put('ops-chan')
    expect(ended(await refused(text))).toBe(
      `skill_error: a notice has from 1 to ${LIMITS.notice_chars} characters`,
    )
  }
  const all = [...(await deliveries()), ...(await deliveries('dev-chan'))]
  expect(all.filter(({ notice }) => calls.some(({ id }) => notice?.startsWith(`${id}.`)))).toEqual([])
  expect(calls.flatMap(({ id }) => receiver.noticesOf(id))).toEqual([])
})

test('P12 a call may post five times and a skill sixty times an hour; posts beyond that return an error to the skill', async () => {
  await put('ops-chan')
  const [loud, other] = [await posting(), await posting()]
  const most = LIMITS.notices_per_hour / LIMITS.notices_per_call
  const calls: Call[] = []
  for (let n = 0; n < most; n++) {
    const call = await posts(loud, `round ${n}`, 'ops-chan', 'postSix')
    expect([n, ended(call)]).toEqual([
      n,
      `skill_error: the call has already posted ${LIMITS.notices_per_call} notices`,
    ])
    calls.push(call)
  }
  expect(ended(await posts(loud, 'one more'))).toBe(
    `skill_error: the skill has posted ${LIMITS.notices_per_hour} notices within the hour`,
  )
  expect(ended(await posts(other, 'of another'))).toBe('true')
  const came = await eventually('all have come', () => {
    const all = calls.map(({ id }) => receiver.noticesOf(id))
    return all.flat().length >= LIMITS.notices_per_hour && all
  })
  expect(came.map(({ length }) => length)).toEqual(calls.map(() => LIMITS.notices_per_call))
  expect(new Set(came.flat().map(({ headers }) => headers['webhook-id'])).size).toBe(LIMITS.notices_per_hour)
})

test('V01 a skill’s post is shown with known secrets masked', async () => {
  const value = 'CANARY0n0t1ce-0123456789'
  unwrap(
    await hurt.operator('putSecret', {
      params: { name: 'canary' },
      body: { value, tools: ['mark_quickly'] },
    }),
  )
  await put('ops-chan')
  const call = await posts(
    await posting(),
    `the value is ${value}, or ${Buffer.from(value).toString('base64')}`,
  )
  await delivery(call, 'sent')
  const [came] = receiver.noticesOf(call.id)
  expect(came?.data.notice?.text).toMatch(/^the value is «redacted[^»]*», or «redacted[^»]*»$/)
})

test('a notice survives a kill before and between two attempts, and is delivered under the same id', async () => {
  await put('ops-chan')
  receiver.reply = (response) => response.writeHead(503).end()
  const call = await posts(await posting(), 'it goes on')
  await strike(hurt.stack.edge)
  await revive(hurt.stack.edge)
  await eventually('an attempt', () => receiver.noticesOf(call.id).length > 0, 30_000)
  await strike(hurt.stack.edge)
  receiver.reply = taking
  const before = receiver.noticesOf(call.id).length
  await revive(hurt.stack.edge)
  await eventually(
    'another attempt, woken by nobody',
    () => receiver.noticesOf(call.id).length > before,
    30_000,
  )
  await delivery(call, 'sent')
  expect(new Set(receiver.noticesOf(call.id).map(({ headers }) => headers['webhook-id'])).size).toBe(1)
})

test('an idempotent call that is executed again after a kill delivers its earlier posts only once', async () => {
  await put('ops-chan')
  const tools = [
    {
      name: 'run',
      description: 'posts, and waits for a host',
      input_schema: { type: 'object' },
      idempotent: true,
    },
  ]
  const http = { hosts: [new URL(WAITS_FOR).hostname], methods: ['GET' as const] }
  await enabled(
    'waits',
    acme.manifest('waits', { tools, capabilities: { channels: ['ops-chan'], http } }),
    await waitingPostingSkill(),
  )
  const holds = (): number => receiver.came.filter(({ path }) => path === 'GET /hold').length
  receiver.reply = (response, n) => {
    if (receiver.came[n - 1]?.path !== 'GET /hold') taking(response, n)
  }
  const asked = await hurt.propose('waits_run', argumentsOf('postAndWait', 'ops-chan', 'once'))
  unwrap(
    await hurt.operator('answerApproval', {
      params: { id: asked.approval?.id ?? '' },
      body: { decision: 'approve' },
    }),
  )
  await eventually('it waits', () => holds() === 1)
  await strike(hurt.stack.edge)
  receiver.reply = taking
  await revive(hurt.stack.edge)
  expect((await hurt.ended(asked, 60_000)).state).toBe('succeeded')
  expect(holds()).toBe(2)
  await delivery(asked, 'sent')
  const made = (await deliveries()).flatMap(({ notice }) =>
    notice?.startsWith(`${asked.id}.`) ? [notice] : [],
  )
  expect(made).toEqual([`${asked.id}.1`])
  expect(new Set(receiver.noticesOf(asked.id).map(({ headers }) => headers['webhook-id'])).size).toBe(1)
})

test('a channel that no longer accepts notices drops those that still wait', async () => {
  await put('ops-chan')
  const shown = async () =>
    unwrap(await hurt.operator('listChannels', {})).items.map(({ channel }) => channel.notices)
  expect(await shown()).toEqual([true])
  receiver.reply = (response) => response.writeHead(503).end()
  const call = await posts(await posting(), 'too late')
  await eventually('an attempt', () => receiver.noticesOf(call.id).length > 0)
  await put('ops-chan', {})
  expect(await shown()).toEqual([undefined])
  expect((await delivery(call, 'dropped')).why).toBe('the channel no longer accepts notices')
})

test('a notice is mailed to each recipient, collected by couriers without a link, and deleted after a week', async () => {
  unwrap(await hurt.operator('putOperator', { params: { name: 'ada' }, body: { roles: ['auditor'] } })) // an auditor may answer nothing, but receives notices
  const via = { provider: 'outbox' as const }
  const addresses = { ada: 'ada@example.com', root: 'root@example.com', nobody: 'nobody@example.com' }
  const mail = { kind: 'email' as const, from: 'skills@example.com', addresses, via, notices: true as const }
  unwrap(await hurt.operator('putChannel', { params: { name: 'ops-chan' }, body: mail }))
  const call = await posts(await posting(), 'read me')
  const collect = async (done: string[]) =>
    unwrap(
      await insist(() => hurt.operator('collectMessages', { params: { name: 'ops-chan' }, body: { done } })),
    ).items
  const mails = await eventually('both wait', async () => {
    const all = (await collect([])).filter(({ message }) =>
      /^Subject: =\?utf-8\?B\?QSBub3RpY2Ug/m.test(message),
    ) // `A notice `
    return all.length === 2 && all
  })
  expect(mails.map(({ message }) => /^To: (.*)\r$/m.exec(message)?.[1]).sort()).toEqual([
    'ada@example.com',
    'root@example.com',
  ])
  for (const { message } of mails) expect(parts(message)).toContain('  | read me')
  for (const { message } of mails) expect(parts(message)).not.toMatch(/https?:/)
  await collect(mails.map(({ id }) => id))
  const deliveriesOfCall = async () => (await deliveries()).filter(({ notice }) => notice === `${call.id}.1`)
  expect((await deliveriesOfCall()).map(({ recipient, state }) => `${recipient} ${state}`).sort()).toEqual([
    'ada sent',
    'root sent',
  ])
  await strike(hurt.stack.edge)
  const db = fileOf('channel', hurt.stack.state.dir)
  db.prepare('update notices set at = at - ? where call = ?').run(
    LIMITS.delivery_days * 24 * 3_600_000,
    call.id,
  )
  db.close()
  await revive(hurt.stack.edge)
  await put('dev-chan') // any change sets its alarm
  await eventually('it is forgotten', async () => (await deliveriesOfCall()).length === 0, 30_000)
})

/** The decoded parts of a mail. */
const parts = (message: string): string =>
  message
    .split('\r\n\r\n')
    .slice(1)
    .map((part) => Buffer.from(part.split('\r\n--')[0] ?? '', 'base64').toString())
    .join('\n')

test('P12 a question is delivered even while many notices hang', async () => {
  await put('ops-chan')
  receiver.reply = (response, n) => {
    if (receiver.came[n - 1]?.type !== 'notice') taking(response, n)
  }
  const [one, two] = [await posting(), await posting()]
  const calls = [
    await posts(one, 'hangs', 'ops-chan', 'postSix'),
    await posts(two, 'hangs', 'ops-chan', 'postSix'),
  ]
  const hanging = () => calls.flatMap(({ id }) => receiver.noticesOf(id))
  await eventually('they hang', () => hanging().length >= LIMITS.deliveries_at_once / 2)
  const asking = await hurt.propose('mark_asking', { mark: 'asked\n' })
  await eventually('the question is told', () => receiver.about(asking.approval?.id ?? '').length > 0, 5_000)
  expect(hanging().length).toBe(LIMITS.deliveries_at_once / 2)
})
