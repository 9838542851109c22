// Renders an approval and its edits as text. Untrusted text is on its own line or behind a bar, and
// its control characters are escaped.

import type { Approval, Edit } from '../../shared/wire/approvals.ts'
import type { Paint } from '../shell/terminal-text.ts'
import { columns, fileCount, inline, quoted, time } from '../shell/terminal-text.ts'
import { standingScope } from './standing.ts'

export function showApproval(approval: Approval, paint: Paint): string {
  const {
    id,
    status,
    prompt,
    digest,
    call,
    requested_at,
    expires_at,
    answers,
    url,
    links_revoked,
    edits = [],
  } = approval
  const rows = [
    ['approval', id],
    ['call', call],
    ['agent', prompt.agent],
    ...(prompt.on_behalf_of === undefined
      ? []
      : [['on behalf of', `${prompt.on_behalf_of}, as the issuer asserts`]]),
    ...(prompt.via === undefined ? [] : [['proposed over', prompt.via]]),
    ['tool', `${prompt.tool}, version ${prompt.tool_version}`],
    ['risk', prompt.risk_ground === undefined ? prompt.risk : `${prompt.risk}: ${prompt.risk_ground}`],
    ['policies', prompt.policies.join(', ')],
    ['reason', prompt.reason],
    ['if approved', prompt.on_yes],
    ...(prompt.standing === undefined ? [] : [['standing answer', standingScope(approval)]]),
    ['digest', digest],
    ['requested', time(requested_at)],
    ['expires', time(expires_at)],
    ...(prompt.files === undefined
      ? []
      : [['files', `${fileCount(prompt.files.length)}: countersign calls inputs ${call}`]]),
    ...answers.map(({ by, decision, channel, scope, standing, at_ms, reason }) => [
      'answer',
      `${decision}${scope === 'once' ? '' : ` (${standing ?? scope})`} by ${by} over ${channel} at ${time(at_ms)}${reason === '' ? '' : `: ${reason}`}`,
    ]),
    ...(links_revoked === undefined
      ? []
      : [['links revoked', links_revoked === 'all' ? 'all' : links_revoked.join(', ')]]),
    ...(url === undefined ? [] : [['link', url]]),
  ]
  const brush = status === 'pending' ? paint.warn : status === 'approved' ? paint.good : paint.bad
  return `${brush(status)}  ${paint.bold(inline(prompt.title))}\n${columns(rows, '  ')}${paint.dim('would run:')}\n${quoted(`${prompt.command} ${prompt.plan}`.trim())}${paint.dim('arguments:')}\n${quoted(prompt.arguments)}${agentSays(prompt, paint)}${edits.map((edit) => `${paint.dim(`edited by ${edit.by} over ${edit.channel} at ${time(edit.at_ms)}, from ${edit.from}:`)}\n${renderChanges(edit, paint)}`).join('')}`
}

/** The agent's reason, marked as its own words. */
const agentSays = ({ agent_says }: Approval['prompt'], paint: Paint): string =>
  agent_says === undefined ? '' : `${paint.dim('the agent says (not verified):')}\n${quoted(agent_says)}`

/**
 * The changes of an edit, place by place: removed lines start with a minus, added ones with a plus.
 */
export function renderChanges({ changes, more }: Pick<Edit, 'changes' | 'more'>, paint: Paint): string {
  const side = (sign: string, text: string | null): string =>
    text === null ? '' : quoted(text).replace(/^ {2}/gm, `${sign} `)
  const lines = changes.map(
    ({ at, from, to }) => `  ${inline(at)}\n${paint.bad(side('-', from))}${paint.good(side('+', to))}`,
  )
  return `${lines.join('')}${more === 0 ? '' : `  and ${more} more places\n`}`
}
