// The two kinds of Slack channels: an app, whose messages have buttons and are replaced by the
// outcome, and an incoming webhook, whose messages lead to the console. Of an error response, only
// the name of the error is used.

import { z } from 'zod'
import { parseJson } from '../../../shared/bytes/json.ts'
import type { Result } from '../../../shared/result.ts'
import { err, ok } from '../../../shared/result.ts'
import type { ChannelSpec } from '../../../shared/wire/channels.ts'
import { faultInAddress } from '../../platform/outbound-fetch.ts'
import type {
  DeliveryFailure,
  DeliveryResult,
  Medium,
  Message,
  NoticeMessage,
  Post,
  PostResponse,
} from '../medium.ts'
import { acceptance } from '../medium.ts'
import type { Card } from './card.ts'
import { askedCard, endedCard, noticeCard, readersCard, testCard } from './card.ts'

export type SlackSpec = Extract<ChannelSpec, { kind: 'slack' }>

const API = 'https://slack.com/api'
/** The prefix of Slack's response URLs, which are valid for half an hour. */
const REPLIES = 'https://hooks.slack.com/'

/** Slack makes no mentions, links or previews out of the text. */
const LITERAL = { parse: 'none', link_names: false, unfurl_links: false, unfurl_media: false } as const

export function slack(spec: SlackSpec): Medium {
  const { bot_token: _, signing_secret: __, ...rest } = spec
  const send = async (message: Message | NoticeMessage, card: Card, post: Post): Promise<DeliveryResult> => {
    const channel = conversationFor(spec, message)
    if (channel === undefined) return err({ again: false, why: 'the recipient is not in `users`' })
    return resultOf(await call(spec, 'chat.postMessage', { channel, ...LITERAL, ...card }, post))
  }
  const deliver = (message: Message, post: Post): Promise<DeliveryResult> =>
    send(message, cardOf(message), post)
  return {
    shown: { ...rest, to: `${spec.channel ?? 'each recipient'} in ${spec.team_id}` },
    fault: () =>
      (spec.channel === undefined) === (spec.recipients === undefined)
        ? 'name either the Slack `channel` to post to, or the `recipients`, who each get their own message'
        : undefined,
    deliver,
    async update(message, ref, post) {
      const [channel, ts] = ref?.split(' ') ?? []
      // Without the id of the question's message, the outcome is a separate message.
      if (channel === undefined || ts === undefined) return deliver(message, post)
      const updated = resultOf(
        await call(spec, 'chat.update', { channel, ts, ...LITERAL, ...cardOf(message) }, post),
      )
      return updated.ok ? ok({ ref }) : updated
    },
    notify: (noted, post) => send(noted, noticeCard(noted.notice), post),
  }
}

export function slackWebhook(spec: Extract<ChannelSpec, { kind: 'slack-webhook' }>): Medium {
  const { webhook_url: to, ...rest } = spec
  const send = async (card: Card, post: Post): Promise<DeliveryResult> => {
    const answer = await post(json(to, { ...LITERAL, ...card }))
    const done = answer.ok ? acceptance(answer.value) : answer
    return done.ok ? ok({ ref: null }) : err(done.error)
  }
  const deliver = (message: Message, post: Post): Promise<DeliveryResult> =>
    send(message.kind === 'asked' ? readersCard(message) : cardOf(message), post)
  return {
    shown: { ...rest, to: URL.canParse(to) ? new URL(to).origin : '' },
    fault: (loopback) => faultInAddress(to, loopback),
    deliver,
    update: (message, _ref, post) => deliver(message, post),
    notify: ({ notice }, post) => send(noticeCard(notice), post),
  }
}

const cardOf = (message: Message): Card =>
  message.kind === 'asked'
    ? askedCard(message)
    : message.kind === 'ended'
      ? endedCard(message.approval)
      : testCard(message)

/** The Slack channel or user to post to. A test without a channel goes to the first user. */
function conversationFor(
  { channel, users }: SlackSpec,
  message: Message | NoticeMessage,
): string | undefined {
  const { recipient } = message
  if (recipient === null)
    return channel ?? ('kind' in message && message.kind === 'test' ? Object.keys(users)[0] : undefined)
  return Object.keys(users).find((user) => users[user] === recipient)
}

// ── Responses to interactions ──

/** Opens the form for the person who pressed the button, which Slack allows for three seconds. */
export async function openForm(
  spec: SlackSpec,
  trigger_id: string,
  view: object,
  post: Post,
): Promise<Result<true, DeliveryFailure>> {
  const opened = resultOf(await call(spec, 'views.open', { trigger_id, view }, post))
  return opened.ok ? ok(true) : opened
}

/** Shows a text only to the person who acted, or replaces the message. */
export async function reply(
  to: string | null,
  response: { alone: string } | { instead: Card },
  post: Post,
): Promise<void> {
  if (to === null || !to.startsWith(REPLIES)) return
  const body =
    'alone' in response
      ? { response_type: 'ephemeral', replace_original: false, text: response.alone }
      : { replace_original: true, ...response.instead }
  await post(json(to, { ...LITERAL, ...body }))
}

// ── Slack's API ──

const call = (spec: SlackSpec, method: string, body: object, post: Post) =>
  post(json(`${API}/${method}`, body, { authorization: `Bearer ${spec.bot_token}` }), 'read')

const json = (to: string, body: object, headers: Readonly<Record<string, string>> = {}) => ({
  to,
  headers: { 'content-type': 'application/json; charset=utf-8', 'user-agent': 'countersign', ...headers },
  body: JSON.stringify(body),
})

const ApiResponse = z.object({
  ok: z.boolean(),
  error: z
    .string()
    .regex(/^[a-z_]{1,64}$/)
    .optional(),
  channel: z.string().max(64).optional(),
  ts: z.string().max(64).optional(),
})

/**
 * Errors that no retry fixes: the message to change is gone or can't be changed, or our message is
 * invalid. An operator may fix all others while the approval is pending.
 */
const FINAL: ReadonlySet<string> = new Set([
  'message_not_found',
  'cant_update_message',
  'edit_window_closed',
  'invalid_blocks',
  'msg_too_long',
])

function resultOf(answer: Result<PostResponse, DeliveryFailure>): DeliveryResult {
  const through = answer.ok ? acceptance(answer.value) : answer
  if (!through.ok || !answer.ok)
    return err(through.ok ? { again: true, why: 'Slack did not answer' } : through.error)
  const parsed = parseJson(Buffer.from(answer.value.text))
  const read = ApiResponse.safeParse(parsed.ok ? parsed.value : undefined)
  if (!read.success) return err({ again: true, why: 'the response is not one that Slack sends' })
  const { ok: done, error = 'unknown', channel, ts } = read.data
  if (!done) return err({ again: !FINAL.has(error), why: `Slack refused it: \`${error}\`` })
  return ok({ ref: channel === undefined || ts === undefined ? null : `${channel} ${ts}` })
}
