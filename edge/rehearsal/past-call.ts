// Decides a past call again under another policy set. The tool's version, arguments, answers, clock
// and counters are those of the original decision; agent and operators are the present ones. Pure,
// and uses the same `decide` as live calls.

import type { RehearsedEffect } from '../../shared/routes/rehearsals.ts'
import type { Decision } from '../../shared/wire/calls.ts'
import { type CallRecord, type RecordedAnswer, type Status, wasClaimed } from '../call/lifecycle.ts'
import type { RunRecord } from '../call/run.ts'
import type { Used } from '../call/usage.ts'
import { decide, decideAgain } from '../decision/decide.ts'
import type { AgentPrincipal, LoadedDirectory, LoadedTool } from '../directory/loaded-directory.ts'
import { isRead } from '../policy/attribute-reads.ts'

/** Why a call can't be decided again. */
export const UNREHEARSABLE = {
  agent: 'the agent has been revoked since',
  tool: 'this version of the tool is not on record',
  removed: 'the retention rule of the tenant has removed its arguments',
  arguments: 'the planner can no longer make a plan from the arguments',
  run_budget: 'the run’s budget denied it, independently of policy',
  run_count: 'policy reads the run’s usage, and the run is too long to count it again',
  session: 'policy reads the session’s usage, which was not recorded at the time',
  asks: 'policy reads how many questions the agent had caused, which was not recorded at the time',
  silent: 'its run did not answer',
} as const
export type Unrehearsable = keyof typeof UNREHEARSABLE

export type RehearsedCall = {
  n: number
  from: RehearsedEffect
  now: RehearsedEffect
  to: RehearsedEffect
  policies: string[]
  reason: string
}
export type RehearsalOutcome = RehearsedCall | { n: number; not: Unrehearsable }

/** A call as it was when decided. `used`: the usage on record, or counted again from the run. */
export type PastCall = {
  run: RunRecord
  call: CallRecord
  agent: AgentPrincipal
  tool: LoadedTool
  used: Used | Unrehearsable
}

export function rehearseCall(
  inForce: LoadedDirectory,
  candidate: LoadedDirectory,
  then: PastCall,
): RehearsalOutcome {
  const { proposal, status } = then.call
  const { n } = proposal
  if (then.call.removed?.arguments !== undefined) return { n, not: 'removed' }
  if (status.decision.code === 'budget_spent') return { n, not: 'run_budget' }
  const now = effectUnder(inForce, then)
  if ('not' in now) return { n, not: now.not }
  const to = effectUnder(candidate, then)
  if ('not' in to) return { n, not: to.not }
  const { policies, reason } = to.decision
  return { n, from: recordedEffect(status), now: now.effect, to: to.effect, policies, reason }
}

/** `ask_more`: the answers that were given did not suffice. */
const askEffect = (suffices: boolean): RehearsedEffect => (suffices ? 'ask' : 'ask_more')

/**
 * The effect decided when the call was proposed and, if people answered, whether their answers
 * sufficed.
 */
function recordedEffect(status: Status): RehearsedEffect {
  if (status.approval === null) return status.state === 'denied' ? 'deny' : 'allow'
  return askEffect(
    approvalsOf(status).length === 0 || (status.state !== 'awaiting_approval' && status.state !== 'expired'),
  )
}

/**
 * States that don't show whether the approvals given sufficed: a rejection, a withdrawal or another
 * policy ended the call. A call that was claimed had enough of them.
 */
const INCONCLUSIVE_STATES: ReadonlySet<string> = new Set(['rejected', 'cancelled', 'denied'])

const approvalsOf = (status: Status): readonly RecordedAnswer[] =>
  status.approval === null || (INCONCLUSIVE_STATES.has(status.state) && !wasClaimed(status))
    ? []
    : status.approval.answers.filter(({ decision }) => decision === 'approve')

type EffectUnderSet = { effect: RehearsedEffect; decision: Decision } | { not: Unrehearsable }

function effectUnder(
  directory: LoadedDirectory,
  { run, call: { proposal, status }, agent, tool, used }: PastCall,
): EffectUnderSet {
  const counted = usageReadBy(directory, used)
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
    actor: proposal.origin?.actor ?? null,
    now: proposal.createdAt,
  }
  const decided = decide(directory, situation, 'nobody')
  if (!decided.ok) return { not: 'arguments' }
  const { decision, plan } = decided.value
  const answers = approvalsOf(status)
  const last = answers.at(-1)
  if (decision.effect !== 'ask' || plan === null || last === undefined)
    return { effect: decision.effect, decision }
  const again = decideAgain(directory, { ...situation, answers, now: last.at_ms }, plan, 'nobody')
  return {
    effect: again.effect === 'deny' ? 'deny' : askEffect(again.effect === 'allow'),
    decision: again.effect === 'deny' ? again : decision,
  }
}

/** The usage, or null if the set does not read it; a reason if it reads usage that is not known. */
function usageReadBy({ policies }: LoadedDirectory, used: PastCall['used']): Used | null | Unrehearsable {
  const { context } = policies.reads
  if (!isRead(context, ['budget'])) return null
  if (typeof used === 'string') return used
  if (used.session === null && isRead(context, ['budget', 'session'])) return 'session'
  return used.agent == null && isRead(context, ['budget', 'agent']) ? 'asks' : used
}
