// How approvals reach people: channels set up, tried and removed, and what became of their messages.

import { ok } from '../../shared/result.ts'
import type { ChannelShown } from '../../shared/wire/channels.ts'
import { ChannelSpec, DeliveryState } from '../../shared/wire/channels.ts'
import type { Command } from '../shell/command.ts'
import { command, usage } from '../shell/command.ts'
import { fitting, readRecord } from '../shell/json-input.ts'
import { inline, listing, time } from '../shell/terminal-text.ts'
import { DELEGATION } from './delegation.ts'
import { drain } from './outbox-drain.ts'

const NAME = { NAME: 'the channel’s name' } as const

const list = command({
  words: ['channels', 'list'],
  args: {},
  flags: {},
  does: 'List channels, in the order in which they are tried',
  key: 'operator',
  async run({ api, paint }) {
    const channels = await api('listChannels', {})
    if (!channels.ok) return channels
    const rows = channels.value.items.map(({ name, channel, put_by, put_at_ms }) => [
      name,
      channel.kind,
      `${channel.after_s} s`,
      channel.recipients === undefined
        ? 'whoever reads it'
        : [...channel.recipients.roles, ...channel.recipients.operators].join(','),
      channel.to,
      channel.notices === true ? 'yes' : 'no',
      more(channel),
      `${put_by}, ${time(put_at_ms)}`,
    ])
    const text = listing(
      paint,
      ['channel', 'kind', 'after', 'for', 'to', 'notices', 'more', 'put by'],
      rows,
      'no channels: approvals wait in the inbox',
    )
    return ok({ ok: true, json: channels.value.items, text })
  },
})

/** What there is to know of this kind of channel alone. */
function more(channel: ChannelShown): string {
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
    FILE: 'the channel as JSON; - reads standard input, for its secrets need not be in a file',
  },
  flags: {},
  does: 'Set up a channel, or change it as a whole; its secrets go in and never come out',
  key: 'operator',
  examples: [
    `echo '{"kind": "webhook", "url": "https://hooks.example.com/countersign", "keys": ["'"$WEBHOOK_KEY"'"]}' | countersign channels put on-call -`,
    `echo '{"kind": "email", "from": "approvals@example.com", "addresses": {"ann": "ann@example.com"}, "via": {"provider": "outbox"}}' | countersign channels put by-mail -`,
    `echo '{"kind": "slack", "bot_token": "'"$BOT_TOKEN"'", "signing_secret": "'"$SIGNING_SECRET"'", "app_id": "A01", "team_id": "T01", "channel": "C01", "users": {"U01": "ann"}}' | countersign channels put slack -`,
  ],
  async run({ args: { NAME: name, FILE: file }, api }) {
    const read = readRecord(file)
    const spec = read.ok ? fitting(ChannelSpec, read.value, 'the channel') : read
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
  does: 'Send a message that asks nothing, once',
  key: 'operator',
  exits: '0 it was taken; 1 it was not, or refused',
  async run({ args: { NAME: name }, api }) {
    const tested = await api('testChannel', { params: { name } })
    if (!tested.ok) return tested
    const { sent, why } = tested.value
    return ok({ ok: sent, json: tested.value, text: sent ? 'taken\n' : `not taken: ${inline(why ?? '')}\n` })
  },
})

const remove = command({
  words: ['channels', 'remove'],
  args: NAME,
  flags: {},
  does: 'Remove a channel and its secrets; what it has not sent is not sent',
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
      what: 'due, sent, failed (given up) or dropped (of no use any more); all if you say nothing',
    },
    after: { value: 'ID', what: 'the page behind this message, whose id is in --json' },
  },
  does: 'List a channel’s messages and what became of them, the latest first',
  key: 'operator',
  async run({ args: { NAME: name }, flags, api, paint }) {
    const state = DeliveryState.optional().safeParse(flags.state)
    if (!state.success)
      return { ok: false, error: usage(`\`--state\` is to be one of ${DeliveryState.options.join(', ')}`) }
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
    const heading = ['about', 'tells', 'for', 'state', 'tries', 'since', 'next', 'why']
    return ok({ ok: true, json: page.value.items, text: listing(paint, heading, rows, 'no messages') })
  },
})

const retry = command({
  words: ['channels', 'retry'],
  args: NAME,
  flags: {},
  does: 'Try a channel’s messages that were given up again, where they are still of use',
  key: 'operator',
  async run({ args: { NAME: name }, api }) {
    const done = await api('retryDeliveries', { params: { name } })
    return done.ok ? ok({ ok: true, json: done.value, text: `${done.value.due} to be sent\n` }) : done
  },
})

export const CHANNELS: readonly Command[] = [list, put, test, remove, deliveries, retry, drain, ...DELEGATION]
