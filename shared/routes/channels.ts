// Routes for channels. Settings are replaced as a whole, because their secrets can't be read back.

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
    summary: 'List channels in the order in which they are tried, without their secrets',
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
    summary: 'Create a channel or replace its settings; it announces approvals from then on',
    body: channels.ChannelSpec,
    status: 200,
    /** `warnings`: people that the settings name but that aren't operators. */
    result: channels.Channel.extend({ warnings: z.array(z.string()) }),
    failures: ['channel_refused', 'limit_reached'],
  },
  deleteChannel: {
    method: 'DELETE',
    path: '/v1/channels/{name}',
    callers: ['operator'],
    action: 'channel.write',
    params: named,
    summary: 'Remove a channel and its secrets; its unsent messages are dropped',
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
      'Send a test message once, to yourself if the channel writes to people, and report whether it was accepted',
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
    summary:
      'Receive an interaction with a message in Slack; the body is a form, as Slack sends and signs it',
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
    /** `after`: the last message of the previous page. */
    query: z.strictObject({ state: channels.DeliveryState.optional(), after: z.string().max(64).optional() }),
    summary:
      'List a channel’s messages with their delivery state, latest first, one page at a time; `state=failed` lists those that were given up',
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
    summary: 'Retry a channel’s failed messages if they still matter',
    status: 200,
    result: z.strictObject({ due: z.int() }),
    failures: ['not_found'],
  },
  listDelegations: {
    method: 'GET',
    path: '/v1/delegations',
    callers: ['operator'],
    action: 'channel.read',
    summary: 'List who is away, their delegates, and until when',
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
      'Name a delegate for the time you are away: another operator who is also sent the approvals that channels send to you by name. Delegation grants no permission',
    body: z.strictObject({ to: Name, for_s: z.int().min(60).max(LIMITS.delegation_s) }),
    status: 200,
    /**
     * The channels that write to you by name and have an address of the delegate, who is asked only
     * through these.
     */
    result: channels.Delegation.extend({ through: z.array(Name) }),
    failures: ['delegate_refused'],
  },
  deleteDelegation: {
    method: 'DELETE',
    path: '/v1/delegations/me',
    callers: ['operator'],
    action: 'channel.delegate',
    summary: 'End your delegation',
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
      'Report which mails of an outbox were delivered and which failed; get the waiting ones, oldest first, with the links in them',
    /**
     * A mail that is not reported as done is handed out again, so a crashed collector loses none. A
     * failed one queues behind all others.
     */
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
