// Promise: an approval reaches its approver by mail, through either provider or through an outbox
// and the tenant's own mail server, whatever dies in between. The link in the mail answers, and no
// response shows a token.

import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { bearer, client } from '../../../shared/routes/client.ts'
import type { Call } from '../../../shared/wire/calls.ts'
import type { ChannelSpec, Delivery, DeliveryState } from '../../../shared/wire/channels.ts'
import { FakeMail } from '../../support/channels/fake-mail.ts'
import { countersign } from '../../support/countersign.ts'
import { eventually } from '../../support/eventually.ts'
import { unwrap } from '../../support/fixtures.ts'
import { HurtStack, insist, revive, strike } from '../../support/stack/hurt-stack.ts'
import { SHORT_DELIVERIES } from '../../support/stack/other-limits.ts'

const TOKENS = { resend: 're_CANARY8r5', postmark: 'CANARY8p5' } as const
const ADDRESSES = { ada: 'ada@example.com', bob: 'bob@example.com' }
const PATIENCE_MS = 30_000

let hurt: HurtStack
let mail: FakeMail
let courier: string
const folder = mkdtempSync(join(tmpdir(), 'countersign-mail-'))
beforeAll(async () => {
  mail = await FakeMail.open(TOKENS)
  hurt = await HurtStack.start({ loopbackChannels: mail.standIns, limits: SHORT_DELIVERIES })
  unwrap(await hurt.operator('putOperator', { params: { name: 'ada' }, body: { roles: ['approver'] } }))
  unwrap(await hurt.operator('putOperator', { params: { name: 'bob' }, body: { roles: ['auditor'] } }))
  courier =
    unwrap(await hurt.operator('putOperator', { params: { name: 'postman' }, body: { roles: ['courier'] } }))
      .key ?? ''
})
afterEach(async () => {
  mail.trouble = undefined
  for (const { name } of unwrap(await hurt.operator('listChannels', {})).items)
    unwrap(await hurt.operator('deleteChannel', { params: { name } }))
})
afterAll(async () => {
  await hurt?.stop()
  await mail?.close()
  rmSync(folder, { recursive: true })
})

type EmailSpec = Extract<ChannelSpec, { kind: 'email' }>
const put = async (via: EmailSpec['via'], addresses: Record<string, string> = ADDRESSES) =>
  unwrap(
    await hurt.operator('putChannel', {
      params: { name: 'by-mail' },
      body: { kind: 'email', from: 'approvals@example.com', addresses, via },
    }),
  )
const RESEND = { provider: 'resend', token: TOKENS.resend } as const
const POSTMARK = { provider: 'postmark', token: TOKENS.postmark, stream: 'outbound' } as const
const ask = () => hurt.propose('mark_asking', { mark: 'asked by mail\n' })
const deliveries = async (call: Call): Promise<Delivery[]> =>
  unwrap(
    await insist(() => hurt.operator('listDeliveries', { params: { name: 'by-mail' }, query: {} })),
  ).items.filter(({ approval }) => approval === call.approval?.id)
const delivered = (call: Call, recipient: string, state: DeliveryState): Promise<Delivery> =>
  eventually(
    `the mail to ${recipient} is ${state}`,
    async () =>
      (await deliveries(call)).find(
        (delivery) => delivery.recipient === recipient && delivery.state === state,
      ),
    PATIENCE_MS,
  )
const linkIn = (text: string): string => /https?:\/\/\S+\/approve\/\S+/.exec(text)?.[0] ?? ''

/** Acts like a person who opens the mail: views the page, then presses the button. */
async function approveBy(url: string): Promise<number> {
  const nonce = /name="nonce" value="([^"]+)"/.exec(await (await fetch(url)).text())?.[1] ?? ''
  const body = new URLSearchParams({ decision: 'approve', nonce, reason: '' })
  const headers = { origin: hurt.stack.url, 'sec-fetch-site': 'same-origin' }
  return (await fetch(url, { method: 'POST', body, headers })).status
}

test.each([RESEND, POSTMARK])(
  'an approval sent by $provider is answered by the link in the mail; an operator who may not answer gets no mail',
  async (via) => {
    await put(via)
    const call = await ask()
    await delivered(call, 'ada', 'sent')
    expect((await delivered(call, 'bob', 'dropped')).why).toMatch(/policy does not let/)
    const [sent, ...more] = mail.about(call.id)
    expect(more).toEqual([])
    expect(sent).toMatchObject({
      provider: via.provider,
      to: 'ada@example.com',
      from: 'Countersign <approvals@example.com>',
    })
    expect(sent?.subject).toBe('dev wants to run mark_asking (medium risk)')
    expect(sent?.text).toContain('asked by mail')
    const link = linkIn(sent?.text ?? '')
    expect(sent?.html).toContain(`href="${link}"`)
    // The requests of mail scanners answer nothing.
    for (const method of ['GET', 'HEAD', 'GET']) await fetch(link, { method })
    expect((await hurt.read(call)).state).toBe('awaiting_approval')
    expect(await approveBy(link)).toBe(200)
    expect((await hurt.ended(call)).state).toBe('succeeded')
    // No mail is sent about the end; the page shows it.
    expect((await deliveries(call)).map(({ kind }) => kind)).toEqual(['asked', 'asked'])
    expect(await (await fetch(link)).text()).toContain('Approved')
    expect(mail.about(call.id)).toHaveLength(1)
  },
)

test('a mail tells its provider not to rewrite links, and carries an idempotency key', async () => {
  await put(POSTMARK)
  const [first, second] = [await ask(), await ask()]
  await delivered(first, 'ada', 'sent')
  expect(mail.about(first.id)[0]?.body).toMatchObject({
    TrackLinks: 'None',
    TrackOpens: false,
    MessageStream: 'outbound',
  })
  await put(RESEND)
  await delivered(second, 'ada', 'sent')
  const third = await ask()
  const { id } = await delivered(third, 'ada', 'sent')
  expect(mail.about(third.id)[0]).toMatchObject({ headers: { 'idempotency-key': id } })
})

test('after a kill during the provider’s response, a mail is sent again with the same key and content', async () => {
  await put(RESEND, { ada: ADDRESSES.ada })
  mail.silent = true
  const call = await ask()
  await eventually('an attempt', () => mail.about(call.id).length === 1, PATIENCE_MS)
  await strike(hurt.stack.edge)
  mail.silent = false
  await revive(hurt.stack.edge) // only its alarm wakes it
  expect((await delivered(call, 'ada', 'sent')).tries).toBe(2)
  const tried = mail.tried.filter((one) => one.includes(call.id))
  expect(tried).toHaveLength(2)
  expect(new Set(tried).size).toBe(1)
  expect(mail.about(call.id)).toHaveLength(1)
})

test('a provider’s rate limit is respected; its refusal is reported, and retried on an operator’s request', async () => {
  await put({ ...RESEND, token: 're_CANARYwrong' })
  const call = await ask()
  expect(await delivered(call, 'ada', 'failed')).toMatchObject({
    tries: 1,
    why: 'resend answered 403 (invalid_api_key)',
  })
  const tested = unwrap(await hurt.operator('testChannel', { params: { name: 'by-mail' } }))
  expect(tested).toEqual({ sent: false, why: 'resend answered 403 (invalid_api_key)' })
  await put(RESEND)
  let limited = 0
  mail.trouble = (response) => {
    limited++
    mail.trouble = undefined
    response
      .writeHead(429, { 'retry-after': '1', 'content-type': 'application/json' })
      .end('{"name":"rate_limit_exceeded"}')
  }
  expect(unwrap(await hurt.operator('retryDeliveries', { params: { name: 'by-mail' } }))).toEqual({ due: 1 })
  await delivered(call, 'ada', 'sent')
  expect(limited).toBe(1)
  await put(POSTMARK, { ada: 'bounced@example.com' })
  const other = await ask()
  expect((await delivered(other, 'ada', 'failed')).why).toBe('postmark answered 422 (406)')
  // A test mail asks nothing, and goes to every operator with an address.
  await put(POSTMARK)
  expect(unwrap(await hurt.operator('testChannel', { params: { name: 'by-mail' } }))).toEqual({
    sent: true,
    why: null,
  })
  expect(mail.mails.at(-1)).toMatchObject({
    to: 'ada@example.com',
    subject: 'this is a test message; there is nothing to answer',
  })
  expect(linkIn(mail.mails.at(-1)?.text ?? '')).toBe('')
})

const drain = (...flags: string[]) =>
  countersign(['channels', 'drain', 'by-mail', ...flags], {
    env: { COUNTERSIGN_URL: hurt.stack.url, COUNTERSIGN_KEY: courier },
  })
const waiting = async (call: Call): Promise<Delivery> =>
  eventually(
    'it waits to be collected',
    async () => (await deliveries(call)).find(({ why }) => why === 'waiting to be collected'),
    PATIENCE_MS,
  )

test('mails in an outbox survive a kill, are handed out until acknowledged, and are whole files in the folder', async () => {
  await put({ provider: 'outbox' })
  const call = await ask()
  const { id } = await waiting(call)
  await strike(hurt.stack.edge)
  await revive(hurt.stack.edge)
  const collect = (done: string[]) =>
    insist(() =>
      client(hurt.stack.url, bearer(courier))('collectMessages', {
        params: { name: 'by-mail' },
        body: { done },
      }),
    )
  for (const _ of [1, 2]) expect(unwrap(await collect([])).items.map((item) => item.id)).toEqual([id])
  const dir = join(folder, 'mails')
  mkdirSync(dir)
  expect(await drain('--dir', dir)).toMatchObject({ code: 0, out: '1 delivered\n' })
  expect(await drain('--dir', dir)).toMatchObject({ code: 0, out: '0 delivered\n' })
  expect(await drain('--dir', join(dir, 'nothing'))).toMatchObject({
    code: 1,
    err: expect.stringContaining('can’t be written'),
  })
  expect(unwrap(await collect([])).items).toEqual([])
  expect(readdirSync(dir)).toEqual([`${id}.eml`])
  expect(statSync(join(dir, `${id}.eml`)).mode & 0o777).toBe(0o600)
  expect(await deliveries(call)).toContainEqual(expect.objectContaining({ recipient: 'ada', state: 'sent' }))
  const eml = readFileSync(join(dir, `${id}.eml`), 'latin1')
  expect(eml).toContain('\r\nTo: ada@example.com\r\n')
  const text = Buffer.from(/base64\r\n\r\n([A-Za-z0-9+/=\r\n]+)/.exec(eml)?.[1] ?? '', 'base64').toString()
  expect(await approveBy(linkIn(text))).toBe(200)
  expect((await hurt.ended(call)).state).toBe('succeeded')
})

test('sendmail gets each mail of an outbox; a failure keeps the mail, and an ended approval’s mail is not handed out', async () => {
  await put({ provider: 'outbox' })
  const [first, second] = [await ask(), await ask()]
  await waiting(first)
  await waiting(second)
  const program = join(folder, 'sendmail')
  const came = join(folder, 'came')
  writeFileSync(program, '#!/bin/sh\nexit 75\n')
  chmodSync(program, 0o700)
  expect(await drain('--sendmail', program)).toMatchObject({
    code: 1,
    out: expect.stringContaining('exited with 75'),
  })
  expect(await deliveries(first)).toContainEqual(
    expect.objectContaining({ state: 'due', tries: 1, why: expect.stringContaining('exited with 75') }),
  )
  expect(await drain('--sendmail', join(folder, 'nothing'))).toMatchObject({
    code: 1,
    err: expect.stringContaining('can’t be used'),
  })
  unwrap(
    await hurt.operator('answerApproval', {
      params: { id: second.approval?.id ?? '' },
      body: { decision: 'deny' },
    }),
  )
  await eventually(
    'the second is dropped',
    async () => (await deliveries(second)).every(({ state }) => state === 'dropped'),
    PATIENCE_MS,
  )
  writeFileSync(program, `#!/bin/sh\necho "$@" >> ${came}\nenv >> ${came}\ncat >> ${came}\n`)
  expect(await drain('--sendmail', program)).toMatchObject({ code: 0, out: '1 delivered\n' })
  const text = readFileSync(came, 'utf8')
  expect(text).toMatch(/^-t -i\n/)
  expect(text).toContain('\nTo: ada@example.com\n')
  expect(text).not.toContain('\r')
  expect(text).not.toContain('cs_operator_') // sendmail must not get our key
  expect(await deliveries(first)).toContainEqual(expect.objectContaining({ recipient: 'ada', state: 'sent' }))
})

test('a mail that the mail server refuses does not stop the other mails of its outbox', async () => {
  await put({ provider: 'outbox' }, { ada: ADDRESSES.ada, root: 'root@example.com' })
  const calls = [await ask(), await ask(), await ask()]
  const states = async () =>
    (await Promise.all(calls.map(deliveries)))
      .flat()
      .map(({ recipient, state, tries }) => [recipient, state, tries])
  await eventually('all wait', async () => {
    const all = (await Promise.all(calls.map(deliveries))).flat()
    return all.length === 6 && all.every(({ why }) => why === 'waiting to be collected')
  })
  const program = join(folder, 'choosy')
  writeFileSync(program, '#!/bin/sh\nif grep -q "^To: ada@"; then exit 67; fi\n')
  chmodSync(program, 0o700)
  const drained = await drain('--sendmail', program)
  expect(drained).toMatchObject({ code: 1, out: expect.stringContaining('3 delivered\n3 not delivered') })
  expect((await states()).sort()).toEqual([
    ...calls.map(() => ['ada', 'due', 1]),
    ...calls.map(() => ['root', 'sent', 1]),
  ])
})

test('an outbox of several pages hands out each mail once, the oldest first', async () => {
  await put({ provider: 'outbox' }, { ada: ADDRESSES.ada })
  const collect = (body: { done?: string[] }) =>
    client(hurt.stack.url, bearer(courier))('collectMessages', { params: { name: 'by-mail' }, body })
  const asked = async (many: number) => {
    for (let made = 0; made < many; made += 20) await Promise.all(Array.from({ length: 20 }, ask))
  }
  const newest = async () =>
    unwrap(await hurt.operator('listDeliveries', { params: { name: 'by-mail' }, query: { state: 'due' } }))
      .items
  await asked(120)
  const first = await eventually(
    'a page waits',
    async () => {
      const { items } = unwrap(await collect({}))
      return items.length === 100 && items
    },
    30_000,
  )
  await asked(40) // newer mails must not hide the first ones
  const isNew = ({ id, why }: Delivery) =>
    why === 'waiting to be collected' && first.every((one) => one.id !== id)
  await eventually('they wait', async () => (await newest()).filter(isNew).length >= 60, PATIENCE_MS)
  const page = await newest()
  const query = { state: 'due' as const, after: page.at(-1)?.id ?? '' } // mails of other tests were dropped
  const older = unwrap(await hurt.operator('listDeliveries', { params: { name: 'by-mail' }, query })).items
  expect(new Set([...page, ...older].map(({ id }) => id)).size).toBe(160)
  const second = unwrap(await collect({ done: first.map(({ id }) => id) })).items
  expect(second).toHaveLength(60)
  expect(second.filter(({ id }) => first.some((one) => one.id === id))).toEqual([])
})

test('only a permitted operator collects an outbox, and waiting mails are sent once the channel has a provider', async () => {
  await put({ provider: 'outbox' })
  const call = await ask()
  await waiting(call)
  for (const name of ['ada', 'bob']) {
    const { key } = unwrap(await hurt.operator('rotateOperatorKey', { params: { name } }))
    const asked = await client(hurt.stack.url, bearer(key ?? ''))('collectMessages', {
      params: { name: 'by-mail' },
      body: {},
    })
    expect(asked).toMatchObject({ ok: false, error: { status: 403, code: 'forbidden' } })
  }
  await put(RESEND)
  await delivered(call, 'ada', 'sent')
  expect(mail.about(call.id)).toHaveLength(1)
  const none = await hurt.operator('collectMessages', { params: { name: 'by-mail' }, body: {} })
  expect(none).toMatchObject({ ok: false, error: { code: 'not_found' } })
})

test('V02 no response contains a provider’s token', async () => {
  const answers: unknown[] = [await put(RESEND), unwrap(await hurt.operator('listChannels', {}))]
  answers.push(
    await hurt.operator('putChannel', {
      params: { name: 'by-mail' },
      body: { kind: 'email', from: 'x', addresses: {}, via: RESEND } as never,
    }),
  ) // refused
  mail.trouble = (response) => response.writeHead(400).end(TOKENS.resend)
  answers.push(unwrap(await hurt.operator('testChannel', { params: { name: 'by-mail' } })))
  expect(JSON.stringify(answers)).not.toContain('CANARY')
  expect(answers.at(-1)).toEqual({ sent: false, why: 'resend answered 400' })
})
