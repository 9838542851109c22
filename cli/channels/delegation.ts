// While somebody is away: who is asked too, and until when.

import { err, ok } from '../../shared/result.ts'
import type { Command } from '../shell/command.ts'
import { command, usage } from '../shell/command.ts'
import { inline, listing, time } from '../shell/terminal-text.ts'

const UNITS: Readonly<Record<string, number>> = { m: 60, h: 3_600, d: 24 * 3_600 }

const delegate = command({
  words: ['channels', 'delegate'],
  args: { 'NAME?': 'the operator who is asked too; left out, you are back' },
  flags: { for: { value: 'TIME', what: 'how long, such as 8h or 14d' } },
  does: 'While you are away, have another operator asked too, through the channels that write to you by name; it gives them no right',
  key: 'operator',
  async run({ args: { NAME: to }, flags, api }) {
    if (to === undefined) {
      const back = await api('deleteDelegation', {})
      if (!back.ok && back.error.code === 'not_found')
        return err({ ...back.error, todo: 'nothing; you were not away' })
      return back.ok ? ok({ ok: true, json: back.value, text: 'nobody else is asked from now on\n' }) : back
    }
    const [, number = '', unit = ''] = /^([0-9]{1,4})([mhd])$/.exec(flags.for ?? '') ?? []
    const for_s = Number(number) * (UNITS[unit] ?? 0)
    if (for_s === 0) return err(usage('`--for` takes a time such as 30m, 8h or 14d'))
    const put = await api('putDelegation', { body: { to, for_s } })
    if (!put.ok) return put
    const { until_ms, through } = put.value
    const text =
      through.length > 0
        ? `${inline(to)} is asked too, until ${time(until_ms)}, through ${through.map(inline).join(', ')}\n`
        : `warning: until ${time(until_ms)} ${inline(to)} would be asked too, but no channel does: none writes to you by name and knows where to write to ${inline(to)}\n`
    return ok({ ok: true, json: put.value, text })
  },
})

const delegations = command({
  words: ['channels', 'delegations'],
  args: {},
  flags: {},
  does: 'List who is away, and who is asked too',
  key: 'operator',
  async run({ api, paint }) {
    const away = await api('listDelegations', {})
    if (!away.ok) return away
    const rows = away.value.items.map(({ operator, to, until_ms }) => [operator, to, time(until_ms)])
    return ok({
      ok: true,
      json: away.value.items,
      text: listing(paint, ['away', 'asked too', 'until'], rows, 'nobody is away'),
    })
  },
})

export const DELEGATION: readonly Command[] = [delegate, delegations]
