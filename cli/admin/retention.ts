// Commands with which operators set how long the tenant keeps outputs, arguments and evidence of ended
// runs, and put and lift legal holds.

import { err, ok } from '../../shared/result.ts'
import { type Hold, KEPT, Keep } from '../../shared/wire/retention.ts'
import type { Command } from '../shell/command.ts'
import { command, usage } from '../shell/command.ts'
import { parseInput } from '../shell/json-input.ts'
import { columns, inline, listing, time } from '../shell/terminal-text.ts'

const SUBJECT = { SUBJECT: '`tenant`, or the id of a run' } as const
const REASON = { reason: { value: 'TEXT', what: 'why, for the journal; required' } } as const
const FOR_EVER = 'forever'
const DAYS = { value: 'DAYS', what: `days after the last event of a run, or \`${FOR_EVER}\`` } as const

const inDays = (days: number | null): string => (days === null ? 'for ever' : `${days} days`)
const keepRows = (keep: Keep): [string, string][] => KEPT.map((kind) => [kind, inDays(keep[kind])])

const show = command({
  words: ['retention', 'show'],
  args: {},
  flags: {},
  does: 'Show for how long outputs, arguments and evidence of ended runs are kept',
  key: 'operator',
  async run({ api }) {
    const read = await api('readRetention', {})
    if (!read.ok) return read
    const { keep, rule } = read.value
    const by = rule === null ? 'none' : `${rule.rule}, by ${inline(rule.by)}, ${time(rule.at_ms)}`
    return ok({ ok: true, json: read.value, text: columns([...keepRows(keep), ['rule', by]], '') })
  },
})

const set = command({
  words: ['retention', 'set'],
  args: {},
  flags: { outputs: DAYS, arguments: DAYS, evidence: DAYS },
  does: 'Set for how long outputs, arguments and evidence of ended runs are kept; what is older is removed for good',
  key: 'operator',
  examples: ['countersign retention set --outputs 30 --arguments 365 --evidence forever'],
  async run({ flags, api }) {
    const given = KEPT.map((kind) => [kind, flags[kind]] as const)
    const missing = given.find(([, days]) => days === undefined)
    if (missing !== undefined)
      return err(usage(`\`--${missing[0]}\` is missing: give a number of days, or \`${FOR_EVER}\``))
    const wanted = given.map(([kind, days]) => [kind, days === FOR_EVER ? null : Number(days)])
    const keep = parseInput(Keep, Object.fromEntries(wanted), 'the rule')
    if (!keep.ok) return keep
    const put = await api('putRetention', { body: keep.value })
    if (!put.ok) return put
    const rows: [string, string][] = [['rule', String(put.value.rule)], ...keepRows(put.value.keep)]
    return ok({ ok: true, json: put.value, text: columns(rows, '') })
  },
})

const holds = command({
  words: ['holds', 'list'],
  args: {},
  flags: {},
  does: 'List the legal holds in force',
  key: 'operator',
  async run({ api, paint }) {
    const held = await api('listHolds', {})
    if (!held.ok) return held
    const rows = held.value.items.map(rowOf)
    const text = listing(paint, ['hold on', 'reason', 'by', 'since'], rows, 'no legal holds')
    return ok({ ok: true, json: held.value.items, text })
  },
})

const put = command({
  words: ['holds', 'put'],
  args: SUBJECT,
  flags: REASON,
  does: 'Put a legal hold on the tenant or a run: nothing of it is removed, and the tenant can’t be deleted',
  key: 'operator',
  examples: ["countersign holds put tenant --reason 'case 12-345'"],
  async run({ args, flags, api }) {
    if (flags.reason === undefined) return err(usage('`--reason` is missing: the journal says why'))
    const done = await api('putHold', { params: { subject: args.SUBJECT }, body: { reason: flags.reason } })
    return done.ok ? ok({ ok: true, json: done.value, text: `hold on ${inline(args.SUBJECT)}\n` }) : done
  },
})

const lift = command({
  words: ['holds', 'lift'],
  args: SUBJECT,
  flags: REASON,
  does: 'Lift a legal hold; what is older than the retention rule keeps is then removed',
  key: 'operator',
  async run({ args, flags, api }) {
    if (flags.reason === undefined) return err(usage('`--reason` is missing: the journal says why'))
    const done = await api('liftHold', { params: { subject: args.SUBJECT }, body: { reason: flags.reason } })
    return done.ok
      ? ok({ ok: true, json: done.value, text: `hold on ${inline(args.SUBJECT)} lifted\n` })
      : done
  },
})

const rowOf = ({ subject, reason, by, at_ms }: Hold): string[] => [
  subject,
  inline(reason),
  inline(by),
  time(at_ms),
]

export const RETENTION: readonly Command[] = [show, set, holds, put, lift]
