// One call that was, decided again as it was then by a set that was not in force: the tool's version, the arguments, the answers, the
// clock and the counters of then; the agent and the operators of now. Pure, and asks the one `decide` that live calls are decided by.

import type { RehearsedEffect } from '../../shared/routes/rehearsals.ts'
import type { Decision } from '../../shared/wire/calls.ts'
import { type Answered, type CallRecord, type Status, wasClaimed } from '../call/lifecycle.ts'
import type { RunRecord } from '../call/run.ts'
import type { Used } from '../call/usage.ts'
import { decide, decideAgain } from '../decision/decide.ts'
import type { AgentPrincipal, Loaded, LoadedTool } from '../directory/directory.ts'
import { isRead } from '../policy/attribute-reads.ts'

/** Why a call can't be decided again. */
export const UNREHEARSABLE = {
  agent: 'the agent was revoked since',
  tool: 'this version of the tool is not on record',
  arguments: 'no plan can be made of the arguments any more',
  run_budget: 'the budget of its run denied it, whatever policy says',
  run_count: 'policy reads what the run had used, and the run is too long to be counted again',
  session: 'policy reads what the session had used, and nobody counted it then',
  asks: 'policy reads how often the agent had people asked, and nobody counted it then',
  silent: 'its run did not answer',
} as const
export type Unrehearsable = keyof typeof UNREHEARSABLE

export type Rehearsed = {
  n: number
  from: RehearsedEffect
  now: RehearsedEffect
  to: RehearsedEffect
  policies: string[]
  reason: string
}
export type Outcome = Rehearsed | { n: number; not: Unrehearsable }

/** `used`: as recorded, else as counted again. */
export type Then = {
  run: RunRecord
  call: CallRecord
  agent: AgentPrincipal
  tool: LoadedTool
  used: Used | Unrehearsable
}

export function rehearseCall(inForce: Loaded, candidate: Loaded, then: Then): Outcome {
  const { proposal, status } = then.call
  const { n } = proposal
  if (status.decision.code === 'budget_spent') return { n, not: 'run_budget' }
  const now = effectUnder(inForce, then)
  if ('not' in now) return { n, not: now.not }
  const to = effectUnder(candidate, then)
  if ('not' in to) return { n, not: to.not }
  const { policies, reason } = to.decision
  return { n, from: recorded(status), now: now.effect, to: to.effect, policies, reason }
}

const ask = (suffices: boolean): RehearsedEffect => (suffices ? 'ask' : 'ask_more')

/** What was decided when the call was proposed; and of answers, whether they sufficed. */
function recorded(status: Status): RehearsedEffect {
  if (status.approval === null) return status.state === 'denied' ? 'deny' : 'allow'
  return ask(
    yesOf(status).length === 0 || (status.state !== 'awaiting_approval' && status.state !== 'expired'),
  )
}

/** Endings that do not show whether the answers sufficed: a no, a cancel, another policy. A call that was claimed had enough of them. */
const UNTOLD: ReadonlySet<string> = new Set(['rejected', 'cancelled', 'denied'])

const yesOf = (status: Status): readonly Answered[] =>
  status.approval === null || (UNTOLD.has(status.state) && !wasClaimed(status))
    ? []
    : status.approval.answers.filter(({ decision }) => decision === 'approve')

type Said = { effect: RehearsedEffect; decision: Decision } | { not: Unrehearsable }

function effectUnder(directory: Loaded, { run, call: { proposal, status }, agent, tool, used }: Then): Said {
  const counted = usedUnder(directory, used)
  if (typeof counted === 'string') return { not: counted }
  const situation = {
    agent,
    tool,
    args: proposal.args,
    files: proposal.files ?? [],
    answers: [],
    run,
    folderMetSecret: proposal.folderMetSecret ?? false,
    used: counted,
    now: proposal.createdAt,
  }
  const decided = decide(directory, situation, 'nobody')
  if (!decided.ok) return { not: 'arguments' }
  const { decision, plan } = decided.value
  const answers = yesOf(status)
  const last = answers.at(-1)
  if (decision.effect !== 'ask' || plan === null || last === undefined)
    return { effect: decision.effect, decision }
  const again = decideAgain(directory, { ...situation, answers, now: last.at_ms }, plan, 'nobody')
  return {
    effect: again.effect === 'deny' ? 'deny' : ask(again.effect === 'allow'),
    decision: again.effect === 'deny' ? again : decision,
  }
}

/** Of the counters, what this set reads: what nobody reads need not be known. */
function usedUnder({ policies }: Loaded, used: Then['used']): Used | null | Unrehearsable {
  const { context } = policies.reads
  if (!isRead(context, ['budget'])) return null
  if (typeof used === 'string') return used
  if (used.session === null && isRead(context, ['budget', 'session'])) return 'session'
  return used.agent == null && isRead(context, ['budget', 'agent']) ? 'asks' : used
}
