// Answers that stand for further calls: standing approvals and standing denials. What one covers, in words and as the key under which it
// is found: anything of that other than it was, and humans are asked again (L3). Pure; it keeps nothing and decides nothing.

import { digestOf } from '../../shared/bytes/json.ts'
import type { ToolRef } from '../../shared/evidence/statement.ts'
import { newStandingId } from '../../shared/ids.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Plan } from '../../shared/plan/plan.ts'
import type { Standing } from '../../shared/wire/approvals.ts'
import type { Tool } from '../../shared/wire/tools.ts'
import type { Answered, CallRecord } from '../call/lifecycle.ts'
import type { RunRecord } from '../call/run.ts'
import { quoted, unticked } from '../platform/visible-text.ts'
import type { Redaction } from '../secrets/redaction.ts'
import { interprets } from '../tools/interpreters.ts'
import { assuranceOf } from './assurance.ts'
import { reachInWords, shownPlan } from './plan-words.ts'

/** One that is kept by its session: the key is what it covers. */
export type Kept = { key: string; standing: Standing; answer: Answered }

/** How long a yes may stand in seconds, longest first: the span of a session, then the spans of timeboxed answers. */
export const SPANS: readonly number[] = [LIMITS.standing_s, 3_600, 600, 60]

/** For how long an answer stands; 0: for its call alone. */
export const secondsOf = ({ scope, ttl_s }: Pick<Answered, 'scope' | 'ttl_s'>): number =>
  scope === 'once' ? 0 : scope === 'session' ? LIMITS.standing_s : (ttl_s ?? 0)

/** The program, and all that it can reach: the arguments may differ, this may not. */
function reachOf(plan: Plan) {
  if (plan.tier === 'A')
    return {
      tier: plan.tier,
      skill: plan.executor,
      egress: plan.egress,
      secrets: plan.secrets,
      credentials: plan.credentials ?? [],
    }
  const { tier, executor, egress, profile, secrets, credentials, workspace } = plan
  return {
    tier,
    program: executor.argv[0] ?? '',
    egress,
    profile,
    secrets,
    ...(credentials === undefined ? {} : { credentials }), // what stood before there were any has none
    workspace,
  }
}

/**
 * A human looks at files one by one, and files are often the program: no standing answer covers a call that brings any. None covers an
 * interpreter in the folder of its run either, where another call can change the script that the same arguments name.
 */
export const mayStand = (plan: Plan): boolean =>
  plan.tier === 'A' ||
  ((plan.files ?? []).length === 0 && !(plan.workspace === 'run' && isBoundToArguments(plan)))

export const subjectOf = ({ name }: Pick<ToolRef, 'name'>): string => `tool:${name}`

/** An interpreter does what its arguments say, so an answer to one call covers only calls with the same arguments. */
const isBoundToArguments = (plan: Plan): boolean =>
  plan.tier !== 'A' && interprets(plan.executor.argv) !== undefined

type Proposed = { readonly tool: ToolRef; readonly argsSha256: string }

/** What an answer covers, within one session of one agent. */
export function keyOf(
  { agentSince, device, channel }: RunRecord,
  { tool: { name, digest }, argsSha256 }: Proposed,
  plan: Plan,
  policySet: string,
): string {
  return digestOf({
    agent_since: agentSince,
    device,
    channel,
    subject: subjectOf({ name }),
    tool: digest,
    policy_set: policySet,
    reach: reachOf(plan),
    ...(isBoundToArguments(plan) ? { arguments: argsSha256 } : {}),
  })
}

/** As the card tells it, and with it whatever stands. */
export function coverage(
  { agent, session, device, channel }: RunRecord,
  tool: Tool,
  plan: Plan,
  redaction: Redaction,
): string {
  const { name, version, input_files } = tool
  const shown = shownPlan(plan, redaction)
  const without = input_files === true ? ', as long as it brings no files' : ''
  const told = (name: string): string => unticked(String(redaction.of(name)))
  const from = [
    ...(channel === null ? [] : [`channel \`${told(channel)}\``]),
    ...(device === null ? [] : [`device \`${told(device)}\``]),
  ]
  const where = from.length === 0 ? '' : `, from ${from.join(' and ')}`
  const runs =
    shown.tier === 'A'
      ? reachInWords(shown)
      : `${quoted(shown.executor.argv[0] ?? '')} ${reachInWords(shown)}`
  const same = isBoundToArguments(plan) ? 'with exactly these arguments' : 'whatever its other arguments'
  return `every call of \`${name}\` version ${version} by agent \`${agent}\` in session \`${told(session)}\`${where} that runs ${runs}, ${same}${without}`
}

/** What stands from now on, because of this answer to this call; nothing, where it was given to the call alone. */
export function standingOf(
  run: RunRecord,
  { proposal, status }: CallRecord,
  answer: Answered,
  policySet: string,
): Kept | null {
  const { tool, plan, digest } = proposal
  const seconds = secondsOf(answer)
  const covers = status.approval?.prompt.standing?.covers
  if (seconds === 0 || plan === null || status.approval === null || covers === undefined || !mayStand(plan))
    return null
  const id = newStandingId(answer.at_ms)
  const { by, since_ms, decision, channel, scope, reason, at_ms } = answer
  const standing: Standing = {
    id,
    decision,
    covers,
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
  return { key: keyOf(run, proposal, plan, policySet), standing, answer: { ...answer, standing: id } }
}
