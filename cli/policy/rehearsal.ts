// Policies tried before they are in force: rehearsed on calls that were, or as a shadow of the set in force on calls as they come. Neither
// decides anything.

import { LIMITS } from '../../shared/limits.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { Output as Answered } from '../../shared/routes/client.ts'
import type { Command, Trouble } from '../shell/command.ts'
import { command, usage } from '../shell/command.ts'
import type { Api } from '../shell/edge-api.ts'
import type { Paint } from '../shell/terminal-text.ts'
import { columns, inline, listing, time } from '../shell/terminal-text.ts'
import { warned } from './check.ts'
import { nextStep } from './diff.ts'
import { readFolder } from './folder.ts'

type Rehearsal = Answered<'rehearsePolicyVersion'>
type Shadow = Answered<'readPolicyShadow'>

const isVersion = (text: string): boolean => /^[1-9][0-9]{0,8}$/.test(text)

const rehearse = command({
  words: ['policy', 'rehearse'],
  args: {
    'VERSION|DIR':
      'a version, or a folder of .cedar files; a folder is stored as a version, which needs `policy.write`, and not put in force',
  },
  flags: {
    days: {
      value: 'N',
      what: `calls that ended in the last N days; 7 if you say nothing, at most ${LIMITS.rehearsal_days}`,
    },
    limit: {
      value: 'N',
      what: `the latest N of them; 1000 if you say nothing, at most ${LIMITS.rehearsal_calls}`,
    },
  },
  does: 'Tell what policies would have said of the calls that were: which flip, and how often humans would be asked',
  key: 'operator',
  exits:
    '0 they decide what was looked at as the set in force does; 1 they flip a call, or too little could be looked at to tell',
  examples: ['countersign policy rehearse my-policies --days 30', 'countersign policy rehearse 7'],
  async run({ args, flags, api, paint }) {
    const bounds = { days: numberIn(flags.days), limit: numberIn(flags.limit) }
    for (const [name, value] of Object.entries(bounds))
      if (Number.isNaN(value)) return err(usage(`\`--${name}\` takes a number`))
    const version = await versionOf(args['VERSION|DIR'], api)
    if (!version.ok) return version
    const body = Object.fromEntries(Object.entries(bounds).filter(([, value]) => value !== undefined))
    const told = await api('rehearsePolicyVersion', { params: { version: version.value }, body })
    if (!told.ok) return told
    const holds = tellsLittle(told.value) === null && !told.value.summary.some(({ now, to }) => now !== to)
    return ok({ ok: holds, json: told.value, text: showRehearsal(told.value, paint) })
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

/** Why nothing follows from what did not flip. */
export function tellsLittle({
  looked_at,
  out_of_time,
  unrehearsable,
}: Pick<Rehearsal, 'looked_at' | 'out_of_time' | 'unrehearsable'>) {
  const not = unrehearsable.reduce((all, { count }) => all + count, 0)
  if (out_of_time)
    return `there was time for ${looked_at} calls only; narrow it with \`--days\` or \`--limit\`, or do it again when there is less to do`
  return not > looked_at - not ? `more calls can’t be rehearsed (${not}) than can (${looked_at - not})` : null
}

function showRehearsal(told: Rehearsal, paint: Paint): string {
  const { version, against, looked_at, complete, since_ms, summary, flips, unrehearsable } = told
  const extent = complete
    ? `every one that ended since ${time(since_ms)}`
    : 'the latest; older ones were not looked at'
  const kinds = summary.map(({ from, now, to, count }) => [
    `${from} → ${to}`,
    String(count),
    since(now, from, to, against),
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
    'flip',
    ...(moved ? [`by ${against} now`] : []),
    'tool',
    'agent',
    'call',
    'policies',
    'reason',
  ]
  const more = summary.reduce((all, { count }) => all + count, 0) - flips.length
  const little = tellsLittle(told)
  return [
    `version ${paint.bold(String(version))} against ${against}: ${looked_at} ${looked_at === 1 ? 'call' : 'calls'}, ${extent}\n`,
    summary.length === 0 ? `${paint.good('no call flips')}\n` : columns(kinds, '  '),
    summary.length === 0
      ? ''
      : `\n${listing(paint, heading, rows, '')}${more > 0 ? `and ${more} more\n` : ''}`,
    unrehearsable.length === 0
      ? ''
      : `\ncan’t be rehearsed:\n${columns(
          unrehearsable.map(({ reason, count }) => [String(count), reason]),
          '  ',
        )}`,
    `\n${questions(told)}\n`,
    little === null ? '' : `${paint.warn('this tells little')}: ${little}\n`,
    version === against ? '' : nextStep(told, paint),
  ].join('')
}

function questions({
  version,
  against,
  looked_at: all,
  approvals,
  approvals_per_day: rate,
}: Rehearsal): string {
  const counts = `questions to humans: ${approvals.now} of ${all} by version ${against}, ${approvals.to} of ${all} by version ${version}`
  return rate === null ? counts : `${counts}; a day: ${rate.now} and ${rate.to}`
}

/** Where the set in force does not say what was said then, something else has changed since. */
function since(now: string, from: string, to: string, against: number): string {
  if (now === from) return ''
  return now === to ? `so it is by version ${against} already` : `by version ${against}: ${now}`
}

const shadow = command({
  words: ['policy', 'shadow'],
  args: {
    'VERSION|off?':
      'the version to be asked beside the one in force, or `off`; what there is if you say nothing',
  },
  flags: {},
  does: 'Have a version asked about each call beside the one in force, which alone decides; and tell where they differ',
  key: 'operator',
  examples: ['countersign policy shadow 7', 'countersign policy shadow', 'countersign policy shadow off'],
  async run({ args, api, paint }) {
    const named = args['VERSION|off']
    if (named !== undefined && named !== 'off' && !isVersion(named))
      return err(usage('name a version, or `off`'))
    const version = named === 'off' ? null : Number(named)
    if (named === undefined) {
      const told = await api('readPolicyShadow', {})
      return told.ok ? ok({ ok: true, json: told.value, text: showShadow(told.value, paint) }) : told
    }
    const put = await api('putPolicyShadow', { body: { version } })
    return put.ok
      ? ok({
          ok: true,
          json: put.value,
          text: `${showShadow(put.value, paint)}${warned(put.value.warnings, paint)}`,
        })
      : put
  },
})

function showShadow({ version, since_ms, by, calls, differ, counts, latest }: Shadow, paint: Paint): string {
  if (version === null) return 'nothing shadows the set in force\n'
  const kinds = counts.map(({ from, to, count }) => [`${from} → ${to}`, String(count)])
  const rows = latest.map(({ at_ms, from, to, tool, agent, call }) => [
    time(at_ms),
    `${from} → ${to}`,
    tool,
    agent,
    call,
  ])
  return [
    `version ${paint.bold(String(version))}, since ${time(since_ms ?? 0)} by ${inline(by ?? '')}: differs on ${differ} of ${calls} calls that have ended\n`,
    columns(kinds, '  '),
    rows.length === 0 ? '' : `\n${listing(paint, ['ended', 'differs', 'tool', 'agent', 'call'], rows, '')}`,
  ].join('')
}

export const POLICY_TRIALS: readonly Command[] = [rehearse, shadow]
