// Answers that stand for further calls: how one is given with `approvals approve` and `deny`, which there are, and how they are taken back.

import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { Answer, Approval } from '../../shared/wire/approvals.ts'
import type { Command, Trouble } from '../shell/command.ts'
import { command, usage } from '../shell/command.ts'
import { listing, time } from '../shell/terminal-text.ts'

/** For `approve` and `deny`. */
export const STANDING_FLAGS = {
  session: {
    what: 'for all such calls of its session, until it is reset; `approvals show` says which calls those are',
  },
  for: { value: 'TIME', what: 'the same for a time, such as 90s, 10m or 2h' },
} as const

const UNITS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3_600 }

/** The scope that the flags name. */
export function scopeOf(flags: {
  session: boolean
  for: string | undefined
}): Result<Partial<Pick<Answer, 'scope' | 'ttl_s'>>, Trouble> {
  if (flags.for === undefined) return ok(flags.session ? { scope: 'session' } : {})
  if (flags.session) return err(usage('`--session` or `--for`, not both'))
  const [, number = '', unit = ''] = /^([0-9]{1,6})([smh])$/.exec(flags.for) ?? []
  const ttl_s = Number(number) * (UNITS[unit] ?? 0)
  return ttl_s > 0
    ? ok({ scope: 'timeboxed', ttl_s })
    : err(usage('`--for` takes a time such as 90s, 10m or 2h'))
}

/** What an answer could stand for, before it is given. */
export function standingInWords({ prompt: { standing } }: Approval): string {
  if (standing === undefined) return ''
  if (standing.most_s === 0) return 'no: policy wants a yes for each call'
  return `for ${duration(standing.most_s)} at the most: ${standing.covers}`
}

const duration = (s: number): string =>
  s % 3_600 === 0 ? `${s / 3_600} h` : s % 60 === 0 ? `${s / 60} min` : `${s} s`

const standing = command({
  words: ['approvals', 'standing'],
  args: {},
  flags: {},
  does: 'List the answers that stand for further calls, newest first',
  key: 'operator',
  async run({ api, paint }) {
    const page = await api('listStanding', {})
    if (!page.ok) return page
    const rows = page.value.items.map(({ id, decision, by, until_ms, covers, live }) => [
      id,
      live ? decision : `${decision}, not in effect`,
      by,
      time(until_ms),
      covers,
    ])
    return ok({
      ok: true,
      json: page.value.items,
      text: listing(paint, ['standing', 'says', 'by', 'until', 'to'], rows, 'nothing stands'),
    })
  },
})

const revoke = command({
  words: ['approvals', 'revoke'],
  args: { STANDING: 'its id, from `approvals standing`' },
  flags: {},
  does: 'Take a standing answer back; nothing begins under it any more',
  key: 'operator',
  async run({ args, api }) {
    const done = await api('revokeStanding', { params: { id: args.STANDING } })
    return done.ok ? ok({ ok: true, json: done.value, text: `${args.STANDING} stands no more\n` }) : done
  },
})

const reset = command({
  words: ['sessions', 'reset'],
  args: { SESSION: 'the session’s name' },
  flags: { agent: { value: 'NAME', what: 'whose session; an agent’s key needs none' } },
  does: 'Take back every answer that stands in a session; with an agent’s key, every yes',
  key: 'either',
  async run({ args, flags, api }) {
    const body = flags.agent === undefined ? {} : { agent: flags.agent }
    const done = await api('resetSession', { params: { session: args.SESSION }, body })
    return done.ok ? ok({ ok: true, json: done.value, text: `${done.value.ended} taken back\n` }) : done
  },
})

export const STANDING: readonly Command[] = [standing, revoke, reset]
