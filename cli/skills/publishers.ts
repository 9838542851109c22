// Commands with which operators manage the publishers whose signatures are accepted, and their
// keys.

import { ok } from '../../shared/result.ts'
import type { Command } from '../shell/command.ts'
import { command } from '../shell/command.ts'
import { inline, listing, time } from '../shell/terminal-text.ts'

const NAME = { NAME: 'the publisher’s name' } as const

const list = command({
  words: ['skill', 'publishers', 'list'],
  args: {},
  flags: {},
  does: 'List the publishers of skills with their keys, revoked keys included',
  key: 'operator',
  async run({ api, paint }) {
    const publishers = await api('listPublishers', {})
    if (!publishers.ok) return publishers
    const rows = publishers.value.items.flatMap(({ name, keys, revoked }) => [
      ...keys.map(({ kid, pinned, by, at_ms }) => [
        name,
        kid,
        pinned ? 'pinned' : 'put',
        `${by}, ${time(at_ms)}`,
        '',
      ]),
      ...revoked.map(({ kid, by, at_ms, reason }) => [name, kid, 'revoked', `${by}, ${time(at_ms)}`, reason]),
    ])
    return ok({
      ok: true,
      json: publishers.value.items,
      text: listing(paint, ['publisher', 'key', '', 'by', ''], rows, 'no publishers'),
    })
  },
})

const put = command({
  words: ['skill', 'publishers', 'put'],
  args: {
    ...NAME,
    PUBLIC: 'their public keys from `skill keygen`, separated by commas; they replace all earlier keys',
  },
  flags: {},
  does: 'Add a publisher of skills, or replace their keys; versions signed with earlier keys stay published',
  key: 'operator',
  examples: ['countersign skill publishers put acme 11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo'],
  async run({ args: { NAME: name, PUBLIC: keys }, api, paint }) {
    const made = await api('putPublisher', { params: { name }, body: { keys: keys.split(',') } })
    if (!made.ok) return made
    const lines = made.value.keys.map(({ kid }) => `  ${kid}\n`).join('')
    return ok({ ok: true, json: made.value, text: `publisher ${paint.bold(inline(name))}\n${lines}` })
  },
})

const revokeKey = command({
  words: ['skill', 'publishers', 'revoke-key'],
  args: { ...NAME, KID: 'the id of the key, from `skill publishers list`' },
  flags: { reason: { value: 'TEXT', what: 'why, for the record' } },
  does: 'Revoke a publisher’s key permanently, and every version of a skill that it signed',
  key: 'operator',
  async run({ args: { NAME: name, KID: kid }, flags: { reason = 'no reason given' }, api }) {
    const left = await api('revokePublisherKey', { params: { name, kid }, body: { reason } })
    return left.ok
      ? ok({ ok: true, json: left.value, text: `key ${inline(kid)} of ${inline(name)} revoked\n` })
      : left
  },
})

const remove = command({
  words: ['skill', 'publishers', 'remove'],
  args: NAME,
  flags: {},
  does: 'Remove a publisher; versions that they published stay until somebody disables them',
  key: 'operator',
  async run({ args: { NAME: name }, api }) {
    const gone = await api('deletePublisher', { params: { name } })
    return gone.ok ? ok({ ok: true, json: gone.value, text: `publisher ${inline(name)} removed\n` }) : gone
  },
})

export const PUBLISHERS: readonly Command[] = [list, put, revokeKey, remove]
