// What operators may do about channels. Settings are put whole, because what is secret of them can't be read back.

import { z } from 'zod'
import { Name } from '../fields.ts'
import { LIMITS } from '../limits.ts'
import * as channels from '../wire/channels.ts'
import { list, routes } from './route.ts'

const named = z.strictObject({ name: Name })

export const CHANNELS = routes({
  listChannels: {
    method: 'GET',
    path: '/v1/channels',
    callers: ['operator'],
    action: 'channel.read',
    summary: 'Channels, in the order in which they are tried; without their secrets',
    status: 200,
    result: list(channels.Channel),
    failures: [],
  },
  putChannel: {
    method: 'PUT',
    path: '/v1/channels/{name}',
    callers: ['operator'],
    action: 'channel.write',
    params: named,
    summary: 'Set up a channel, or change it as a whole; it tells of approvals that are asked from then on',
    body: channels.ChannelSpec,
    status: 200,
    /** `warnings`: what it names and nobody is. */
    result: channels.Channel.extend({ warnings: z.array(z.string()) }),
    failures: ['channel_refused', 'limit_reached'],
  },
  deleteChannel: {
    method: 'DELETE',
    path: '/v1/channels/{name}',
    callers: ['operator'],
    action: 'channel.write',
    params: named,
    summary: 'Remove a channel and its secrets; what it has not sent is not sent',
    status: 200,
    result: z.strictObject({ done: z.literal(true) }),
    failures: ['not_found'],
  },
  testChannel: {
    method: 'POST',
    path: '/v1/channels/{name}/test',
    callers: ['operator'],
    action: 'channel.write',
    params: named,
    summary:
      'Send a message that asks nothing, once, to you if it is a channel to people, and say whether it was taken',
    status: 200,
    result: z.strictObject({ sent: z.boolean(), why: z.string().nullable() }),
    failures: ['not_found'],
  },
  slackInteraction: {
    method: 'POST',
    path: '/v1/channels/slack/interactions',
    callers: ['slack'],
    action: 'approval.decide',
    query: z.strictObject({ tenant: z.string().max(32).default('default') }),
    headers: z.object({
      'x-slack-signature': z.string().max(100).default(''),
      'x-slack-request-timestamp': z.string().max(20).default(''),
    }),
    summary: 'What somebody did with a message in Slack; the body is a form, as Slack sends and signs it',
    status: 200,
    result: z.unknown(),
    failures: ['slack_refused', 'not_json', 'invalid_request', 'body_too_large', 'body_too_slow'],
  },
  listDeliveries: {
    method: 'GET',
    path: '/v1/channels/{name}/deliveries',
    callers: ['operator'],
    action: 'channel.read',
    params: named,
    /** `after`: the last message of the page before. */
    query: z.strictObject({ state: channels.DeliveryState.optional(), after: z.string().max(64).optional() }),
    summary:
      'What became of a channel’s messages, the latest first, a page at a time; `state=failed` are those that were given up',
    status: 200,
    result: list(channels.Delivery),
    failures: ['not_found'],
  },
  retryDeliveries: {
    method: 'POST',
    path: '/v1/channels/{name}/retry',
    callers: ['operator'],
    action: 'channel.write',
    params: named,
    summary: 'Try a channel’s messages that were given up again, where they are still of use',
    status: 200,
    result: z.strictObject({ due: z.int() }),
    failures: ['not_found'],
  },
  listDelegations: {
    method: 'GET',
    path: '/v1/delegations',
    callers: ['operator'],
    action: 'channel.read',
    summary: 'Who is away, who is asked too, and until when',
    status: 200,
    result: list(channels.Delegation),
    failures: [],
  },
  putDelegation: {
    method: 'PUT',
    path: '/v1/delegations/me',
    callers: ['operator'],
    action: 'channel.delegate',
    summary:
      'While you are away, have another operator asked too, through the channels that write to you by name, about what you are asked; it gives them no right',
    body: z.strictObject({ to: Name, for_s: z.int().min(60).max(LIMITS.delegation_s) }),
    status: 200,
    /** The channels that write to you by name and know where to write to them: they are asked through no other. */
    result: channels.Delegation.extend({ through: z.array(Name) }),
    failures: ['delegate_refused'],
  },
  deleteDelegation: {
    method: 'DELETE',
    path: '/v1/delegations/me',
    callers: ['operator'],
    action: 'channel.delegate',
    summary: 'You are back: nobody else is asked from now on',
    status: 200,
    result: z.strictObject({ done: z.literal(true) }),
    failures: ['not_found'],
  },
  collectMessages: {
    method: 'POST',
    path: '/v1/channels/{name}/collect',
    callers: ['operator'],
    action: 'channel.collect',
    params: named,
    summary:
      'Say which of an outbox’s mails have been delivered and which could not be; get those that wait, the longest first, with the links in them',
    /** What is not said to be done is handed out again: nothing is lost by whoever dies in between. What failed waits behind all others. */
    body: z.strictObject({
      done: z.array(z.string().max(64)).max(LIMITS.page).default([]),
      failed: z
        .array(
          z.strictObject({ id: z.string().max(64), why: z.string().min(1).max(LIMITS.delivery_why_chars) }),
        )
        .max(LIMITS.page)
        .default([]),
    }),
    status: 200,
    result: list(channels.Collected),
    failures: ['not_found'],
  },
})
