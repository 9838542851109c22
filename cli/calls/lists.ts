// Commands that list calls and runs, newest first.

import { CallState } from '../../shared/evidence/statement.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { Trouble } from '../shell/command.ts'
import { command, usage } from '../shell/command.ts'
import { listing, time } from '../shell/terminal-text.ts'

const DEFAULT_LAST = 20
const LAST = { value: 'N', what: `how many, at most ${LIMITS.page} (default: ${DEFAULT_LAST})` } as const
const AGENT = { value: 'NAME', what: 'only those of this agent' } as const
const SINCE = {
  value: 'TIME',
  what: 'only those created since: 30m, 12h, 7d, or a time such as 2026-11-19T08:00:00Z',
} as const

const UNIT_MS = { m: 60_000, h: 3600_000, d: 24 * 3600_000 } as const

/** Parses a time, or how long ago it was; undefined if the flag was not given. */
export function parseTime(flag: string, given: string | undefined): Result<number | undefined, Trouble> {
  if (given === undefined) return ok(undefined)
  const [, amount, unit] = /^(\d{1,4})([mhd])$/.exec(given) ?? []
  if (amount !== undefined && unit !== undefined)
    return ok(Math.max(0, Date.now() - Number(amount) * UNIT_MS[unit as keyof typeof UNIT_MS])) // the pattern admits only these units
  const at = Date.parse(given)
  return /^\d{4}-\d{2}-\d{2}/.test(given) && at >= 0
    ? ok(at)
    : err(usage(`\`${flag}\` must be like 30m, 12h or 7d, or a time such as 2026-11-19T08:00:00Z`))
}

function parseLast(given: string | undefined): Result<number, Trouble> {
  const last = Number(given ?? DEFAULT_LAST)
  return /^\d{1,3}$/.test(given ?? String(DEFAULT_LAST)) && last >= 1 && last <= LIMITS.page
    ? ok(last)
    : err(usage(`\`--last\` must be a number from 1 to ${LIMITS.page}`))
}

/** The flags that both lists take, as a query. */
function parseRange(flags: {
  readonly agent: string | undefined
  readonly since: string | undefined
  readonly last: string | undefined
}): Result<{ agent?: string; since?: number; limit: number }, Trouble> {
  const limit = parseLast(flags.last)
  if (!limit.ok) return limit
  const since = parseTime('--since', flags.since)
  if (!since.ok) return since
  const agent = flags.agent === undefined ? {} : { agent: flags.agent }
  const from = since.value === undefined ? {} : { since: since.value }
  return ok({ ...agent, ...from, limit: limit.value })
}

export const listCalls = command({
  words: ['calls', 'list'],
  args: {},
  flags: {
    state: { value: 'STATE', what: `only those in this state: ${CallState.options.join(', ')}` },
    tool: { value: 'TOOL', what: 'only those of this tool' },
    agent: AGENT,
    since: SINCE,
    last: LAST,
  },
  does: 'List calls, newest first: with an agent’s key its own, with an operator’s those of all agents',
  key: 'either',
  examples: [
    'countersign calls list --state awaiting_approval',
    'countersign calls list --agent triage --since 12h',
  ],
  async run({ flags, api, paint }) {
    const range = parseRange(flags)
    if (!range.ok) return range
    const state = CallState.optional().safeParse(flags.state)
    if (!state.success) return err(usage(`\`--state\` must be one of ${CallState.options.join(', ')}`))
    const list = await api('listCalls', {
      query: {
        ...range.value,
        ...(state.data === undefined ? {} : { state: state.data }),
        ...(flags.tool === undefined ? {} : { tool: flags.tool }),
      },
    })
    if (!list.ok) return list
    const { items } = list.value
    const rows = items.map(({ created_at_ms, ended_at_ms, state, tool, agent, id }) => [
      time(created_at_ms),
      state,
      tool,
      ended_at_ms === undefined ? '' : `${ended_at_ms - created_at_ms} ms`,
      agent,
      id,
    ])
    const heading = ['created', 'state', 'tool', 'took, with waiting', 'agent', 'call']
    return ok({ ok: true, json: items, text: listing(paint, heading, rows, 'no such calls') })
  },
})

export const listRuns = command({
  words: ['runs', 'list'],
  args: {},
  flags: { agent: AGENT, since: SINCE, last: LAST },
  does: 'List runs, newest first: with an agent’s key its own, with an operator’s those of all agents',
  key: 'either',
  async run({ flags, api, paint }) {
    const range = parseRange(flags)
    if (!range.ok) return range
    const list = await api('listRuns', { query: range.value })
    if (!list.ok) return list
    const { items } = list.value
    const rows = items.map(({ created_at_ms, state, agent, session, id }) => [
      time(created_at_ms),
      state,
      agent,
      session === id ? '' : session,
      id,
    ])
    const heading = ['created', 'state', 'agent', 'session', 'run']
    return ok({ ok: true, json: items, text: listing(paint, heading, rows, 'no such runs') })
  },
})
