// The channel for mail: one mail to each operator that has an address, with a link of their own. It is sent by a provider's HTTP API, or
// waits to be collected for a mail server of one's own. A mail can't be taken back and another would only add to the heap, so nobody is
// told of the end: the page behind the link says it.

import { parseJson } from '../../../shared/bytes/json.ts'
import type { Result } from '../../../shared/result.ts'
import { err, ok } from '../../../shared/result.ts'
import type { ChannelSpec } from '../../../shared/wire/channels.ts'
import type { Answered, Medium, Message, Noted, Post, Posted, Sent, Undelivered } from '../medium.ts'
import { type Mail, mailOf, noticeMail } from './content.ts'
import { type Envelope, rfc5322 } from './mime.ts'

type EmailSpec = Extract<ChannelSpec, { kind: 'email' }>
type Via<P extends EmailSpec['via']['provider']> = Extract<EmailSpec['via'], { provider: P }>

/** Two providers behind it: what is asked of each, and which member of its refusals is its code for what is wrong. */
type Provider = {
  readonly posted: (mail: Mail, envelope: Envelope) => Posted
  readonly code: 'name' | 'ErrorCode'
}

export function email({ from, addresses, via, recipients, kind, ...use }: EmailSpec): Medium {
  const asked = recipients ?? { roles: [], operators: Object.keys(addresses) }
  const shown = { kind, to: via.provider, from, addresses, ...use, recipients: asked }
  const medium = { shown, fault: () => undefined, update: null }
  if (via.provider === 'outbox') {
    const collected = (message: Message | Noted): Result<string, Undelivered> => {
      const to = addressOf(addresses, message)
      return to.ok ? ok(rfc5322(mailFor(message), { from, to: to.value })) : to
    }
    const deliver = async (): Promise<Sent> =>
      err({ again: false, why: 'nothing is sent from here: mails wait to be collected' })
    return { ...medium, deliver, tell: deliver, collected }
  }
  const { posted, code } = providerOf(via)
  const deliver = async (message: Message | Noted, post: Post): Promise<Sent> => {
    const to = addressOf(addresses, message)
    if (!to.ok) return to
    const answer = await post(posted(mailFor(message), { from, to: to.value }), 'read')
    return answer.ok ? taken(via.provider, code, answer.value) : answer
  }
  return { ...medium, deliver, tell: deliver }
}

const mailFor = (message: Message | Noted): Mail =>
  'notice' in message ? noticeMail(message) : mailOf(message)

/** A link goes to its recipient's address and to no other; a test without a recipient to the first there is. */
function addressOf(addresses: EmailSpec['addresses'], message: Message | Noted): Result<string, Undelivered> {
  const whose =
    message.recipient ??
    ('kind' in message && message.kind === 'test' ? Object.keys(addresses)[0] : undefined)
  const address = whose !== undefined && Object.hasOwn(addresses, whose) ? addresses[whose] : undefined
  return address === undefined
    ? err({ again: false, why: 'the channel has no address for the recipient' })
    : ok(address)
}

function providerOf(via: Exclude<EmailSpec['via'], { provider: 'outbox' }>): Provider {
  switch (via.provider) {
    case 'resend':
      return resend(via)
    case 'postmark':
      return postmark(via)
  }
}

/** So that no out-of-office answers it (RFC 3834). */
const AUTOMATIC = ['Auto-Submitted', 'auto-generated'] as const

const resend = ({ token }: Via<'resend'>): Provider => ({
  code: 'name',
  posted: ({ id, subject, text, html }, { from, to }) => ({
    to: 'https://api.resend.com/emails',
    // Sends nothing twice under one key, for a day.
    headers: {
      authorization: `Bearer ${token}`,
      'content-type': 'application/json',
      'user-agent': 'countersign',
      'idempotency-key': id,
    },
    body: JSON.stringify({
      from: `Countersign <${from}>`,
      to: [to],
      subject,
      text,
      html,
      headers: Object.fromEntries([AUTOMATIC]),
    }),
  }),
})

const postmark = ({ token, stream }: Via<'postmark'>): Provider => ({
  code: 'ErrorCode',
  posted: ({ id, subject, text, html }, { from, to }) => ({
    to: 'https://api.postmarkapp.com/email',
    headers: {
      'x-postmark-server-token': token,
      accept: 'application/json',
      'content-type': 'application/json',
      'user-agent': 'countersign',
    },
    body: JSON.stringify({
      From: `Countersign <${from}>`,
      To: to,
      Subject: subject,
      TextBody: text,
      HtmlBody: html,
      MessageStream: stream,
      Headers: [{ Name: AUTOMATIC[0], Value: AUTOMATIC[1] }],
      Metadata: { message: id },
      // A link that leads through somebody else's counter is a link in somebody else's hands.
      TrackOpens: false,
      TrackLinks: 'None',
    }),
  }),
})

/** A refusal that no repetition mends is final: the token, an address, an unverified sender. `retry` tries it again once it is mended. */
function taken(provider: string, member: Provider['code'], { status, pause_ms, text }: Answered): Sent {
  if (status >= 200 && status < 300) return ok({ ref: null })
  const again = status === 408 || status === 409 || status === 429 || status >= 500
  const code = codeIn(text, member)
  const why = `${provider} answered ${status}${code === undefined ? '' : ` (${code})`}`
  return err({ again, why, ...(pause_ms === undefined ? {} : { pause_ms }) })
}

/** A provider's own word for what is wrong; nothing else that it says is shown. */
function codeIn(text: string, member: Provider['code']): string | undefined {
  const read = parseJson(Buffer.from(text))
  if (!read.ok || typeof read.value !== 'object' || read.value === null || Array.isArray(read.value))
    return undefined
  const code = read.value[member]
  if (typeof code === 'number') return String(code)
  return typeof code === 'string' && /^[a-z_]{1,64}$/.test(code) ? code : undefined
}
