// Commands that set up, test and remove the channels through which approvals reach people, and that
// list and retry their messages.

import { ok } from '../../shared/result.ts'
import type { ChannelShown } from '../../shared/wire/channels.ts'
import { ChannelSpec, DeliveryState } from '../../shared/wire/channels.ts'
import type { Command } from '../shell/command.ts'
import { command, usage } from '../shell/command.ts'
import { parseInput, readJsonObject } from '../shell/json-input.ts'
import { inline, listing, time } from '../shell/terminal-text.ts'
import { DELEGATION } from './delegation.ts'
import { drain } from './outbox-drain.ts'

const NAME = { NAME: 'the channel’s name' } as const

const list = command({
  words: ['channels', 'list'],
  args: {},
  flags: {},
  does: 'List channels, in the order in which they are used',
  key: 'operator',
  async run({ api, paint }) {
    const channels = await api('listChannels', {})
    if (!channels.ok) return channels
    const rows = channels.value.items.map(({ name, channel, put_by, put_at_ms }) => [
      name,
      channel.kind,
      `${channel.after_s} s`,
      channel.recipients === undefined
        ? 'anybody who reads it'
        : [...channel.recipients.roles, ...channel.recipients.operators].join(','),
      channel.to,
      channel.notices === true ? 'yes' : 'no',
      details(channel),
      `${put_by}, ${time(put_at_ms)}`,
    ])
    const text = listing(
      paint,
      ['channel', 'kind', 'after', 'for', 'to', 'notices', 'details', 'changed by'],
      rows,
      'no channels: approvals appear in the inbox only',
    )
    return ok({ ok: true, json: channels.value.items, text })
  },
})

/** The details that only this kind of channel has. */
function details(channel: ChannelShown): string {
  switch (channel.kind) {
    case 'webhook':
      return channel.keys.map((key) => key.public ?? key.scheme).join(',')
    case 'email':
      return `from ${channel.from}`
    case 'slack':
      return `app ${channel.app_id}; ${new Set(Object.values(channel.users)).size} may answer`
    case 'slack-webhook':
      return 'answered in the console'
  }
}

const put = command({
  words: ['channels', 'put'],
  args: {
    ...NAME,
    FILE: 'the channel as JSON; - reads standard input, so that its secrets need not be in a file',
  },
  flags: {},
  does: 'Set up or replace a channel; its secrets can’t be read back',
  key: 'operator',
  examples: [
    `echo '{"kind": "webhook", "url": "https://hooks.example.com/countersign", "keys": ["'"$WEBHOOK_KEY"'"]}' | countersign channels put on-call -`,
    `echo '{"kind": "email", "from": "approvals@example.com", "addresses": {"ann": "ann@example.com"}, "via": {"provider": "outbox"}}' | countersign channels put by-mail -`,
    `echo '{"kind": "slack", "bot_token": "'"$BOT_TOKEN"'", "signing_secret": "'"$SIGNING_SECRET"'", "app_id": "A01", "team_id": "T01", "channel": "C01", "users": {"U01": "ann"}}' | countersign channels put slack -`,
  ],
  async run({ args: { NAME: name, FILE: file }, api }) {
    const read = readJsonObject(file)
    const spec = read.ok ? parseInput(ChannelSpec, read.value, 'the channel') : read
    if (!spec.ok) return spec
    const done = await api('putChannel', { params: { name }, body: spec.value })
    if (!done.ok) return done
    const warnings = done.value.warnings.map((warning) => `warning: ${inline(warning)}\n`).join('')
    return ok({
      ok: true,
      json: done.value,
      text: `channel ${inline(name)} sends to ${inline(done.value.channel.to)}\n${warnings}`,
    })
  },
})

const test = command({
  words: ['channels', 'test'],
  args: NAME,
  flags: {},
  does: 'Send one test message, without an approval in it',
  key: 'operator',
  exits: '0 it was accepted; 1 it was not accepted, or the command was refused',
  async run({ args: { NAME: name }, api }) {
    const tested = await api('testChannel', { params: { name } })
    if (!tested.ok) return tested
    const { sent, why } = tested.value
    return ok({
      ok: sent,
      json: tested.value,
      text: sent ? 'accepted\n' : `not accepted: ${inline(why ?? '')}\n`,
    })
  },
})

const remove = command({
  words: ['channels', 'remove'],
  args: NAME,
  flags: {},
  does: 'Remove a channel and its secrets; its unsent messages are dropped',
  key: 'operator',
  async run({ args: { NAME: name }, api }) {
    const gone = await api('deleteChannel', { params: { name } })
    return gone.ok ? ok({ ok: true, json: gone.value, text: `channel ${inline(name)} removed\n` }) : gone
  },
})

const deliveries = command({
  words: ['channels', 'deliveries'],
  args: NAME,
  flags: {
    state: {
      value: 'STATE',
      what: 'due, sent, failed (given up) or dropped (no longer needed) (default: all)',
    },
    after: { value: 'ID', what: 'list the messages after this one; --json shows the ids' },
  },
  does: 'List the messages of a channel and their delivery state, newest first',
  key: 'operator',
  async run({ args: { NAME: name }, flags, api, paint }) {
    const state = DeliveryState.optional().safeParse(flags.state)
    if (!state.success)
      return { ok: false, error: usage(`\`--state\` must be one of ${DeliveryState.options.join(', ')}`) }
    const page = await api('listDeliveries', {
      params: { name },
      query: {
        ...(state.data === undefined ? {} : { state: state.data }),
        ...(flags.after === undefined ? {} : { after: flags.after }),
      },
    })
    if (!page.ok) return page
    const rows = page.value.items.map(
      ({ approval, notice, kind, recipient, instead_of, state, tries, next_at_ms, changed_at_ms, why }) => [
        approval ?? notice ?? '',
        kind,
        instead_of === null ? (recipient ?? '') : `${recipient}, for ${instead_of}`,
        state,
        String(tries),
        time(changed_at_ms),
        next_at_ms === null ? '' : time(next_at_ms),
        why ?? '',
      ],
    )
    const heading = ['about', 'kind', 'for', 'state', 'attempts', 'since', 'next attempt', 'why']
    return ok({ ok: true, json: page.value.items, text: listing(paint, heading, rows, 'no messages') })
  },
})

const retry = command({
  words: ['channels', 'retry'],
  args: NAME,
  flags: {},
  does: 'Retry the failed messages of a channel that are still needed',
  key: 'operator',
  async run({ args: { NAME: name }, api }) {
    const done = await api('retryDeliveries', { params: { name } })
    return done.ok
      ? ok({
          ok: true,
          json: done.value,
          text: `${done.value.due} ${done.value.due === 1 ? 'message' : 'messages'} will be sent again\n`,
        })
      : done
  },
})

export const CHANNELS: readonly Command[] = [list, put, test, remove, deliveries, retry, drain, ...DELEGATION]
