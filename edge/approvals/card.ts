// The card of an approval: what approvers see before they answer, the answers that they may give,
// and the full text of what the card shortens. Pure; the RunObject takes the answer.

import type { CallOrigin } from '../../shared/evidence/origin.ts'
import { LIMITS } from '../../shared/limits.ts'
import { inputFilesOf, isEdgePlan, type Plan } from '../../shared/plan/plan.ts'
import type { Approval } from '../../shared/wire/approvals.ts'
import type { Decision } from '../../shared/wire/calls.ts'
import type { Change } from '../../shared/wire/explanation.ts'
import type { Tool } from '../../shared/wire/tools.ts'
import type { ApprovalRecord } from '../call/lifecycle.ts'
import { escapeConfusables, isShortened, quoteReadable, readableJson } from '../platform/visible-text.ts'
import type { Redaction } from '../secrets/redaction.ts'
import { requirementInWords, requiresMore, riskWithReason } from '../tools/risk.ts'
import { actorInWords, viaInWords } from './actor-words.ts'
import { planInWords, shownPlan } from './plan-words.ts'
import { SPANS } from './standing.ts'

type CardInput = {
  id: string
  agent: string
  tool: Tool
  args: Record<string, unknown>
  plan: Plan | null
  decision: Decision
  /** As recorded: secrets are masked already. */
  origin: CallOrigin
  /**
   * The sets of answers that would allow the call, in words that an operator may read; one is
   * enough.
   */
  needs: readonly (readonly Change[])[]
  /** The calls that a standing answer would cover, and its longest time by policy. */
  standing: NonNullable<Approval['prompt']['standing']> | null
  now: number
  redaction: Redaction
}

export function askRecord({
  id,
  agent,
  tool,
  args,
  plan,
  decision,
  origin,
  needs,
  standing,
  now,
  redaction,
}: CardInput): ApprovalRecord {
  const shown = plan === null ? null : shownPlan(plan, redaction)
  const files = inputFilesOf(shown)
  const { risk, ground } = riskWithReason(tool, plan, needs)
  return {
    id,
    requestedAt: now,
    expiresAt: now + (tool.approval_ttl_s ?? LIMITS.approval_ttl_s) * 1000,
    answers: [],
    prompt: {
      title: `${agent} wants to run ${tool.name}`,
      agent,
      tool: tool.name,
      tool_version: tool.version,
      risk,
      risk_ground: ground,
      command:
        plan === null || isEdgePlan(plan) ? '' : readableJson(redaction.ofArgv(plan.executor.argv, args)),
      plan:
        shown !== null
          ? `${planInWords(shown)}${describedBy(tool)}`
          : tool.executor.kind === 'none'
            ? UNSEEN
            : 'nothing runs',
      arguments: readableJson(redaction.of(args)),
      ...(files === undefined ? {} : { files }),
      on_yes: onYes(needs),
      ...(standing === null ? {} : { standing }),
      policies: decision.policies,
      reason: decision.reason,
      ...(origin.actor === undefined ? {} : { on_behalf_of: actorInWords(origin.actor, redaction) }),
      ...(origin.via === undefined ? {} : { via: viaInWords(origin.via) }),
      ...(origin.reason === undefined ? {} : { agent_says: escapeConfusables(origin.reason) }),
    },
  }
}

const UNSEEN =
  'not in Countersign: the agent’s own program runs it, without our sandbox, and nothing proves what it then does'

/** The definition that an operator accepted is all that is known of an upstream's tool. */
const describedBy = ({ executor, description }: Tool): string =>
  executor.kind === 'upstream' || executor.kind === 'stdio'
    ? `. Its server describes it so: ${quoteReadable(description)}`
    : ''

const OUTCOME = 'exactly this call runs once; any change needs a new approval'

/** True for every reader: policy may require approvers other than the one who reads it. */
function onYes(needs: readonly (readonly Change[])[]): string {
  return requiresMore(needs)
    ? `policy requires ${requirementInWords(needs)}; with that, ${OUTCOME}, and any other approval does not let it run`
    : OUTCOME
}

/**
 * For one approver: the effect that their own yes would have now, and what policy would still
 * require.
 */
export function onYesOf({ effect, reason }: Decision, needs: readonly (readonly Change[])[]): string {
  if (effect === 'allow') return OUTCOME
  if (effect === 'deny') return `policy does not accept your approval through this channel: ${reason}`
  const missing = needs.length === 0 ? 'more than that' : requirementInWords(needs)
  return `your approval alone is not enough: policy still requires ${missing}; with that, ${OUTCOME}`
}

/** The time boxes that a card offers: the two longest that policy allows. */
const offeredSpans = (most: number): number[] =>
  SPANS.filter((seconds) => seconds < LIMITS.standing_s && seconds <= most).slice(0, 2)

/** The answers that an approver may give. No comes first and is the default. */
export function optionsFor({ standing }: Approval['prompt']): Approval['options'] {
  const most = standing?.most_s ?? 0
  return [
    { decision: 'deny', scope: 'once', default: true },
    { decision: 'approve', scope: 'once' },
    ...(standing === undefined ? [] : [{ decision: 'deny', scope: 'session' } as const]),
    ...offeredSpans(most).map((ttl_s) => ({ decision: 'approve', scope: 'timeboxed', ttl_s }) as const),
    ...(most < LIMITS.standing_s ? [] : [{ decision: 'approve', scope: 'session' } as const]),
  ]
}

export const isCardShortened = ({ command, arguments: args }: Approval['prompt']): boolean =>
  [command, args].some(isShortened)

/** The full text of a part of a card, with secrets hidden, in pieces that fit a page. */
export type FullText = {
  readonly title: string
  readonly characters: number
  readonly parts: readonly string[]
}

/** The full text of whatever the card shortens, made from the stored call as the card was. */
export function fullTexts(
  prompt: Approval['prompt'],
  args: Record<string, unknown>,
  plan: Plan | null,
  redaction: Redaction,
): FullText[] {
  const texts: (readonly [title: string, shown: string, value: unknown])[] = [
    [
      'The command line in full',
      prompt.command,
      plan === null || isEdgePlan(plan) ? [] : redaction.ofArgv(plan.executor.argv, args),
    ],
    ['The arguments in full', prompt.arguments, redaction.of(args)],
  ]
  return texts
    .filter(([, shown]) => isShortened(shown))
    .map(([title, , value]) => {
      const text = escapeConfusables(JSON.stringify(value, null, 2))
      const parts = text.match(new RegExp(`[\\s\\S]{1,${LIMITS.page_chars}}`, 'gu')) ?? []
      return { title, characters: text.length, parts }
    })
}
