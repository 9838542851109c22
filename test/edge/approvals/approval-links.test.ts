// An approval link never decides when opened. The form on its page decides once, for the operator
// of the link, while they may answer.

import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import { LIMITS } from '../../../shared/limits.ts'
import { eventually } from '../../support/eventually.ts'
import { Fixtures, refusalOf, unwrap } from '../../support/fixtures.ts'
import { sharedStack } from '../../support/stack/stack.ts'

const fixtures = new Fixtures('approval-links', sharedStack())
const agent = await fixtures.agent()
const sensitive = await fixtures.tool({ capabilities: ['network'] })
const origin = new URL(fixtures.url).origin

const statusOf = async (id: string) => unwrap(await fixtures.root('readApproval', { params: { id } })).status
const askApproval = (tool = sensitive) => fixtures.proposeForApproval(agent.client, tool)

/** The page's hidden nonce, as a browser would send it back. */
async function nonceOf(link: string): Promise<string> {
  const nonce = /name="nonce" value="([^"]+)"/.exec(await (await fetch(link)).text())?.[1]
  return nonce ?? expect.fail('the page has no form')
}

type Post = {
  decision?: string
  nonce?: string
  headers?: Record<string, string>
  reason?: string
  type?: string
  body?: string
}
async function post(
  link: string,
  { decision = 'approve', nonce = '', headers = { origin }, reason = '', type, body }: Post,
): Promise<number> {
  const answer = await fetch(link, {
    method: 'POST',
    redirect: 'error',
    headers: { 'content-type': type ?? 'application/x-www-form-urlencoded', ...headers },
    body: body ?? new URLSearchParams({ nonce, decision, reason }).toString(),
  })
  expect(answer.headers.get('content-type')).toBe('text/html; charset=utf-8')
  await answer.arrayBuffer()
  return answer.status
}

const SCANNERS = [
  'Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)',
  'Mozilla/5.0 (Windows NT 10.0; Win64; x64) SafeLinks',
  'Microsoft Office Existence Discovery',
  'Barracuda Sentinel (EE)',
  'Googlebot/2.1 (+http://www.google.com/bot.html)',
  'facebookexternalhit/1.1',
  'WhatsApp/2.23',
  'curl/8.0',
  '',
]

test('P01 a hundred mail scanners that open the link get the page and decide nothing', async () => {
  const { approval } = await askApproval()
  const link = await fixtures.link(fixtures.root, approval.id)
  const pages = await Promise.all(
    Array.from({ length: 100 }, (_, i) =>
      fetch(link, { headers: { 'user-agent': SCANNERS[i % SCANNERS.length] ?? '' } }),
    ),
  )
  for (const page of pages) {
    expect(page.status).toBe(200)
    expect(await page.text()).toContain(sensitive)
  }
  expect(await statusOf(approval.id)).toBe('pending')
  expect(await post(link, { nonce: await nonceOf(link) })).toBe(200)
  expect(await statusOf(approval.id)).toBe('approved')
})

test('P02 HEAD, OPTIONS and every kind of prefetch change nothing', async () => {
  const { approval } = await askApproval()
  const link = await fixtures.link(fixtures.root, approval.id)
  const requests: RequestInit[] = [
    { method: 'HEAD' },
    { method: 'OPTIONS' },
    { headers: { 'sec-purpose': 'prefetch' } },
    { headers: { 'sec-purpose': 'prefetch;prerender' } },
    { headers: { purpose: 'prefetch' } },
    { headers: { 'x-moz': 'prefetch' } },
    { headers: { 'x-purpose': 'preview' } },
    { method: 'PUT', body: 'decision=approve' },
    { method: 'DELETE' },
    { method: 'PATCH', body: 'decision=approve' },
  ]
  for (const request of requests) await (await fetch(link, request)).arrayBuffer()
  for (const query of ['?decision=approve', '?_method=POST&decision=approve', '#approve'])
    expect((await fetch(`${link}${query}`)).status).toBe(200)
  expect((await fetch(link, { method: 'GET', headers: { 'x-http-method-override': 'POST' } })).status).toBe(
    200,
  )
  expect(await statusOf(approval.id)).toBe('pending')
})

test('P02 HEAD on an approval link answers like GET, without the page', async () => {
  const { approval } = await askApproval()
  const link = await fixtures.link(fixtures.root, approval.id)
  const head = await fetch(link, { method: 'HEAD' })
  expect([head.status, await head.text()]).toEqual([200, ''])
})

test('P03 the approval page can’t be framed or cached and sends no referrer', async () => {
  const { approval } = await askApproval()
  const page = await fetch(await fixtures.link(fixtures.root, approval.id))
  const csp = page.headers.get('content-security-policy') ?? ''
  for (const part of [
    "default-src 'none'",
    "frame-ancestors 'none'",
    "form-action 'self'",
    "base-uri 'none'",
  ])
    expect(csp).toContain(part)
  const text = await page.text()
  const [script = '', ...more] = [...text.matchAll(/<script>([\s\S]*?)<\/script>/g)].map(
    ([, inside]) => inside,
  )
  const digest = createHash('sha256').update(script).digest('base64')
  expect([csp.match(/script-src[^;]*/g), more]).toEqual([[`script-src 'sha256-${digest}'`], []])
  expect(csp).toContain("connect-src 'self'")
  expect(csp).not.toMatch(/unsafe-eval|\*/)
  expect(
    Object.fromEntries(
      ['referrer-policy', 'cache-control', 'x-content-type-options', 'x-frame-options', 'x-robots-tag'].map(
        (name) => [name, page.headers.get(name)],
      ),
    ),
  ).toEqual({
    'referrer-policy': 'no-referrer',
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    'x-frame-options': 'DENY',
    'x-robots-tag': 'noindex',
  })
  expect(page.headers.get('set-cookie')).toBeNull()
  expect(text.replace(`<script>${script}</script>`, '')).not.toMatch(
    /<script|\son\w+=|https?:\/\/(?!127\.0\.0\.1)/i,
  )
})

test('P03 a form from another origin, or without the page’s nonce, is refused as `cross_origin`', async () => {
  const { approval } = await askApproval()
  const link = await fixtures.link(fixtures.root, approval.id)
  const nonce = await nonceOf(link)
  const other = await askApproval()
  const theirs = await nonceOf(await fixtures.link(fixtures.root, other.approval.id))
  for (const [why, sent] of [
    ['another origin', { nonce, headers: { origin: 'https://evil.example' } }],
    ['an origin that only begins like ours', { nonce, headers: { origin: `${origin}.evil.example` } }],
    ['another port', { nonce, headers: { origin: origin.replace(/:\d+$/, ':1') } }],
    ['another scheme', { nonce, headers: { origin: origin.replace('http:', 'https:') } }],
    ['an opaque origin', { nonce, headers: { origin: 'null' } }],
    [
      'an opaque origin, sent across sites',
      { nonce, headers: { origin: 'null', 'sec-fetch-site': 'cross-site' } },
    ],
    ['no origin', { nonce, headers: {} }],
    ['no origin, and a referrer', { nonce, headers: { referer: link } }],
    ['a fetch across sites', { nonce, headers: { origin, 'sec-fetch-site': 'cross-site' } }],
    ['a fetch from a neighbour', { nonce, headers: { origin, 'sec-fetch-site': 'same-site' } }],
    ['no nonce', { nonce: '' }],
    ['a wrong nonce', { nonce: 'A'.repeat(43) }],
    ['the nonce of another approval', { nonce: theirs }],
    ['the MAC of the link', { nonce: link.slice(link.lastIndexOf('.') + 1) }],
    ['the nonce in JSON', { type: 'application/json', body: JSON.stringify({ nonce, decision: 'approve' }) }],
    ['the nonce in plain text', { type: 'text/plain', body: `nonce=${nonce}&decision=approve` }],
    [
      'the nonce in a multipart form',
      {
        type: 'multipart/form-data; boundary=x',
        body: `--x\r\ncontent-disposition: form-data; name="nonce"\r\n\r\n${nonce}\r\n--x--`,
      },
    ],
    ['a body beyond any form', { body: `nonce=${nonce}&decision=approve&reason=${'x'.repeat(100_000)}` }],
  ] as const) {
    expect([why, await post(link, sent)]).toEqual([why, 403])
  }
  for (const decision of ['', 'maybe', 'APPROVE', 'approve,deny', 'approve\n'])
    expect([decision, await post(link, { nonce, decision })]).toEqual([decision, 400])
  expect(await post(link, { nonce, reason: 'x'.repeat(LIMITS.reason_chars + 1) })).toBe(400)
  expect(await statusOf(approval.id)).toBe('pending')
  expect(await post(link, { nonce, headers: { origin, 'sec-fetch-site': 'same-origin' } })).toBe(200)
})

test('P03 `Origin: null` is accepted, because our own referrer policy makes browsers send it', async () => {
  const { approval } = await askApproval()
  const link = await fixtures.link(fixtures.root, approval.id)
  expect(
    await post(link, {
      nonce: await nonceOf(link),
      headers: { origin: 'null', 'sec-fetch-site': 'same-origin' },
    }),
  ).toBe(200)
})

test('P04 exactly one of a thousand concurrent answers decides, and the others learn the outcome', {
  timeout: 120_000,
}, async () => {
  const call = await askApproval()
  const link = await fixtures.link(fixtures.root, call.approval.id)
  const nonce = await nonceOf(link)
  const statuses = await Promise.all(
    Array.from({ length: 1_000 }, (_, i) =>
      post(link, { nonce, decision: i % 2 === 0 ? 'approve' : 'deny' }),
    ),
  )
  expect(statuses.filter((status) => status === 200)).toHaveLength(1)
  expect(statuses.filter((status) => status === 409)).toHaveLength(999)
  const kinds = unwrap(await agent.client('readJournal', { params: { run: call.run } })).items.map(
    ({ kind }) => kind,
  )
  expect(kinds.filter((kind) => kind === 'approved' || kind === 'rejected')).toHaveLength(1)
  expect(
    unwrap(await fixtures.root('readApproval', { params: { id: call.approval.id } })).answers,
  ).toHaveLength(1)
})

test('P04 a used link refuses the same answer as well as the opposite one', async () => {
  for (const first of ['approve', 'deny']) {
    const { approval } = await askApproval()
    const link = await fixtures.link(fixtures.root, approval.id)
    const nonce = await nonceOf(link)
    expect(await post(link, { nonce, decision: first })).toBe(200)
    for (const decision of ['approve', 'deny']) expect(await post(link, { nonce, decision })).toBe(409)
    const page = await (await fetch(link)).text()
    expect([page.includes('<form'), page.includes('<button')]).toEqual([false, false])
    expect(await statusOf(approval.id)).toBe(first === 'approve' ? 'approved' : 'denied')
    expect(unwrap(await fixtures.root('readApproval', { params: { id: approval.id } })).url).toBeUndefined()
  }
})

test('P05 an expired link answers 410 for every method and says so', { timeout: 30_000 }, async () => {
  const urgent = await fixtures.tool({ capabilities: ['network'], approval_ttl_s: 2 })
  const call = await fixtures.proposeForApproval(agent.client, urgent)
  const link = await fixtures.link(fixtures.root, call.approval.id)
  const nonce = await nonceOf(link)
  expect(call.approval.expires_at - call.created_at_ms).toBe(2_000)
  await eventually('the clock is past the expiry', () => Date.now() > call.approval.expires_at)
  expect(await post(link, { nonce })).toBe(410) // whether or not the alarm has fired
  expect(refusalOf(await fixtures.approve(call.approval.id))).toBe('410 approval_expired')
  await eventually(
    'the call has expired',
    async () =>
      unwrap(await agent.client('readCall', { params: { run: call.run, call: call.id } })).state ===
      'expired',
  )
  for (const decision of ['approve', 'deny']) expect(await post(link, { nonce, decision })).toBe(410)
  expect(
    refusalOf(
      await fixtures.root('answerApproval', { params: { id: call.approval.id }, body: { decision: 'deny' } }),
    ),
  ).toBe('410 approval_expired')
  const page = await fetch(link)
  const text = await page.text()
  expect([page.status, text.includes('<form'), /expired/i.test(text)]).toEqual([410, false, true])
  expect(await statusOf(call.approval.id)).toBe('expired')
})

test('P06 a link with one changed character is invalid and shows nothing of the call', async () => {
  const { approval } = await askApproval()
  const link = await fixtures.link(fixtures.root, approval.id)
  const start = link.lastIndexOf('/') + 1
  for (let at = start; at < link.length; at++) {
    const char = link[at] === 'A' ? 'B' : 'A'
    const page = await fetch(link.slice(0, at) + char + link.slice(at + 1))
    const text = await page.text()
    expect([at, page.status, text.includes(sensitive)]).toEqual([at, 401, false])
  }
  for (const token of [
    '',
    'x',
    '..',
    `${link.slice(start)}x`,
    link.slice(start, -1),
    '%2e%2e%2f',
    'a.b.c.d.e',
    'null',
  ])
    expect([401, 404]).toContain((await fetch(`${origin}/approve/${token}`)).status)
})

test('P07 the link of one call does not answer another call, and a denial can’t be turned into an approval', async () => {
  const [one, two] = [await askApproval(), await askApproval()]
  const [first, second] = [
    await fixtures.link(fixtures.root, one.approval.id),
    await fixtures.link(fixtures.root, two.approval.id),
  ]
  const swapped = second.replace(two.approval.id, one.approval.id)
  expect((await fetch(swapped)).status).toBe(401)
  expect(await post(swapped, { nonce: await nonceOf(second) })).toBe(401)
  expect(await post(first, { nonce: await nonceOf(second) })).toBe(403)
  expect([await statusOf(one.approval.id), await statusOf(two.approval.id)]).toEqual(['pending', 'pending'])
  expect(
    await post(first, {
      nonce: await nonceOf(first),
      body: `nonce=${await nonceOf(first)}&decision=deny&decision=approve`,
    }),
  ).toBe(400)
  expect(await statusOf(one.approval.id)).toBe('pending') // a form with two values counts as none
})

test('P09 an answer counts for the operator of the link, and only while they may answer', async () => {
  const [approver, leaving, demoted] = [
    await fixtures.operator(['approver']),
    await fixtures.operator(['approver']),
    await fixtures.operator(['approver']),
  ]
  const { approval } = await askApproval()
  const links = {
    approver: await fixtures.link(approver.client, approval.id),
    leaving: await fixtures.link(leaving.client, approval.id),
    demoted: await fixtures.link(demoted.client, approval.id),
  }
  expect(new Set(Object.values(links)).size).toBe(3)
  const nonces = { leaving: await nonceOf(links.leaving), demoted: await nonceOf(links.demoted) }
  unwrap(await fixtures.root('deleteOperator', { params: { name: leaving.name } }))
  unwrap(await fixtures.root('putOperator', { params: { name: demoted.name }, body: { roles: ['auditor'] } }))
  expect(await post(links.leaving, { nonce: nonces.leaving })).toBe(401)
  expect(await post(links.demoted, { nonce: nonces.demoted })).toBe(403)
  expect(await statusOf(approval.id)).toBe('pending')
  expect(await post(links.approver, { nonce: await nonceOf(links.approver), reason: 'fine' })).toBe(200)
  expect(unwrap(await fixtures.root('readApproval', { params: { id: approval.id } })).answers).toMatchObject([
    { by: approver.name, decision: 'approve', channel: 'link', reason: 'fine' },
  ])
})

test('P09 an operator who may not answer gets no link and can’t answer in another way', async () => {
  const auditor = await fixtures.operator(['auditor'])
  const { approval } = await askApproval()
  expect(unwrap(await auditor.client('readApproval', { params: { id: approval.id } }))).not.toHaveProperty(
    'url',
  )
  await eventually('it is listed, without a link', async () => {
    const listed = unwrap(await auditor.client('listApprovals', { query: {} })).items
    expect(listed.filter(({ url }) => url !== undefined)).toEqual([])
    return listed.some(({ id }) => id === approval.id)
  })
  expect(
    refusalOf(
      await auditor.client('answerApproval', { params: { id: approval.id }, body: { decision: 'approve' } }),
    ),
  ).toBe('403 forbidden')
  const none = await fixtures.operator([])
  expect(refusalOf(await none.client('readApproval', { params: { id: approval.id } }))).toBe('403 forbidden')
  expect(refusalOf(await agent.client('readApproval', { params: { id: approval.id } }))).toBe('403 forbidden')
  expect(
    refusalOf(
      await agent.client('answerApproval', { params: { id: approval.id }, body: { decision: 'approve' } }),
    ),
  ).toBe('403 forbidden')
  expect(await statusOf(approval.id)).toBe('pending')
})

test('`link_revoked`: a revoked link shows and decides nothing; the approval and its other links still work', async () => {
  const [holder, other] = [await fixtures.operator(['approver']), await fixtures.operator(['approver'])]
  const call = await askApproval()
  const params = { id: call.approval.id }
  const [link, theirs] = [
    await fixtures.link(holder.client, params.id),
    await fixtures.link(other.client, params.id),
  ]
  const nonce = await nonceOf(link)
  const revoke = (of?: string) =>
    other.client('revokeLinks', { params, query: of === undefined ? {} : { of } })
  expect(refusalOf(await revoke('nobody-of-that-name'))).toBe('404 not_found')
  for (let again = 0; again < 2; again++)
    expect(unwrap(await revoke(holder.name))).toMatchObject({
      status: 'pending',
      links_revoked: [holder.name],
    })
  const page = await fetch(link)
  const text = await page.text()
  expect([
    page.status,
    /<form|<button|<script/.test(text),
    text.includes(sensitive),
    text.includes('was revoked'),
  ]).toEqual([410, false, false, true])
  expect([await post(link, { nonce }), (await fetch(`${link}/events`)).status]).toEqual([410, 410])
  expect(unwrap(await holder.client('readApproval', { params })).url).toBeUndefined()
  expect((await fetch(theirs)).status).toBe(200)
  expect(unwrap(await revoke())).toMatchObject({ status: 'pending', links_revoked: 'all' })
  expect([
    (await fetch(theirs)).status,
    await fixtures.root('readApproval', { params }).then((one) => unwrap(one).url),
  ]).toEqual([410, undefined])
  expect(
    refusalOf(await (await fixtures.operator(['auditor'])).client('revokeLinks', { params, query: {} })),
  ).toBe('403 forbidden')
  // The operator of the link may still answer in another way, and other links still work.
  unwrap(await holder.client('answerApproval', { params, body: { decision: 'approve' } }))
  expect([(await fetch(link)).status, await statusOf(params.id)]).toEqual([410, 'approved'])
  const ended = await askApproval()
  unwrap(
    await fixtures.root('answerApproval', { params: { id: ended.approval.id }, body: { decision: 'deny' } }),
  )
  expect(
    refusalOf(await fixtures.root('revokeLinks', { params: { id: ended.approval.id }, query: {} })),
  ).toBe('409 already_ended')
  const journal = unwrap(await agent.client('readJournal', { params: { run: call.run } })).items
  expect(
    journal.filter(({ kind }) => kind === 'links_revoked').map(({ body }) => [body['by'], body['of']]),
  ).toEqual([
    [other.name, holder.name],
    [other.name, null],
  ])
})

test('an answer that comes after a concurrent revocation is refused with the reason', async () => {
  for (let round = 0; round < 10; round++) {
    const { approval } = await askApproval()
    const link = await fixtures.link(fixtures.root, approval.id)
    const nonce = await nonceOf(link)
    const [status, revoked] = await Promise.all([
      post(link, { nonce }),
      fixtures.root('revokeLinks', { params: { id: approval.id }, query: {} }),
    ])
    expect([`${status} ${revoked.ok}`, await statusOf(approval.id)]).toEqual(
      revoked.ok ? ['410 true', 'pending'] : ['200 false', 'approved'],
    )
  }
})

test('an answer that is being processed when its link is revoked does not count', async () => {
  const { approval } = await askApproval()
  const params = { id: approval.id }
  const link = await fixtures.link(fixtures.root, approval.id)
  const form = new URLSearchParams({ nonce: await nonceOf(link), decision: 'approve' }).toString()
  const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>()
  const headers = { origin, 'content-type': 'application/x-www-form-urlencoded' }
  const sent = { method: 'POST', headers, body: readable, duplex: 'half' } as RequestInit // Node accepts a stream here, but its types do not
  const answering = fetch(link, sent)
  const writer = writable.getWriter()
  await writer.write(Buffer.from(form.slice(0, 10)))
  for (let i = 0; i < 20; i++) await (await fetch(link)).arrayBuffer() // by now the edge has checked the link and waits for the form
  unwrap(await fixtures.root('revokeLinks', { params, query: {} }))
  await writer.write(Buffer.from(form.slice(10)))
  await writer.close()
  expect([(await answering).status, await statusOf(approval.id)]).toEqual([410, 'pending'])
})

test('an agent never sees a link that decides', async () => {
  const call = await askApproval()
  const link = await fixtures.link(fixtures.root, call.approval.id)
  const seen = JSON.stringify([
    call,
    unwrap(await agent.client('readCall', { params: { run: call.run, call: call.id } })),
    unwrap(await agent.client('readJournal', { params: { run: call.run } })),
  ])
  expect(seen).not.toContain('/approve/')
  expect(seen).not.toContain(link.slice(link.lastIndexOf('.') + 1))
  const page = await fetch(call.approval.page) // the console's page: it asks to sign in
  expect([page.status, page.headers.get('content-type')]).toEqual([401, 'text/html; charset=utf-8'])
  expect(await page.text()).toContain(`name="back" value="/console/approvals/${call.approval.id}"`)
})
