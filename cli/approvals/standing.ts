// Standing answers, which apply to further calls: the flags of `approvals approve` and `deny` that
// give one, and the commands that list and revoke them.

import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { Answer, Approval } from '../../shared/wire/approvals.ts'
import type { Command, Trouble } from '../shell/command.ts'
import { command, usage } from '../shell/command.ts'
import { inline, listing, time } from '../shell/terminal-text.ts'

/** For `approve` and `deny`. */
export const STANDING_FLAGS = {
  session: {
    what: 'answer all such calls of this session, until it is reset; `approvals show` says which calls that covers',
  },
  for: { value: 'TIME', what: 'like --session, but only for this time, such as 90s, 10m or 2h' },
} as const

const UNITS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3_600 }

/** The scope that the flags name. */
export function scopeOf(flags: {
  session: boolean
  for: string | undefined
}): Result<Partial<Pick<Answer, 'scope' | 'ttl_s'>>, Trouble> {
  if (flags.for === undefined) return ok(flags.session ? { scope: 'session' } : {})
  if (flags.session) return err(usage('give `--session` or `--for`, not both'))
  const [, number = '', unit = ''] = /^([0-9]{1,6})([smh])$/.exec(flags.for) ?? []
  const ttl_s = Number(number) * (UNITS[unit] ?? 0)
  return ttl_s > 0
    ? ok({ scope: 'timeboxed', ttl_s })
    : err(usage('`--for` takes a time such as 90s, 10m or 2h'))
}

/** The scope and the longest duration of a standing answer to this approval. */
export function standingScope({ prompt: { standing } }: Approval): string {
  if (standing === undefined) return ''
  if (standing.most_s === 0) return 'not possible: policy requires an approval for each call'
  return `possible for up to ${duration(standing.most_s)}: ${standing.covers}`
}

const duration = (s: number): string =>
  s % 3_600 === 0 ? `${s / 3_600} h` : s % 60 === 0 ? `${s / 60} min` : `${s} s`

const standing = command({
  words: ['approvals', 'standing'],
  args: {},
  flags: {},
  does: 'List the standing approvals and denials, newest first',
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
      text: listing(paint, ['standing', 'answer', 'by', 'until', 'covers'], rows, 'no standing answers'),
    })
  },
})

const revoke = command({
  words: ['approvals', 'revoke'],
  args: { STANDING: 'the id of the standing answer, from `approvals standing`' },
  flags: {},
  does: 'Revoke a standing answer; no further call starts because of it',
  key: 'operator',
  async run({ args, api }) {
    const done = await api('revokeStanding', { params: { id: args.STANDING } })
    return done.ok
      ? ok({ ok: true, json: done.value, text: `standing answer ${inline(args.STANDING)} revoked\n` })
      : done
  },
})

const reset = command({
  words: ['sessions', 'reset'],
  args: { SESSION: 'the session’s name' },
  flags: {
    agent: { value: 'NAME', what: 'the agent whose session it is; not needed with the agent’s own key' },
  },
  does: 'Revoke all standing answers of a session; with an agent’s key, only the approvals',
  key: 'either',
  async run({ args, flags, api }) {
    const body = flags.agent === undefined ? {} : { agent: flags.agent }
    const done = await api('resetSession', { params: { session: args.SESSION }, body })
    return done.ok ? ok({ ok: true, json: done.value, text: `${done.value.ended} revoked\n` }) : done
  },
})

export const STANDING: readonly Command[] = [standing, revoke, reset]
