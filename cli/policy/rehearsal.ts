// `countersign policy rehearse` and `policy shadow`: try a policy version on past calls, or beside
// the version in force on new calls. Neither decides anything.

import { LIMITS } from '../../shared/limits.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { Output as RouteOutput } from '../../shared/routes/client.ts'
import type { Command, Trouble } from '../shell/command.ts'
import { command, usage } from '../shell/command.ts'
import type { Api } from '../shell/edge-api.ts'
import type { Paint } from '../shell/terminal-text.ts'
import { columns, inline, listing, time } from '../shell/terminal-text.ts'
import { warningLines } from './check.ts'
import { nextStep } from './diff.ts'
import { readFolder } from './folder.ts'

type Rehearsal = RouteOutput<'rehearsePolicyVersion'>
type Shadow = RouteOutput<'readPolicyShadow'>

const isVersion = (text: string): boolean => /^[1-9][0-9]{0,8}$/.test(text)

const rehearse = command({
  words: ['policy', 'rehearse'],
  args: {
    'VERSION|DIR':
      'a version, or a folder of .cedar files; a folder is stored as a version first (which needs `policy.write`) and not put in force',
  },
  flags: {
    days: {
      value: 'N',
      what: `calls that ended in the last N days (default: 7, at most ${LIMITS.rehearsal_days})`,
    },
    limit: { value: 'N', what: `the latest N of them (default: 1000, at most ${LIMITS.rehearsal_calls})` },
  },
  does: 'Show how policies would have decided past calls: which decisions change, and how often people would be asked',
  key: 'operator',
  exits: '0 no decision changes; 1 a decision changes, or too few calls could be rehearsed to be sure',
  examples: ['countersign policy rehearse my-policies --days 30', 'countersign policy rehearse 7'],
  async run({ args, flags, api, paint }) {
    const bounds = { days: numberIn(flags.days), limit: numberIn(flags.limit) }
    for (const [name, value] of Object.entries(bounds))
      if (Number.isNaN(value)) return err(usage(`\`--${name}\` takes a number`))
    const version = await versionOf(args['VERSION|DIR'], api)
    if (!version.ok) return version
    const body = Object.fromEntries(Object.entries(bounds).filter(([, value]) => value !== undefined))
    const rehearsal = await api('rehearsePolicyVersion', { params: { version: version.value }, body })
    if (!rehearsal.ok) return rehearsal
    const holds =
      inconclusiveBecause(rehearsal.value) === null &&
      !rehearsal.value.summary.some(({ now, to }) => now !== to)
    return ok({ ok: holds, json: rehearsal.value, text: showRehearsal(rehearsal.value, paint) })
  },
})

const numberIn = (text: string | undefined): number | undefined =>
  text === undefined ? undefined : /^[0-9]{1,6}$/.test(text) ? Number(text) : Number.NaN

async function versionOf(named: string, api: Api): Promise<Result<string, Trouble>> {
  if (isVersion(named)) return ok(named)
  const policies = readFolder(named)
  if (!policies.ok) return policies
  const put = await api('putPolicies', { body: { policies: policies.value, activate: false } })
  return put.ok ? ok(String(put.value.version)) : put
}

/** Why the rehearsal is inconclusive, or `null`. */
export function inconclusiveBecause({
  looked_at,
  out_of_time,
  unrehearsable,
}: Pick<Rehearsal, 'looked_at' | 'out_of_time' | 'unrehearsable'>) {
  const not = unrehearsable.reduce((all, { count }) => all + count, 0)
  if (out_of_time)
    return `time ran out after ${looked_at} calls; narrow it with \`--days\` or \`--limit\`, or repeat it when the edge is less busy`
  return not > looked_at - not ? `${not} of ${looked_at} calls can’t be rehearsed` : null
}

function showRehearsal(rehearsal: Rehearsal, paint: Paint): string {
  const { version, against, looked_at, complete, since_ms, summary, flips, unrehearsable } = rehearsal
  const extent = complete ? `all that ended since ${time(since_ms)}` : 'the latest ones; there are older ones'
  const kinds = summary.map(({ from, now, to, count }) => [
    `${from} → ${to}`,
    String(count),
    changedSince(now, from, to, against),
  ])
  const moved = flips.some(({ from, now }) => now !== from)
  const rows = flips.map(({ call, agent, tool, from, now, to, policies, reason }) => [
    `${from} → ${to}`,
    ...(moved ? [now] : []),
    tool,
    agent,
    call,
    policies.join(', ') || 'nothing permits it',
    reason,
  ])
  const heading = [
    'change',
    ...(moved ? [`by ${against} now`] : []),
    'tool',
    'agent',
    'call',
    'policies',
    'reason',
  ]
  const more = summary.reduce((all, { count }) => all + count, 0) - flips.length
  const little = inconclusiveBecause(rehearsal)
  return [
    `version ${paint.bold(String(version))} against ${against}: ${looked_at} ${looked_at === 1 ? 'call' : 'calls'}, ${extent}\n`,
    summary.length === 0 ? `${paint.good('no decision changes')}\n` : columns(kinds, '  '),
    summary.length === 0
      ? ''
      : `\n${listing(paint, heading, rows, '')}${more > 0 ? `and ${more} more\n` : ''}`,
    unrehearsable.length === 0
      ? ''
      : `\ncalls that can’t be rehearsed:\n${columns(
          unrehearsable.map(({ reason, count }) => [String(count), reason]),
          '  ',
        )}`,
    `\n${approvalCounts(rehearsal)}\n`,
    little === null ? '' : `${paint.warn('inconclusive')}: ${little}\n`,
    version === against ? '' : nextStep(rehearsal, paint),
  ].join('')
}

function approvalCounts({
  version,
  against,
  looked_at: all,
  approvals,
  approvals_per_day: rate,
}: Rehearsal): string {
  const counts = `approvals needed: ${approvals.now} of ${all} with version ${against}, ${approvals.to} of ${all} with version ${version}`
  return rate === null ? counts : `${counts}; per day: ${rate.now} and ${rate.to}`
}

/**
 * Notes where the version in force would no longer decide as it did then: something else has
 * changed since.
 */
function changedSince(now: string, from: string, to: string, against: number): string {
  if (now === from) return ''
  return now === to ? `version ${against} now decides the same` : `version ${against} now decides ${now}`
}

const shadow = command({
  words: ['policy', 'shadow'],
  args: { 'VERSION|off?': 'the version to use as shadow, or `off`; leave it out to show the current shadow' },
  flags: {},
  does: 'Evaluate a version beside the one in force on each new call and count where they differ; only the one in force decides',
  key: 'operator',
  examples: ['countersign policy shadow 7', 'countersign policy shadow', 'countersign policy shadow off'],
  async run({ args, api, paint }) {
    const named = args['VERSION|off']
    if (named !== undefined && named !== 'off' && !isVersion(named))
      return err(usage('give the number of a version, or `off`'))
    const version = named === 'off' ? null : Number(named)
    if (named === undefined) {
      const current = await api('readPolicyShadow', {})
      return current.ok
        ? ok({ ok: true, json: current.value, text: showShadow(current.value, paint) })
        : current
    }
    const put = await api('putPolicyShadow', { body: { version } })
    return put.ok
      ? ok({
          ok: true,
          json: put.value,
          text: `${showShadow(put.value, paint)}${warningLines(put.value.warnings, paint)}`,
        })
      : put
  },
})

function showShadow({ version, since_ms, by, calls, differ, counts, latest }: Shadow, paint: Paint): string {
  if (version === null) return 'there is no shadow version\n'
  const kinds = counts.map(({ from, to, count }) => [`${from} → ${to}`, String(count)])
  const rows = latest.map(({ at_ms, from, to, tool, agent, call }) => [
    time(at_ms),
    `${from} → ${to}`,
    tool,
    agent,
    call,
  ])
  return [
    `version ${paint.bold(String(version))} has been the shadow since ${time(since_ms ?? 0)}, set by ${inline(by ?? '')}; it differs on ${differ} of ${calls} ended calls\n`,
    columns(kinds, '  '),
    rows.length === 0
      ? ''
      : `\n${listing(paint, ['ended', 'difference', 'tool', 'agent', 'call'], rows, '')}`,
  ].join('')
}

export const POLICY_TRIALS: readonly Command[] = [rehearse, shadow]
