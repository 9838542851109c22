// Answers that stand for further calls: standing approvals and standing denials. What one covers, in words and as the key under which it
// is found: anything of that other than it was, and humans are asked again (L3). Pure; it keeps nothing and decides nothing.

import { newStandingId } from '../shared/ids.ts'
import { digestOf } from '../shared/json.ts'
import { LIMITS } from '../shared/limits.ts'
import type { Plan } from '../shared/plan.ts'
import type { ToolRef } from '../shared/statement.ts'
import type { Standing } from '../shared/wire.ts'
import { reachInWords, readable } from './approvals.ts'
import { assuranceOf } from './assurance.ts'
import type { Answered, CallRecord } from './lifecycle.ts'
import type { RunRecord } from './run-record.ts'

/** One that is kept by its session: the key is what it covers. */
export type Kept = { key: string; standing: Standing; answer: Answered }

/** For how long an answer stands; 0: for its call alone. */
export const secondsOf = ({ scope, ttl_s }: Pick<Answered, 'scope' | 'ttl_s'>): number =>
  scope === 'once' ? 0 : scope === 'session' ? LIMITS.standing_s : (ttl_s ?? 0)

/** The program, and all that it can reach: the arguments may differ, this may not. */
const reachOf = ({ tier, executor, egress, profile, secrets, credentials, workspace }: Plan) => ({
  tier,
  program: executor.argv[0] ?? '',
  egress,
  profile,
  secrets,
  ...(credentials === undefined ? {} : { credentials }), // what stood before there were any has none
  workspace,
})

export const subjectOf = ({ name }: Pick<ToolRef, 'name'>): string => `tool:${name}`

/** What an answer covers, within one session of one agent. */
export const keyOf = ({ agentSince, device, channel }: RunRecord, { name, digest }: ToolRef, plan: Plan, policySet: string): string =>
  digestOf({
    agent_since: agentSince,
    device,
    channel,
    subject: subjectOf({ name }),
    tool: digest,
    policy_set: policySet,
    reach: reachOf(plan),
  })

export function coverage({ agent, session, device, channel }: RunRecord, { name, version }: Omit<ToolRef, 'digest'>, plan: Plan): string {
  const from = [...(channel === null ? [] : [`channel \`${channel}\``]), ...(device === null ? [] : [`device \`${device}\``])]
  const where = from.length === 0 ? '' : `, from ${from.join(' and ')}`
  const program = readable(plan.executor.argv[0] ?? '')
  return `every call of \`${name}\` version ${version} by agent \`${agent}\` in session \`${session}\`${where} that runs ${program} ${reachInWords(plan)}, whatever its other arguments`
}

/** What stands from now on, because of this answer to this call; nothing, where it was given to the call alone. */
export function standingOf(run: RunRecord, { proposal, status }: CallRecord, answer: Answered, policySet: string): Kept | null {
  const { tool, plan, digest } = proposal
  const seconds = secondsOf(answer)
  if (seconds === 0 || plan === null || status.approval === null) return null
  const id = newStandingId(answer.at_ms)
  const { by, since_ms, decision, channel, scope, reason, at_ms } = answer
  const standing: Standing = {
    id,
    decision,
    covers: coverage(run, tool, plan),
    agent: run.agent,
    agent_since_ms: run.agentSince,
    session: run.session,
    tool,
    policy_set: policySet,
    scope,
    by,
    by_since_ms: since_ms,
    channel,
    assurance: assuranceOf(channel),
    reason,
    at_ms,
    until_ms: at_ms + seconds * 1_000,
    approval: status.approval.id,
    digest,
  }
  return { key: keyOf(run, tool, plan, policySet), standing, answer: { ...answer, standing: id } }
}
