// A webhook is signed according to Standard Webhooks 1.0 and never reaches an address inside our
// network (N14).

import { createPublicKey, generateKeyPairSync } from 'node:crypto'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Webhook } from 'standardwebhooks'
import { expect, onTestFinished, test } from 'vitest'
import { applyResult, beginAttempt, type DeliveryProgress } from '../../../edge/channels/delivery-state.ts'
import type { Post } from '../../../edge/channels/medium.ts'
import { postThrough } from '../../../edge/channels/post.ts'
import { testApproval } from '../../../edge/channels/test-approval.ts'
import { signed, webhook } from '../../../edge/channels/webhook.ts'
import { faultInAddress } from '../../../edge/platform/outbound-fetch.ts'
import { LIMITS } from '../../../shared/limits.ts'
import { ok } from '../../../shared/result.ts'
import { signedBy } from '../../support/channels/webhook-receiver.ts'

/** The test vectors of the specification and of its reference implementation. */
const [ID, AT, BODY] = ['msg_p5jXN8AQM9LWM0D4loKWxJek', 1_614_265_330_000, '{"test": 2432232314}'] as const
const HMAC = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'
const ED25519 =
  'whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg=='
const V1 = 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE='
const V1A = 'v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg=='

test('webhook signatures match the published vectors v1 and v1a, and every key signs', () => {
  expect(signed([HMAC], ID, AT, BODY)).toEqual({
    'webhook-id': ID,
    'webhook-timestamp': '1614265330',
    'webhook-signature': V1,
  })
  expect(signed([ED25519], ID, AT, BODY)['webhook-signature']).toBe(V1A)
  expect(signed([HMAC, ED25519], ID, AT, BODY)['webhook-signature']).toBe(`${V1} ${V1A}`)
  expect(new Webhook(HMAC).sign(ID, new Date(AT), BODY)).toBe(V1) // as the published package signs it
})

test('the published Standard Webhooks package verifies our signatures, and refuses altered, old and foreign messages', () => {
  const other = `whsec_${Buffer.alloc(32, 7).toString('base64')}`
  const now = signed([other, ED25519, HMAC], ID, Date.now(), BODY)
  for (const key of [HMAC, other]) expect(signedBy(key, { headers: now, body: BODY })).toBe(true)
  expect(signedBy(HMAC, { headers: now, body: `${BODY} ` })).toBe(false)
  expect(signedBy(HMAC, { headers: { ...now, 'webhook-id': 'msg_other' }, body: BODY })).toBe(false)
  expect(signedBy(HMAC, { headers: signed([other], ID, Date.now(), BODY), body: BODY })).toBe(false)
  expect(signedBy(HMAC, { headers: signed([HMAC], ID, Date.now() - 6 * 60_000, BODY), body: BODY })).toBe(
    false,
  )
})

const spec = (change: { url?: string; keys?: string[] }) =>
  webhook({ kind: 'webhook', url: 'https://example.com/', keys: [HMAC], after_s: 0, ...change })

test('webhook keys that are too short, too long or not a pair are refused, and a shown channel has no secret', () => {
  expect(spec({ keys: [`whsec_${Buffer.alloc(16).toString('base64')}`] }).fault(false)).toMatch(/24 to 64/)
  expect(spec({ keys: [`whsk_${Buffer.alloc(32).toString('base64')}`] }).fault(false)).toMatch(/64 bytes/)
  expect(spec({ keys: [`whsk_${Buffer.alloc(64, 7).toString('base64')}`] }).fault(false)).toMatch(
    /do not match/,
  )
  const { privateKey } = generateKeyPairSync('ed25519')
  const half = (pem: typeof privateKey, type: 'pkcs8' | 'spki') =>
    (type === 'pkcs8'
      ? pem.export({ format: 'der', type })
      : createPublicKey(pem).export({ format: 'der', type })
    ).subarray(-32)
  expect(
    spec({
      keys: [
        `whsk_${Buffer.concat([half(privateKey, 'pkcs8'), half(privateKey, 'spki')]).toString('base64')}`,
      ],
    }).fault(false),
  ).toBeUndefined()
  const shown = JSON.stringify(
    spec({ url: 'https://example.com/hook/T0PSECRET?k=T0PSECRET', keys: [HMAC, ED25519] }).shown,
  )
  expect(shown).not.toContain('T0PSECRET')
  expect(shown).not.toContain(HMAC.slice(6))
  expect(shown).not.toContain(ED25519.slice(5, 40))
  expect(JSON.parse(shown)).toMatchObject({
    to: 'https://example.com',
    keys: [{ scheme: 'v1' }, { scheme: 'v1a', public: 'whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4=' }],
  })
})

const INSIDE = [
  'http://example.com/',
  'ftp://example.com/',
  'file:///etc/passwd',
  'data:text/plain,x',
  'javascript:alert(1)',
  'https://user@example.com/',
  'https://user:password@example.com/',
  'https://example.com/#fragment',
  'not a url',
  'https://127.0.0.1/',
  'https://127.1/',
  'https://2130706433/',
  'https://0x7f000001/',
  'https://0177.0.0.1/',
  'https://0/',
  'https://10.0.0.1/',
  'https://172.16.0.1/',
  'https://192.168.1.1/',
  'https://100.64.0.1/',
  'https://169.254.169.254/latest/meta-data/',
  'https://224.0.0.1/',
  'https://255.255.255.255/',
  'https://8.8.8.8/',
  'https://[::1]/',
  'https://[::]/',
  'https://[::ffff:127.0.0.1]/',
  'https://[::ffff:7f00:1]/',
  'https://[64:ff9b::7f00:1]/',
  'https://[fd00::1]/',
  'https://[fe80::1]/',
  'https://[fd00:ec2::254]/',
  'https://localhost/',
  'https://LOCALHOST/',
  'https://localhost./',
  'https://a.localhost/',
  'https://redis/',
  'https://redis:6379/',
  'https://redis../',
  'https://redis%2e/',
  'https://localhost../',
  'https://a..localhost/',
  'https://10.0.0.1../',
  'https://.example.com/',
  'https://metadata.google.internal/',
  'https://metadata.google.internal./',
  'https://printer.local/',
  'https://nas.lan/',
  'https://router.home.arpa/',
  'https://①②⑦.⓪.⓪.①/',
  'https://127。0。0。1/',
] as const

test('N14 webhook addresses inside a private network are refused in any notation; public names are accepted', async () => {
  const reached: string[] = []
  const fetch = async (to: string): Promise<Response> => {
    reached.push(to)
    return new Response()
  }
  const post = postThrough({ outside: { fetch }, standIns: undefined })
  for (const url of INSIDE) {
    expect([url, faultInAddress(url, false)]).toEqual([url, expect.any(String)])
    // Each attempt checks the address again, even for channels stored before a rule existed.
    const sent = await post({ to: url, headers: {}, body: '' })
    expect([url, sent.ok]).toEqual([url, false])
  }
  expect(reached).toEqual([])
  for (const url of [
    'https://example.com/',
    'https://hooks.example.com:8443/a?b=c',
    'https://xn--bcher-kva.example/',
    'https://localhost.example.com/',
  ])
    expect([url, faultInAddress(url, false)]).toEqual([url, undefined])
  expect((await post({ to: 'https://example.com/', headers: {}, body: '' })).ok).toBe(true)
  expect(reached).toEqual(['https://example.com/'])
})

test('N14 without the refusal of loopback, which a setting for tests turns off: only 127.0.0.1 is accepted, and an origin can be replaced', async () => {
  const reached: string[] = []
  const fetch = async (to: string): Promise<Response> => {
    reached.push(to)
    return new Response()
  }
  const post = postThrough({
    outside: { fetch },
    standIns: { 'https://api.example.com': 'http://127.0.0.1:9' },
  })
  for (const to of [
    'https://api.example.com/send?a=b',
    'https://api.example.com.example.org/',
    'http://10.0.0.1/',
  ])
    await post({ to, headers: {}, body: '' })
  expect(reached).toEqual(['http://127.0.0.1:9/send?a=b', 'https://api.example.com.example.org/'])
  expect(faultInAddress('http://127.0.0.1:8080/hook', true)).toBeUndefined()
  for (const url of [
    'http://127.0.0.2/',
    'http://localhost/',
    'http://10.0.0.1/',
    'https://127.0.0.1/',
    'http://u:p@127.0.0.1/',
  ])
    expect([url, faultInAddress(url, true)]).toEqual([url, expect.any(String)])
})

test('a webhook message shortens long texts and has a link only for a recipient', async () => {
  const approval = {
    ...testApproval(0),
    prompt: { ...testApproval(0).prompt, arguments: 'x'.repeat(60_000), agent_says: '<b>please</b>' },
  }
  const bodies: string[] = []
  const post: Post = async ({ body }) => {
    bodies.push(body)
    return ok({ status: 200, pause_ms: undefined, text: '' })
  }
  const message = { approval, recipient: 'ada', page: 'https://edge/console', seal: () => '', at_ms: 0 }
  await spec({}).deliver({ ...message, id: 'msg_1', kind: 'asked', link: 'https://edge/approve/x' }, post)
  await spec({}).deliver({ ...message, id: 'msg_2', kind: 'ended', link: null }, post)
  expect(Buffer.byteLength(bodies[0] ?? '')).toBeLessThan(20_000)
  expect(bodies[0]).toMatch(/56000 characters more, sha256 of all/)
  expect(JSON.parse(bodies[0] ?? '')).toMatchObject({
    type: 'approval.requested',
    timestamp: '1970-01-01T00:00:00.000Z',
    data: {
      recipient: 'ada',
      approval: { url: 'https://edge/approve/x', prompt: { agent_says: '<b>please</b>' } },
    },
  })
  expect(bodies[1]).not.toContain('/approve/')
})

test('deliveries back off from `delivery_pause_ms` with jitter, end after the last try or a 410, and follow Retry-After', () => {
  const no = (more: object = {}) => ({
    ok: false as const,
    error: { again: true, why: 'it answered 500', ...more },
  })
  let course: DeliveryProgress = { state: 'due', tries: 0, nextAt: 0, why: null }
  const pauses: number[] = []
  for (let i = 0; i < LIMITS.delivery_tries; i++) {
    course = beginAttempt(course, 0)
    expect(course.nextAt).toBeGreaterThan(LIMITS.delivery_ms) // after a crash it is due again, later than an attempt may take
    const [soon, late] = [applyResult(course, no(), 0, 0), applyResult(course, no(), 0, 0.999)]
    if (soon.nextAt !== null && late.nextAt !== null) expect(soon.nextAt).toBeLessThan(late.nextAt)
    course = soon
    pauses.push(course.nextAt ?? -1)
  }
  expect(pauses.slice(0, 4)).toEqual([1_000, 2_000, 4_000, 8_000])
  expect(Math.max(...pauses)).toBe(LIMITS.delivery_pause_max_ms / 2)
  expect(course).toMatchObject({
    state: 'failed',
    tries: LIMITS.delivery_tries,
    nextAt: null,
    why: 'it answered 500',
  })
  const first = beginAttempt({ state: 'due', tries: 0, nextAt: 0, why: null }, 0)
  expect(applyResult(first, no({ again: false }), 0, 0).state).toBe('failed')
  expect(applyResult(first, no({ pause_ms: 60_000 }), 0, 0).nextAt).toBe(60_000)
  expect(applyResult(first, no({ pause_ms: 60_000 }), 0, 0).tries).toBe(0) // Retry-After does not count as a try
  for (const chance of [0.0001, 1 / 3, 0.7801, 0.9999])
    expect(Number.isInteger(applyResult(first, no(), 1_000, chance).nextAt)).toBe(true)
  expect(applyResult({ ...first, state: 'dropped', nextAt: null }, no(), 0, 0)).toMatchObject({
    state: 'dropped',
    nextAt: null,
  })
  expect(
    applyResult({ ...first, state: 'dropped', nextAt: null }, { ok: true, value: { ref: null } }, 0, 0).state,
  ).toBe('sent')
})

test('N08 N14 the edge does not follow a redirect by a webhook’s receiver', async () => {
  const asked: string[] = []
  const receiver = createServer(({ url = '' }, answer) => {
    asked.push(url)
    answer.writeHead(url === '/hook' ? 307 : 200, { location: '/latest/meta-data' }).end()
  })
  onTestFinished(() => void receiver.close())
  await new Promise<void>((settle) => receiver.listen(0, '127.0.0.1', settle))
  const to = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}` // the address of a TCP server
  const post = postThrough({
    outside: { fetch: (url, init) => fetch(url, init) },
    standIns: { 'https://hooks.example.com': to },
  })
  const sent = await post({ to: 'https://hooks.example.com/hook', headers: {}, body: '{}' })
  expect([sent.ok && sent.value.status, asked]).toEqual([307, ['/hook']])
})

test('G10 the edge reads at most 256 KiB of a receiver’s answer (`delivery_answer_bytes`)', async () => {
  const receiver = createServer((_, answer) => answer.end('x'.repeat(300_000)))
  onTestFinished(() => void receiver.close())
  await new Promise<void>((settle) => receiver.listen(0, '127.0.0.1', settle))
  const to = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}` // the address of a TCP server
  const post = postThrough({
    outside: { fetch: (url, init) => fetch(url, init) },
    standIns: { 'https://slack.example.com': to },
  })
  const sent = await post({ to: 'https://slack.example.com/api', headers: {}, body: '{}' }, 'read')
  expect(sent.ok && sent.value.text.length).toBe(262_144)
})
