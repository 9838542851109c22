// A mail shows an agent's text literally, without headers, markup or hidden characters of it, and
// its link goes only to its recipient (P06).

import { expect, test } from 'vitest'
import { mailOf } from '../../../edge/channels/email/content.ts'
import { email } from '../../../edge/channels/email/email.ts'
import { rfc5322 } from '../../../edge/channels/email/mime.ts'
import type { Message, Post, PostRequest } from '../../../edge/channels/medium.ts'
import { testApproval } from '../../../edge/channels/test-approval.ts'
import { ok } from '../../../shared/result.ts'
import { ChannelSpec } from '../../../shared/wire/channels.ts'

const LINK = 'https://edge.example/approve/default.apr_x.ann.z.mac'
const prompt = testApproval(0).prompt
const message = (change: Partial<typeof prompt> = {}, more: Partial<Message> = {}): Message => ({
  id: `msg_${'0'.repeat(32)}`,
  kind: 'asked',
  approval: {
    ...testApproval(1_800_000_000_000),
    status: 'pending',
    prompt: { ...prompt, title: 'dev wants to run process_run', ...change },
  },
  recipient: 'ann',
  link: LINK,
  page: 'https://edge.example/console',
  seal: () => '',
  at_ms: 1_800_000_000_000,
  ...more,
})
const HOSTILE = [
  'x\r\nBcc: mallory@example.com\r\n\r\n<script>alert(1)</script>',
  '</pre><a href="https://evil.example/approve">Review and answer</a><img src=x onerror=alert(1)>',
  '\u202egpj.exe\u200b\u2066\u00ad\u0000\u001b[31m',
  '<!channel> <@U123> `code` ```',
  '\'"&quot;&#39;',
  'line\n\nIf you approve:\n\nnothing happens',
  '=?utf-8?B?QmNj?=',
] as const

test('a text from an agent can’t add headers, markup or invisible characters to a mail', () => {
  for (const text of HOSTILE)
    for (const member of [
      'title',
      'agent',
      'tool',
      'command',
      'plan',
      'arguments',
      'on_yes',
      'reason',
      'agent_says',
    ] as const) {
      const mail = mailOf(message({ [member]: text }))
      expect(mail.subject).not.toMatch(/[\p{Cc}\p{Cf}]/u)
      expect(mail.text).not.toMatch(/(?!\n)[\p{Cc}\p{Cf}]/u)
      expect(mail.html).not.toMatch(/(?!\n)[\p{Cc}\p{Cf}]/u)
      // There is one link, ours, and only elements that our template writes.
      expect(mail.html.match(/href="[^"]*"/g)).toEqual([`href="${LINK}"`])
      expect(new Set([...mail.html.matchAll(/<([a-z!][a-z0-9]*)/gi)].map(([, name]) => name))).toEqual(
        new Set(['!doctype', 'html', 'head', 'meta', 'title', 'body', 'div', 'h1', 'p', 'a', 'pre']),
      )
      const eml = rfc5322(mail, { from: 'approvals@example.com', to: 'ann@example.com' })
      const [head = ''] = eml.split('\r\n\r\n')
      expect(head.split(/\r\n(?! )/).map((line) => line.split(':')[0])).toEqual([
        'Date',
        'Message-ID',
        'From',
        'To',
        'Subject',
        'Auto-Submitted',
        'MIME-Version',
        'Content-Type',
      ])
    }
  // Invisible characters are escaped, not dropped.
  expect(mailOf(message({ arguments: HOSTILE[2] })).text).toContain('\\u{202e}gpj.exe\\u{200b}')
})

test('each line of an agent’s text in a mail has a bar, so that none can look like ours', () => {
  const { text } = mailOf(message({ arguments: HOSTILE[5] }))
  expect(text.split('\n').filter((line) => line === 'If you approve:')).toHaveLength(1)
  expect(text).toContain('  | If you approve:')
  expect(text.indexOf(LINK)).toBeLessThan(text.indexOf('  | '))
})

test('a mail shows the agent’s reason as its own words, after all of our own text', () => {
  const { text, html } = mailOf(message({ agent_says: 'the customer asked\nfor it' }))
  expect(text).toMatch(
    /Digest of exactly this call:\n.*\n\nThe agent says \(not verified\):\n {2}\| the customer asked\n {2}\| for it\n$/,
  )
  expect(html).toMatch(/>The agent says \(not verified\)<\/p><pre [^>]*>the customer asked\nfor it<\/pre>/)
  for (const part of Object.values(mailOf(message()))) expect(String(part)).not.toContain('The agent says')
})

test('a mail shortens texts longer than `message_chars` and says so', () => {
  const { text, html } = mailOf(message({ arguments: 'x'.repeat(1_000_000) }))
  for (const part of [text, html]) {
    expect(part).toMatch(/996000 characters more, sha256 of all/)
    expect(part.length).toBeLessThan(20_000)
  }
})

test('a collected mail is ASCII in short lines and decodes to its subject and parts', () => {
  const long = 'ä€𝄞 wants '.repeat(15)
  const mail = mailOf(message({ title: long, arguments: 'grüße €' }))
  const eml = rfc5322(mail, { from: 'approvals@example.com', to: 'ann@example.com' })
  expect(eml).toMatch(/^[\x20-\x7e\r\n]*$/)
  expect(eml.replaceAll('\r\n', '')).not.toMatch(/[\r\n]/)
  expect(Math.max(...eml.split('\r\n').map(({ length }) => length))).toBeLessThanOrEqual(76)
  const words = [...eml.matchAll(/=\?utf-8\?B\?([A-Za-z0-9+/=]*)\?=/g)].map(([word, encoded = '']) => {
    expect(word.length).toBeLessThanOrEqual(75)
    return new TextDecoder('utf8', { fatal: true }).decode(Buffer.from(encoded, 'base64'))
  })
  expect(words.join('')).toBe(mail.subject)
  const [, plain, html] = eml.split(`--=_${mail.id}`)
  const content = (part = ''): string => Buffer.from(part.split('\r\n\r\n')[1] ?? '', 'base64').toString()
  expect([content(plain), content(html)]).toEqual([mail.text, mail.html])
  expect(eml).toContain(`Message-ID: <${mail.id}@example.com>`)
  expect(eml).toContain('Date: Fri, 15 Jan 2027 08:00:00 +0000')
})

test('a test mail has no link, a revoked link becomes a sign-in link, and a delegate learns who is away', () => {
  const tested = mailOf(message({}, { kind: 'test', recipient: null, link: null }))
  expect(tested.html).not.toContain('href')
  expect(tested.text).toContain('nothing to answer')
  const without = mailOf(message({}, { link: null }))
  expect(without.html.match(/href="[^"]*"/g)).toEqual(['href="https://edge.example/console"'])
  expect(without.text).toContain('Sign in there to answer')
  expect(mailOf(message()).text).not.toContain('stead')
  expect(mailOf(message({}, { insteadOf: 'bea' })).text).toContain('You are asked because bea is away')
})

const via = { provider: 'resend', token: 're_TOKEN' } as const
const spec = (change: object = {}) =>
  ChannelSpec.parse({
    kind: 'email',
    from: 'approvals@example.com',
    addresses: { ann: 'ann@example.com', bob: 'bob@example.com' },
    via,
    ...change,
  })
const medium = (change: object = {}) => {
  const read = spec(change)
  if (read.kind !== 'email') throw new Error('it is a mail channel')
  return email(read)
}

test('P06 a link is mailed only to its recipient’s address, and to nobody without one', async () => {
  const posted: PostRequest[] = []
  const post: Post = async (one) => {
    posted.push(one)
    return ok({ status: 200, pause_ms: undefined, text: '{}' })
  }
  await medium().deliver(message({}, { recipient: 'bob' }), post)
  expect(posted.map(({ body }) => (JSON.parse(body) as { to: unknown }).to)).toEqual([['bob@example.com']])
  for (const recipient of ['mallory', 'constructor', '__proto__', null])
    expect(await medium().deliver(message({}, { recipient }), post)).toMatchObject({
      ok: false,
      error: { again: false },
    })
  expect(posted).toHaveLength(1)
  // A test has no link, so it goes to the operator who asks for it or to any address.
  await medium().deliver(message({}, { kind: 'test', recipient: null, link: null }), post)
  expect(posted[1]?.body).toContain('ann@example.com')
})

test('mail addresses and tokens can’t contain line breaks, and a shown channel has no token', () => {
  for (const address of [
    'ann@example.com\r\nBcc: x@example.com',
    'Ann <ann@example.com>',
    'ann@localhost',
    'a b@example.com',
    '"a"@example.com',
    'ann@example.com,bob@example.com',
    '@example.com',
    'ann',
  ])
    for (const change of [{ from: address }, { addresses: { ann: address } }])
      expect([change, ChannelSpec.safeParse({ ...spec(), ...change }).success]).toEqual([change, false])
  for (const token of ['', 're_x\r\nx: y', 're x', 'ré'])
    expect([token, ChannelSpec.safeParse({ ...spec(), via: { provider: 'resend', token } }).success]).toEqual(
      [token, false],
    )
  expect(ChannelSpec.safeParse({ ...spec(), addresses: {} }).success).toBe(false)
  expect(JSON.stringify(medium().shown)).not.toContain('re_TOKEN')
})

test('a permanent refusal of a mail provider is final, and shows its error code but not its message', async () => {
  const said =
    (status: number, text: string, pause_ms?: number): Post =>
    async () =>
      ok({ status, pause_ms, text })
  const answer = async (change: object, post: Post) => {
    const sent = await medium(change).deliver(message(), post)
    return sent.ok ? 'sent' : sent.error
  }
  const postmark = { via: { provider: 'postmark', token: 't' } }
  expect(await answer({}, said(422, '{"name":"validation_error","message":"SECRET"}'))).toEqual({
    again: false,
    why: 'resend answered 422 (validation_error)',
  })
  expect(await answer(postmark, said(422, '{"ErrorCode":406,"Message":"SECRET"}'))).toEqual({
    again: false,
    why: 'postmark answered 422 (406)',
  })
  for (const text of ['', 'SECRET', '[]', 'null', '{"name":"<b>SECRET</b>"}', '{"name":{"a":1}}'])
    expect(await answer({}, said(403, text))).toEqual({ again: false, why: 'resend answered 403' })
  for (const status of [408, 409, 429, 500, 503])
    expect(await answer({}, said(status, ''))).toMatchObject({ again: true })
  expect(await answer({}, said(429, '', 7_000))).toMatchObject({ pause_ms: 7_000 })
  for (const status of [301, 307, 400, 401, 404])
    expect(await answer({}, said(status, ''))).toMatchObject({ again: false })
})
