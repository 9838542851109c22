// How approvals reach people beside the inbox: channels as operators set them up, as they are shown, and what became of each message.

import { z } from 'zod'
import { ApprovalId, Name } from '../fields.ts'
import { LIMITS } from '../limits.ts'

/**
 * Of every kind. A message that is due when the approval has ended is not sent: so `after_s` puts channels in an order, each a second
 * try.
 */
const after_s = z.int().min(0).max(LIMITS.approval_ttl_max_s).default(0)
const use = {
  after_s,
  /** Whether skills may post here, those whose manifests name the channel. Absent: no. */
  notices: z.literal(true).optional(),
}
const timing = {
  ...use,
  /**
   * Each of these people gets a message with a link of their own. Without: one message for whoever reads the channel, and no link that
   * decides.
   */
  recipients: z
    .strictObject({
      roles: z.array(Name).max(16).default([]),
      operators: z.array(Name).max(LIMITS.channel_recipients).default([]),
    })
    .optional(),
}

const WebhookSpec = z.strictObject({
  kind: z.literal('webhook'),
  url: z.string().min(1).max(LIMITS.channel_url_chars),
  /** `whsec_…` (HMAC) or `whsk_…` (Ed25519); all of them sign, so that a receiver can change from one to the next. */
  keys: z
    .array(
      z
        .string()
        .regex(
          /^(?:whsec_|whsk_)[A-Za-z0-9+/]{16,128}={0,2}$/,
          'is not `whsec_` or `whsk_` and a key in base64',
        ),
    )
    .min(1)
    .max(LIMITS.channel_keys),
  ...timing,
})

/** As an envelope has it: no display name, no quotes, nothing that could end a line. */
const Address = z
  .string()
  .max(254)
  .regex(
    /^[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@(?:[A-Za-z0-9][A-Za-z0-9-]{0,62}\.)+[A-Za-z][A-Za-z0-9-]{1,62}$/,
    'is not an address',
  )
const ProviderToken = z.string().regex(/^[\x21-\x7e]{1,256}$/)

const EmailSpec = z.strictObject({
  kind: z.literal('email'),
  from: Address,
  /** Where operators are written to, each with a mail and a link of their own. Without `recipients`, all of these are. */
  addresses: z
    .record(Name, Address)
    .refine((all) => Object.keys(all).length >= 1 && Object.keys(all).length <= LIMITS.channel_recipients, {
      message: `names from 1 to ${LIMITS.channel_recipients} operators`,
    }),
  via: z.discriminatedUnion('provider', [
    z.strictObject({ provider: z.literal('resend'), token: ProviderToken }),
    z.strictObject({
      provider: z.literal('postmark'),
      token: ProviderToken,
      stream: z
        .string()
        .regex(/^[a-z0-9-]{1,64}$/)
        .default('outbound'),
    }),
    /** Nothing is sent: mails wait until they are collected, for a mail server of one's own. */
    z.strictObject({ provider: z.literal('outbox') }),
  ]),
  ...timing,
})

/** Slack's ids of an app, a workspace, a conversation, a person. */
const slackId = (first: string) => {
  const examples = [...first].map((letter) => `\`${letter}0123456789\``).join(' or ')
  return z
    .string()
    .regex(
      new RegExp(`^[${first}][A-Z0-9]{2,30}$`),
      `is not an id of Slack, such as ${examples}; a name is none`,
    )
}

/** An app in a Slack workspace: its messages have buttons that answer. */
const SlackSpec = z.strictObject({
  kind: z.literal('slack'),
  bot_token: z.string().regex(/^xoxb-[A-Za-z0-9-]{10,250}$/, 'is not a bot’s token, `xoxb-…`'),
  signing_secret: z
    .string()
    .regex(/^[A-Za-z0-9]{16,128}$/, 'is not a signing secret of a Slack app: letters and digits'),
  app_id: slackId('A'),
  team_id: slackId('T'),
  /** The conversation that is written to, where there are no `recipients`; those are each written to by themselves. */
  channel: slackId('CGD').optional(),
  /** Who of Slack is which operator. Nobody else answers. */
  users: z
    .record(slackId('UW'), Name)
    .refine((users) => Object.keys(users).length <= LIMITS.channel_users, `at most ${LIMITS.channel_users}`),
  ...timing,
})

/** Only an incoming webhook of Slack: its messages lead to the console, for whoever reads them is not known. */
const SlackWebhookSpec = z.strictObject({
  kind: z.literal('slack-webhook'),
  webhook_url: z.string().min(1).max(LIMITS.channel_url_chars),
  ...use,
})

export const ChannelSpec = z.discriminatedUnion('kind', [WebhookSpec, EmailSpec, SlackSpec, SlackWebhookSpec])
export type ChannelSpec = z.infer<typeof ChannelSpec>

/**
 * A channel without its secrets: those go in and never come out. `to`, in every kind: where it writes, without what is secret of an
 * address.
 */
const WebhookShown = z.strictObject({
  kind: z.literal('webhook'),
  to: z.string(),
  /** `public`: what an Ed25519 key's signatures are verified with. */
  keys: z.array(z.strictObject({ scheme: z.enum(['v1', 'v1a']), public: z.string().optional() })),
  ...timing,
})
/** `to` is the provider. */
const EmailShown = z.strictObject({
  kind: z.literal('email'),
  to: z.string(),
  from: z.string(),
  addresses: z.record(Name, z.string()),
  ...timing,
})
const SlackShown = SlackSpec.omit({ bot_token: true, signing_secret: true }).extend({ to: z.string() })
const SlackWebhookShown = SlackWebhookSpec.omit({ webhook_url: true }).extend({ to: z.string(), ...timing })

const ChannelShown = z.discriminatedUnion('kind', [WebhookShown, EmailShown, SlackShown, SlackWebhookShown])
export type ChannelShown = z.infer<typeof ChannelShown>

export const Channel = z.strictObject({
  name: Name,
  put_by: z.string(),
  put_at_ms: z.int(),
  channel: ChannelShown,
})
export type Channel = z.infer<typeof Channel>

/** Somebody who is away: who is asked too, and until when. It gives nobody a right. */
export const Delegation = z.strictObject({ operator: Name, to: Name, until_ms: z.int(), put_at_ms: z.int() })
export type Delegation = z.infer<typeof Delegation>

/** What waits in an outbox: `message` is a whole mail as RFC 5322 has it, and holds its recipient's link. */
export const Collected = z.strictObject({ id: z.string(), message: z.string() })
export type Collected = z.infer<typeof Collected>

/**
 * `due`: waits for its time, its next attempt, or to be collected. `failed`: given up; `why` says so. `dropped`: no longer of use
 * before it was sent.
 */
export const DeliveryState = z.enum(['due', 'sent', 'failed', 'dropped'])
export type DeliveryState = z.infer<typeof DeliveryState>

export const Delivery = z.strictObject({
  /** The same at each attempt; a webhook's `webhook-id`. */
  id: z.string(),
  /** What it is about: an approval, or a notice, which is called by its call and a number. */
  approval: ApprovalId.nullable(),
  notice: z.string().nullable(),
  kind: z.enum(['asked', 'ended', 'notice']),
  recipient: z.string().nullable(),
  /** Who is away, where the recipient is asked for that. */
  instead_of: z.string().nullable(),
  state: DeliveryState,
  tries: z.int(),
  next_at_ms: z.int().nullable(),
  changed_at_ms: z.int(),
  why: z.string().nullable(),
})
export type Delivery = z.infer<typeof Delivery>
