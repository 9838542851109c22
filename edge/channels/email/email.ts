// The channel for mail: one mail to each recipient, with their personal link, through a provider's
// HTTP API or collected for the operator's mail server. A mail can't be changed once sent, so there
// is none about the end of an approval: the page behind the link shows it.

import { parseJson } from '../../../shared/bytes/json.ts'
import type { Result } from '../../../shared/result.ts'
import { err, ok } from '../../../shared/result.ts'
import type { ChannelSpec } from '../../../shared/wire/channels.ts'
import type {
  DeliveryFailure,
  DeliveryResult,
  Medium,
  Message,
  NoticeMessage,
  Post,
  PostRequest,
  PostResponse,
} from '../medium.ts'
import { type Mail, mailOf, noticeMail } from './content.ts'
import { type Envelope, rfc5322 } from './mime.ts'

type EmailSpec = Extract<ChannelSpec, { kind: 'email' }>
type Via<P extends EmailSpec['via']['provider']> = Extract<EmailSpec['via'], { provider: P }>

/** A provider's request, and the member of its error responses that holds the error code. */
type Provider = {
  readonly posted: (mail: Mail, envelope: Envelope) => PostRequest
  readonly code: 'name' | 'ErrorCode'
}

export function email({ from, addresses, via, recipients, kind, ...use }: EmailSpec): Medium {
  const asked = recipients ?? { roles: [], operators: Object.keys(addresses) }
  const shown = { kind, to: via.provider, from, addresses, ...use, recipients: asked }
  const medium = { shown, fault: () => undefined, update: null }
  if (via.provider === 'outbox') {
    const collected = (message: Message | NoticeMessage): Result<string, DeliveryFailure> => {
      const to = addressOf(addresses, message)
      return to.ok ? ok(rfc5322(mailFor(message), { from, to: to.value })) : to
    }
    const deliver = async (): Promise<DeliveryResult> =>
      err({ again: false, why: 'the channel sends nothing; its mails wait to be collected' })
    return { ...medium, deliver, notify: deliver, collected }
  }
  const { posted, code } = providerOf(via)
  const deliver = async (message: Message | NoticeMessage, post: Post): Promise<DeliveryResult> => {
    const to = addressOf(addresses, message)
    if (!to.ok) return to
    const answer = await post(posted(mailFor(message), { from, to: to.value }), 'read')
    return answer.ok ? taken(via.provider, code, answer.value) : answer
  }
  return { ...medium, deliver, notify: deliver }
}

const mailFor = (message: Message | NoticeMessage): Mail =>
  'notice' in message ? noticeMail(message) : mailOf(message)

/**
 * A link goes only to its recipient's address. A test without a recipient goes to the first
 * address.
 */
function addressOf(
  addresses: EmailSpec['addresses'],
  message: Message | NoticeMessage,
): Result<string, DeliveryFailure> {
  const operator =
    message.recipient ??
    ('kind' in message && message.kind === 'test' ? Object.keys(addresses)[0] : undefined)
  const address =
    operator !== undefined && Object.hasOwn(addresses, operator) ? addresses[operator] : undefined
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

/** Prevents out-of-office replies (RFC 3834). */
const AUTOMATIC = ['Auto-Submitted', 'auto-generated'] as const

const resend = ({ token }: Via<'resend'>): Provider => ({
  code: 'name',
  posted: ({ id, subject, text, html }, { from, to }) => ({
    to: 'https://api.resend.com/emails',
    // Resend sends nothing twice with the same idempotency key within a day.
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
      // Click tracking would give the approval link to the provider's redirect service.
      TrackOpens: false,
      TrackLinks: 'None',
    }),
  }),
})

/**
 * A refusal that no repetition can fix is final: a bad token or address, an unverified sender. An
 * operator fixes it and then runs `channels retry`.
 */
function taken(
  provider: string,
  member: Provider['code'],
  { status, pause_ms, text }: PostResponse,
): DeliveryResult {
  if (status >= 200 && status < 300) return ok({ ref: null })
  const again = status === 408 || status === 409 || status === 429 || status >= 500
  const code = codeIn(text, member)
  const why = `${provider} answered ${status}${code === undefined ? '' : ` (${code})`}`
  return err({ again, why, ...(pause_ms === undefined ? {} : { pause_ms }) })
}

/** The provider's error code. Nothing else of its response is shown. */
function codeIn(text: string, member: Provider['code']): string | undefined {
  const read = parseJson(Buffer.from(text))
  if (!read.ok || typeof read.value !== 'object' || read.value === null || Array.isArray(read.value))
    return undefined
  const code = read.value[member]
  if (typeof code === 'number') return String(code)
  return typeof code === 'string' && /^[a-z_]{1,64}$/.test(code) ? code : undefined
}
