// Renders calls and decisions as text. Untrusted text is on its own line or behind a bar, and its
// control characters are escaped.

import { EDGE_EXECUTOR, ISOLATE } from '../../shared/evidence/statement.ts'
import { inputFilesOf, type Plan } from '../../shared/plan/plan.ts'
import type { Output as RouteOutput } from '../../shared/routes/client.ts'
import type { Call, Decision } from '../../shared/wire/calls.ts'
import { KEPT, removalText } from '../../shared/wire/retention.ts'
import type { Paint } from '../shell/terminal-text.ts'
import { columns, enforcementLabel, fileCount, inline, quoted, time } from '../shell/terminal-text.ts'

/** The states of a call that has not ended. */
const OPEN: ReadonlySet<string> = new Set(['proposed', 'awaiting_approval', 'granted', 'running'])

const isGood = (state: string): boolean => state === 'succeeded' || state === 'released'

/** Whether `call` and `calls show` exit with 0: the call succeeded, or has not ended yet. */
export const exitsWithZero = ({ state }: Call): boolean => isGood(state) || OPEN.has(state)

const brushFor = (state: string, paint: Paint) =>
  isGood(state) ? paint.good : OPEN.has(state) ? paint.warn : paint.bad

const decisionText = ({ effect, policies, reason }: Decision): string =>
  `${effect}${policies.length === 0 ? '' : ` by ${policies.join(', ')}`}${reason === '' ? '' : `: ${reason}`}`

/** The place where a cancelled call still runs, and when it stops. */
export const cancelling = ({ worker }: NonNullable<Call['running']>): string =>
  worker === EDGE_EXECUTOR
    ? 'it runs at the edge, which is stopping it'
    : `it runs on worker ${worker} until its next heartbeat`

export function showCall(call: Call, paint: Paint): string {
  const { id, tool, state, decision, approval, running, result, attestation } = call
  const took =
    call.ended_at_ms === undefined
      ? ''
      : `  ${call.ended_at_ms - call.created_at_ms} ms${approval === undefined ? '' : ', including the wait for people'}`
  const rows: string[][] = [...originRows(call), ['decided', decisionText(decision)]]
  for (const [index, together] of (decision.explanation?.changes ?? []).entries())
    rows.push([index === 0 ? 'needs' : 'or', together.map(({ words }) => words).join(' and ')])
  if (approval !== undefined) {
    rows.push([
      'approval',
      `${approval.id} ${approval.status}${approval.status === 'pending' ? `, until ${time(approval.expires_at)}` : ''}`,
    ])
    if (state === 'awaiting_approval')
      rows.push(['', `to approve it, an operator runs: countersign approvals approve ${approval.id}`])
  }
  if (running?.cancel_requested === true) rows.push(['cancelling', cancelling(running)])
  if (call.edited !== undefined)
    rows.push([
      'edited',
      `an operator changed the arguments; the proposed call had the digest ${call.edited.from}`,
    ])
  if (result?.error !== undefined)
    rows.push([
      'error',
      `${result.error.code}${result.error.detail === '' ? '' : `: ${result.error.detail}`}`,
    ])
  if (result !== undefined && result.exit_code !== null) rows.push(['exit code', String(result.exit_code)])
  const [brought, kept] = [inputFilesOf(call.plan)?.length ?? 0, result?.files?.files.length ?? 0]
  if (brought > 0) rows.push(['input', `${fileCount(brought)}: countersign calls inputs ${id}`])
  if (result?.files !== undefined)
    rows.push(['output', `${fileCount(kept)}: countersign calls outputs ${id}`])
  if (attestation !== undefined)
    rows.push(['attested', `${attestation.id} by ${attestation.executor} (${enforcementLabel(attestation)})`])
  for (const kind of KEPT) {
    const removal = call.removed?.[kind]
    if (removal !== undefined) rows.push(['removed', removalText(kind, removal)])
  }
  const text = (name: string, content: string) =>
    content === '' ? '' : `${paint.dim(`${name}:`)}\n${quoted(content)}`
  const shown =
    result === undefined
      ? ''
      : `${text(result.encoding === 'base64' ? 'output, base64' : 'output', result.output)}${text(attestation?.executor === ISOLATE ? 'log' : 'standard error', result.stderr)}`
  const cut = result?.truncated === true ? `${paint.warn('the output was truncated')}\n` : ''
  return `${brushFor(state, paint)(inline(state))}  ${inline(tool)}  ${inline(id)}${took}\n${columns(rows, '  ')}${shown}${cut}`
}

/** The actor behind the agent, and the protocol of the proposal if it is not our own API. */
function originRows({ origin: { actor, via } = {} }: Call): string[][] {
  const named = via?.client === undefined ? '' : `, by a client that calls itself ${via.client}`
  return [
    ...(actor === undefined
      ? []
      : [['on behalf of', `${actor.subject}, as the issuer ${actor.issuer} asserts`]]),
    ...(via === undefined ? [] : [['proposed over', `MCP ${via.revision}${named}`]]),
  ]
}

/** The program's standard output, byte for byte. */
export const rawOutput = ({ result }: Call): Uint8Array =>
  result === undefined
    ? new Uint8Array()
    : Buffer.from(result.output, result.encoding === 'base64' ? 'base64' : 'utf8')

export function showDecision({ decision, plan }: RouteOutput<'decide'>, paint: Paint): string {
  const brush = decision.effect === 'allow' ? paint.good : decision.effect === 'ask' ? paint.warn : paint.bad
  const { explanation } = decision
  const rows = [
    ['reason', decision.reason],
    ...(plan === null ? [] : [[decision.effect === 'deny' ? 'last plan' : 'would run', planText(plan)]]),
    ...(explanation === undefined ? [['policies', decision.policies.join(', ') || 'none']] : []),
  ]
  return `${brush(decision.effect)}\n${columns(rows, '  ')}${explanation === undefined ? '' : showExplanation(explanation, decision.effect, paint)}`
}

const planText = ({ tier, egress, executor }: Plan): string =>
  `tier ${tier}, egress ${egress.mode}${egress.hosts.length === 0 ? '' : ` to ${egress.hosts.join(', ')}`}: ${inWords(executor)}`

function inWords(executor: Plan['executor']): string {
  if (executor.kind === 'skill') return `skill ${executor.skill} ${executor.version}`
  return executor.kind === 'upstream'
    ? `${executor.tool} of the upstream ${executor.upstream}, ${new URL(executor.url).origin}`
    : executor.mcp?.method === 'tools/call'
      ? `${executor.mcp.tool} of the upstream ${executor.mcp.upstream}, ${executor.argv.join(' ')}`
      : executor.argv.join(' ')
}

type Explanation = NonNullable<Decision['explanation']>

function showExplanation(
  { policies, plans, changes, fixed, errors = [] }: Explanation,
  effect: string,
  paint: Paint,
): string {
  const determining = policies.map(
    ({ id, effect: says, reason, advice, place, text }) =>
      `  ${paint.bold(inline(id))}  ${says}${place === undefined || place === '' ? '' : `  ${paint.dim(inline(place))}`}\n${columns(
        [['reason', reason ?? ''], ...(advice === null ? [] : [['advice', advice]])].filter(
          ([, what]) => what !== '',
        ),
        '    ',
      )}${text === undefined || text === '' ? '' : quoted(text)}`,
  )
  const tried = plans.map(({ tier, egress, policies: by, asks }) => [
    `tier ${tier}, egress ${egress}`,
    `${by.join(', ') || 'nothing permits it'}${asks === true ? '; a human would be asked' : ''}`,
  ])
  const part = (title: string, text: string): string => (text === '' ? '' : `${paint.dim(title)}\n${text}`)
  return [
    part('policies:', determining.join('') || '  none permits it\n'),
    part('errors:', errors.map((error) => `  ${inline(error)}\n`).join('')),
    part('refused plans:', columns(tried, '  ')),
    effect === 'allow' ? '' : part('would be allowed with:', showChanges(changes)),
    part(
      'facts that the proposer can’t change:',
      columns(
        fixed.map((fact) => [fact]),
        '  ',
      ),
    ),
  ].join('')
}

const CHANGED_BY = {
  agent: 'the agent can change it',
  human: 'an approver can change it',
  operator: 'an operator can change it',
  time: 'depends on the time of the call',
} as const

/** One block per alternative; all lines of a block must change together. */
const showChanges = (changes: Explanation['changes']): string =>
  changes
    .map((together) =>
      columns(
        together.map(({ words, is, by }) => [
          words,
          `${is === undefined ? '' : `is ${[is].flat().join(', ') || 'empty'}; `}${CHANGED_BY[by]}`,
        ]),
        '  ',
      ),
    )
    .join('or\n')
