// Standing approvals and standing denials: what one covers, in words and as the key that finds it.
// If anything that the key covers has changed, humans are asked again (L3). Pure.

import { digestOf } from '../../shared/bytes/json.ts'
import type { Actor } from '../../shared/evidence/actor.ts'
import { identityOfActor } from '../../shared/evidence/actor.ts'
import type { CallOrigin } from '../../shared/evidence/origin.ts'
import type { ToolRef } from '../../shared/evidence/statement.ts'
import { newStandingId } from '../../shared/ids.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Plan } from '../../shared/plan/plan.ts'
import { isEdgePlan } from '../../shared/plan/plan.ts'
import type { Standing } from '../../shared/wire/approvals.ts'
import type { Tool } from '../../shared/wire/tools.ts'
import type { CallRecord, RecordedAnswer } from '../call/lifecycle.ts'
import type { RunRecord } from '../call/run.ts'
import { escapeBackticks, quoteReadable } from '../platform/visible-text.ts'
import type { Redaction } from '../secrets/redaction.ts'
import { interprets, isChangeable } from '../tools/interpreters.ts'
import { actorInWords } from './actor-words.ts'
import { assuranceOf } from './assurance.ts'
import { reachInWords, shownPlan } from './plan-words.ts'

/** A standing answer as its session stores it; `key` is what it covers. */
export type StoredStanding = { key: string; standing: Standing; answer: RecordedAnswer }

/**
 * The offered durations of a standing answer in seconds, longest first: the session, then time
 * boxes.
 */
export const SPANS: readonly number[] = [LIMITS.standing_s, 3_600, 600, 60]

/** How long an answer covers further calls; 0 if it covers only its own call. */
export const secondsOf = ({ scope, ttl_s }: Pick<RecordedAnswer, 'scope' | 'ttl_s'>): number =>
  scope === 'once' ? 0 : scope === 'session' ? LIMITS.standing_s : (ttl_s ?? 0)

/**
 * The program and all that it can reach. A standing answer covers other arguments, but no other
 * reach.
 */
function reachOf(plan: Plan) {
  if (plan.tier === 'A')
    return {
      tier: plan.tier,
      skill: plan.executor,
      egress: plan.egress,
      secrets: plan.secrets,
      credentials: plan.credentials ?? [],
    }
  if (plan.tier === 'M')
    return {
      tier: plan.tier,
      upstream: plan.executor,
      egress: plan.egress,
      credentials: plan.credentials ?? [],
    }
  const { tier, executor, egress, profile, secrets, credentials, workspace } = plan
  return {
    tier,
    program: executor.argv[0] ?? '',
    ...(executor.mcp === undefined ? {} : { command: executor.argv, mcp: executor.mcp }),
    egress,
    profile,
    secrets,
    ...(credentials === undefined ? {} : { credentials }), // absent in keys older than credentials
    workspace,
  }
}

/**
 * Whether a standing answer may cover the plan. Not with input files: they are often the program,
 * and a human has to look at each. Not a program that calls can change. And not an interpreter in the
 * folder of its run, where another call can change the script that the same arguments name.
 */
export const mayStand = (plan: Plan): boolean =>
  isEdgePlan(plan) ||
  ((plan.files ?? []).length === 0 &&
    !isChangeable(plan) &&
    !(plan.workspace === 'run' && interprets(plan.executor.argv) !== undefined))

export const subjectOf = ({ name }: Pick<ToolRef, 'name'>): string => `tool:${name}`

/**
 * The arguments of an interpreter are its program, so an answer covers only calls with the same
 * ones. The command of an MCP server is fixed by an operator, and an agent's arguments are not in it.
 */
const isBoundToArguments = (plan: Plan): boolean =>
  !isEdgePlan(plan) && plan.executor.mcp === undefined && interprets(plan.executor.argv) !== undefined

type ProposedCall = { readonly tool: ToolRef; readonly argsSha256: string; readonly origin?: CallOrigin }

/** The key of what an answer covers within one session of one agent. */
export function keyOf(
  { agentSince, device, channel }: RunRecord,
  { tool: { name, digest }, argsSha256, origin }: ProposedCall,
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
    ...(origin?.actor === undefined ? {} : { actor: identityOfActor(origin.actor) }), // another person, another question
    ...(isBoundToArguments(plan) ? { arguments: argsSha256 } : {}),
  })
}

/**
 * The coverage of a standing answer, in words. The card and the standing answer show the same text.
 */
export function coverage(
  { agent, session, device, channel }: RunRecord,
  tool: Tool,
  plan: Plan,
  actor: Actor | undefined,
  redaction: Redaction,
): string {
  const { name, version, input_files } = tool
  const shown = shownPlan(plan, redaction)
  const without = input_files === true ? ', as long as it supplies no input files' : ''
  const quotable = (name: string): string => escapeBackticks(String(redaction.of(name)))
  const from = [
    ...(channel === null ? [] : [`channel \`${quotable(channel)}\``]),
    ...(device === null ? [] : [`device \`${quotable(device)}\``]),
  ]
  const where = from.length === 0 ? '' : `, from ${from.join(' and ')}`
  const runs = isEdgePlan(shown)
    ? reachInWords(shown)
    : `${quoteReadable(shown.executor.argv[0] ?? '')} ${reachInWords(shown)}`
  const same = isBoundToArguments(plan) ? 'with exactly these arguments' : 'with any arguments'
  const behalf = actor === undefined ? '' : ` on behalf of ${actorInWords(actor, redaction)}`
  const whose = `by agent \`${agent}\`${behalf} in session \`${quotable(session)}\`${where}`
  return `every call of \`${name}\` version ${version} ${whose} that runs ${runs}, ${same}${without}`
}

/** The standing answer that this answer creates; `null` if it is for its own call only. */
export function standingOf(
  run: RunRecord,
  { proposal, status }: CallRecord,
  answer: RecordedAnswer,
  policySet: string,
): StoredStanding | null {
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
