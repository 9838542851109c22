// Channels, which take approvals to people outside of the inbox: their settings, their public view,
// and the delivery state of each message.

import { z } from 'zod'
import { ApprovalId, Name } from '../fields.ts'
import { LIMITS } from '../limits.ts'

/**
 * Delay before a channel writes. A message whose approval has ended when it is due is not sent, so
 * `after_s` makes a later channel the fallback of an earlier one.
 */
const after_s = z.int().min(0).max(LIMITS.approval_ttl_max_s).default(0)
const use = {
  after_s,
  /** Whether skills whose manifests name the channel may post notices here. Absent: no. */
  notices: z.literal(true).optional(),
}
/**
 * Each of these people gets a message with a personal link. Without recipients, the channel gets
 * one message, without a link that can answer.
 */
export const Recipients = z.strictObject({
  roles: z.array(Name).max(16).default([]),
  operators: z.array(Name).max(LIMITS.channel_recipients).default([]),
})
const timing = { ...use, recipients: Recipients.optional() }

const WebhookSpec = z.strictObject({
  kind: z.literal('webhook'),
  url: z.string().min(1).max(LIMITS.channel_url_chars),
  /**
   * `whsec_…` (HMAC) or `whsk_…` (Ed25519). Every key signs each message, so that receivers can
   * rotate.
   */
  keys: z
    .array(
      z
        .string()
        .regex(
          /^(?:whsec_|whsk_)[A-Za-z0-9+/]{16,128}={0,2}$/,
          'must be `whsec_` or `whsk_` followed by a key in base64',
        ),
    )
    .min(1)
    .max(LIMITS.channel_keys),
  ...timing,
})

/**
 * An address of an SMTP envelope: no display name, no quotes, nothing that could end a header line.
 */
const Address = z
  .string()
  .max(254)
  .regex(
    /^[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@(?:[A-Za-z0-9][A-Za-z0-9-]{0,62}\.)+[A-Za-z][A-Za-z0-9-]{1,62}$/,
    'is not an e-mail address, such as name@example.com',
  )
const ProviderToken = z.string().regex(/^[\x21-\x7e]{1,256}$/)

const EmailSpec = z.strictObject({
  kind: z.literal('email'),
  from: Address,
  /**
   * The addresses of operators. Each gets a mail with a personal link. Without `recipients`, all of
   * them do.
   */
  addresses: z
    .record(Name, Address)
    .refine((all) => Object.keys(all).length >= 1 && Object.keys(all).length <= LIMITS.channel_recipients, {
      message: `must name 1 to ${LIMITS.channel_recipients} operators`,
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
    /** Mails are not sent but wait until the tenant's own mail server collects them. */
    z.strictObject({ provider: z.literal('outbox') }),
  ]),
  ...timing,
})

/** A Slack id of an app, workspace, conversation or person, by its first letter. */
const slackId = (first: string) => {
  const examples = [...first].map((letter) => `\`${letter}0123456789\``).join(' or ')
  return z
    .string()
    .regex(
      new RegExp(`^[${first}][A-Z0-9]{2,30}$`),
      `is not a Slack id such as ${examples}; send the id, not the name`,
    )
}

/** An app in a Slack workspace: its messages have buttons that answer. */
const SlackSpec = z.strictObject({
  kind: z.literal('slack'),
  bot_token: z.string().regex(/^xoxb-[A-Za-z0-9-]{10,250}$/, 'is not the token of a Slack bot (`xoxb-…`)'),
  signing_secret: z
    .string()
    .regex(
      /^[A-Za-z0-9]{16,128}$/,
      'is not the signing secret of a Slack app, which has only letters and digits',
    ),
  app_id: slackId('A'),
  team_id: slackId('T'),
  /**
   * The conversation to write to if there are no `recipients`; recipients each get a direct
   * message.
   */
  channel: slackId('CGD').optional(),
  /** Which Slack user is which operator. Nobody else can answer. */
  users: z
    .record(slackId('UW'), Name)
    .refine((users) => Object.keys(users).length <= LIMITS.channel_users, `at most ${LIMITS.channel_users}`),
  ...timing,
})

/**
 * An incoming webhook of Slack. Its readers are unknown, so its messages only link to the console.
 */
const SlackWebhookSpec = z.strictObject({
  kind: z.literal('slack-webhook'),
  webhook_url: z.string().min(1).max(LIMITS.channel_url_chars),
  ...use,
})

export const ChannelSpec = z.discriminatedUnion('kind', [WebhookSpec, EmailSpec, SlackSpec, SlackWebhookSpec])
export type ChannelSpec = z.infer<typeof ChannelSpec>

/**
 * A channel as the API returns it: without its secrets. `to` is its destination, without the secret
 * parts of a URL.
 */
const WebhookView = z.strictObject({
  kind: z.literal('webhook'),
  to: z.string(),
  /** `public`: the public key that verifies an Ed25519 key's signatures. */
  keys: z.array(z.strictObject({ scheme: z.enum(['v1', 'v1a']), public: z.string().optional() })),
  ...timing,
})
/** `to` is the provider. */
const EmailView = z.strictObject({
  kind: z.literal('email'),
  to: z.string(),
  from: z.string(),
  addresses: z.record(Name, z.string()),
  ...timing,
})
const SlackView = SlackSpec.omit({ bot_token: true, signing_secret: true }).extend({ to: z.string() })
const SlackWebhookView = SlackWebhookSpec.omit({ webhook_url: true }).extend({ to: z.string(), ...timing })

const ChannelShown = z.discriminatedUnion('kind', [WebhookView, EmailView, SlackView, SlackWebhookView])
export type ChannelShown = z.infer<typeof ChannelShown>

export const Channel = z.strictObject({
  name: Name,
  put_by: z.string(),
  put_at_ms: z.int(),
  channel: ChannelShown,
})
export type Channel = z.infer<typeof Channel>

/** An absence: who is asked in addition, and until when. It grants no permission. */
export const Delegation = z.strictObject({ operator: Name, to: Name, until_ms: z.int(), put_at_ms: z.int() })
export type Delegation = z.infer<typeof Delegation>

/**
 * A mail that waited in an outbox: `message` is a complete RFC 5322 message with its recipient's
 * link.
 */
export const Collected = z.strictObject({ id: z.string(), message: z.string() })
export type Collected = z.infer<typeof Collected>

/**
 * `due`: waits for its time, its next attempt, or its collection. `failed`: given up, for the
 * reason in `why`. `dropped`: the message no longer mattered before it was sent.
 */
export const DeliveryState = z.enum(['due', 'sent', 'failed', 'dropped'])
export type DeliveryState = z.infer<typeof DeliveryState>

export const Delivery = z.strictObject({
  /** The same for each attempt; the `webhook-id` of a webhook. */
  id: z.string(),
  /** The subject: an approval, or a notice, whose id is its call and a number. */
  approval: ApprovalId.nullable(),
  notice: z.string().nullable(),
  kind: z.enum(['asked', 'ended', 'notice']),
  recipient: z.string().nullable(),
  /** The absent operator, if the recipient is their delegate. */
  instead_of: z.string().nullable(),
  state: DeliveryState,
  tries: z.int(),
  next_at_ms: z.int().nullable(),
  changed_at_ms: z.int(),
  why: z.string().nullable(),
})
export type Delivery = z.infer<typeof Delivery>
