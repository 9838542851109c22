// The two channels to Slack: an app, whose messages have buttons and are replaced by the outcome, and an incoming webhook, whose messages
// lead to the console. Nothing is kept here, and nothing that Slack says of a request but its error's name.

import { z } from 'zod'
import { parseJson } from '../../../shared/bytes/json.ts'
import type { Result } from '../../../shared/result.ts'
import { err, ok } from '../../../shared/result.ts'
import type { ChannelSpec } from '../../../shared/wire/channels.ts'
import { faultInAddress } from '../../platform/outbound-fetch.ts'
import type { Answered, Medium, Message, Noted, Post, Sent, Undelivered } from '../medium.ts'
import { taken } from '../medium.ts'
import type { Card } from './card.ts'
import { askedCard, endedCard, noticeCard, readersCard, testCard } from './card.ts'

export type SlackSpec = Extract<ChannelSpec, { kind: 'slack' }>

const API = 'https://slack.com/api'
/** Where Slack takes answers to what people do, for half an hour. */
const REPLIES = 'https://hooks.slack.com/'

/** Neither a name nor a link in a message is made into anything by Slack. */
const AS_IT_IS = { parse: 'none', link_names: false, unfurl_links: false, unfurl_media: false } as const

export function slack(spec: SlackSpec): Medium {
  const { bot_token: _, signing_secret: __, ...rest } = spec
  const send = async (message: Message | Noted, card: Card, post: Post): Promise<Sent> => {
    const channel = whereFor(spec, message)
    if (channel === undefined) return err({ again: false, why: 'the recipient is not in `users`' })
    return called(await call(spec, 'chat.postMessage', { channel, ...AS_IT_IS, ...card }, post))
  }
  const deliver = (message: Message, post: Post): Promise<Sent> => send(message, cardOf(message), post)
  return {
    shown: { ...rest, to: `${spec.channel ?? 'each recipient'} in ${spec.team_id}` },
    fault: () =>
      (spec.channel === undefined) === (spec.recipients === undefined)
        ? 'name the `channel` of Slack that is written to, or `recipients`, who are each written to by themselves: one of them'
        : undefined,
    deliver,
    async update(message, ref, post) {
      const [channel, ts] = ref?.split(' ') ?? []
      // Whether the question arrived is not known where nobody said so; then the end is told by itself.
      if (channel === undefined || ts === undefined) return deliver(message, post)
      const updated = called(
        await call(spec, 'chat.update', { channel, ts, ...AS_IT_IS, ...cardOf(message) }, post),
      )
      return updated.ok ? ok({ ref }) : updated
    },
    tell: (noted, post) => send(noted, noticeCard(noted.notice), post),
  }
}

export function slackWebhook(spec: Extract<ChannelSpec, { kind: 'slack-webhook' }>): Medium {
  const { webhook_url: to, ...rest } = spec
  const send = async (card: Card, post: Post): Promise<Sent> => {
    const answer = await post(json(to, { ...AS_IT_IS, ...card }))
    const done = answer.ok ? taken(answer.value) : answer
    return done.ok ? ok({ ref: null }) : err(done.error)
  }
  const deliver = (message: Message, post: Post): Promise<Sent> =>
    send(message.kind === 'asked' ? readersCard(message) : cardOf(message), post)
  return {
    shown: { ...rest, to: URL.canParse(to) ? new URL(to).origin : '' },
    fault: (loopback) => faultInAddress(to, loopback),
    deliver,
    update: (message, _ref, post) => deliver(message, post),
    tell: ({ notice }, post) => send(noticeCard(notice), post),
  }
}

const cardOf = (message: Message): Card =>
  message.kind === 'asked'
    ? askedCard(message)
    : message.kind === 'ended'
      ? endedCard(message.approval)
      : testCard(message)

/** A test goes to the first there is. */
function whereFor({ channel, users }: SlackSpec, message: Message | Noted): string | undefined {
  const { recipient } = message
  if (recipient === null)
    return channel ?? ('kind' in message && message.kind === 'test' ? Object.keys(users)[0] : undefined)
  return Object.keys(users).find((user) => users[user] === recipient)
}

// ── What people do ──

/** The form, for whoever pressed the button that wants it; Slack allows it for three seconds after. */
export async function openForm(
  spec: SlackSpec,
  trigger_id: string,
  view: object,
  post: Post,
): Promise<Result<true, Undelivered>> {
  const opened = called(await call(spec, 'views.open', { trigger_id, view }, post))
  return opened.ok ? ok(true) : opened
}

/** To whoever did something: a word for them alone, or what the message is from now on. */
export async function reply(
  to: string | null,
  said: { alone: string } | { instead: Card },
  post: Post,
): Promise<void> {
  if (to === null || !to.startsWith(REPLIES)) return
  const body =
    'alone' in said
      ? { response_type: 'ephemeral', replace_original: false, text: said.alone }
      : { replace_original: true, ...said.instead }
  await post(json(to, { ...AS_IT_IS, ...body }))
}

// ── Slack's API ──

const call = (spec: SlackSpec, method: string, body: object, post: Post) =>
  post(json(`${API}/${method}`, body, { authorization: `Bearer ${spec.bot_token}` }), 'read')

const json = (to: string, body: object, headers: Readonly<Record<string, string>> = {}) => ({
  to,
  headers: { 'content-type': 'application/json; charset=utf-8', 'user-agent': 'countersign', ...headers },
  body: JSON.stringify(body),
})

const Said = z.object({
  ok: z.boolean(),
  error: z
    .string()
    .regex(/^[a-z_]{1,64}$/)
    .optional(),
  channel: z.string().max(64).optional(),
  ts: z.string().max(64).optional(),
})

/**
 * What no time mends: the message that was to be changed is gone, or may not be; or what we wrote is wrong. All else an operator may
 * mend meanwhile.
 */
const FINAL: ReadonlySet<string> = new Set([
  'message_not_found',
  'cant_update_message',
  'edit_window_closed',
  'invalid_blocks',
  'msg_too_long',
])

function called(answer: Result<Answered, Undelivered>): Sent {
  const through = answer.ok ? taken(answer.value) : answer
  if (!through.ok || !answer.ok)
    return err(through.ok ? { again: true, why: 'it did not answer' } : through.error)
  const parsed = parseJson(Buffer.from(answer.value.text))
  const read = Said.safeParse(parsed.ok ? parsed.value : undefined)
  if (!read.success) return err({ again: true, why: 'what it answered is not what Slack answers' })
  const { ok: done, error = 'unknown', channel, ts } = read.data
  if (!done) return err({ again: !FINAL.has(error), why: `Slack says \`${error}\`` })
  return ok({ ref: channel === undefined || ts === undefined ? null : `${channel} ${ts}` })
}
