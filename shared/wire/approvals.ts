// Approvals: what operators are asked, how they answer, and the answers that apply to later calls.

import { z } from 'zod'
import { ToolRef } from '../evidence/statement.ts'
import { ApprovalId, CallId, Name, Sha256, StandingId, Time } from '../fields.ts'
import { LIMITS } from '../limits.ts'
import { Risk } from './tools.ts'

const StandingSeconds = z.int().min(1).max(LIMITS.standing_s)
/**
 * `once`: this call alone. The others cover later calls of its kind: until the session is reset, or
 * for `ttl_s`.
 */
const Scope = z.enum(['once', 'session', 'timeboxed'])
/**
 * One place where an operator changed the arguments. `null`: the value did not exist, or was
 * removed. Redacted as on cards.
 */
export const ArgumentChange = z.strictObject({
  at: z.string(),
  from: z.string().nullable(),
  to: z.string().nullable(),
})
export type ArgumentChange = z.infer<typeof ArgumentChange>
/**
 * `from`: the digest of the call before this edit. `more`: the number of changes that `changes`
 * leaves out.
 */
const Edit = z.strictObject({
  by: Name,
  channel: Name,
  at_ms: Time,
  from: Sha256,
  changes: z.array(ArgumentChange),
  more: z.int().min(0),
})
export type Edit = z.infer<typeof Edit>

/** The label of `agent_says` wherever people read it. */
export const AGENT_SAYS = 'The agent says (not verified)'
/** The label of `on_behalf_of` wherever people read it. */
export const ON_BEHALF_OF = 'On behalf of (asserted by the issuer)'
/** The label of `via` wherever people read it. */
export const PROPOSED_OVER = 'Proposed over'

const ApprovalStatus = z.enum(['pending', 'approved', 'denied', 'expired', 'cancelled'])
const Verdict = z.enum(['approve', 'deny'])
/**
 * How the operator was authenticated, strongest first: their API key, Slack, or a link, which
 * anyone could hold.
 */
export const Assurance = z.enum(['key', 'slack', 'link'])
export type Assurance = z.infer<typeof Assurance>
export const Approval = z.strictObject({
  id: ApprovalId,
  status: ApprovalStatus,
  /** The subject that a standing answer names: `tool:<name>`. */
  subject: z.string(),
  digest: Sha256,
  /** Equal for approvals of the same agent with the same tool version, arguments and plan. */
  group: Sha256,
  call: CallId,
  prompt: z.strictObject({
    title: z.string(),
    agent: z.string(),
    tool: z.string(),
    tool_version: z.int(),
    risk: Risk,
    risk_ground: z.string().optional(), // older approvals have none
    /** The command line as a list; empty for a tool that runs no program. */
    command: z.string(),
    /** The sandbox in which the call would run, and its reach, in words. */
    plan: z.string(),
    arguments: z.string(),
    /**
     * The files that the call brings, with paths as the card shows them. Their bytes are at
     * `…/files/{sha256}` below the call.
     */
    files: z.array(z.strictObject({ path: z.string(), sha256: Sha256, bytes: z.int() })).optional(),
    on_yes: z.string(),
    /**
     * The coverage of an answer with a scope beyond `once`. `most_s`: how long policy lets an
     * approval apply; 0 is this call alone.
     */
    standing: z.strictObject({ covers: z.string(), most_s: z.int().min(0) }).optional(),
    policies: z.array(z.string()),
    reason: z.string(),
    /** The reason that the agent gave, in its own words, which nobody has verified. */
    agent_says: z.string().optional(),
    /** The actor behind the agent, in words, as the issuer of its token asserts. */
    on_behalf_of: z.string().optional(),
    /** The protocol of the proposal and what its client calls itself, if it is not our own API. */
    via: z.string().optional(),
  }),
  /**
   * The answers that policy permits. The default is chosen by Enter, and applies when nobody
   * answers.
   */
  options: z.array(
    z.strictObject({
      decision: Verdict,
      scope: Scope,
      ttl_s: StandingSeconds.optional(),
      default: z.literal(true).optional(),
    }),
  ),
  requested_at: Time,
  expires_at: Time,
  answers: z.array(
    z.strictObject({
      by: Name,
      decision: Verdict,
      channel: Name,
      assurance: Assurance,
      scope: Scope,
      ttl_s: StandingSeconds.optional(),
      reason: z.string(),
      at_ms: Time,
      /** The standing answer that this one came from. */
      standing: StandingId.optional(),
    }),
  ),
  /**
   * The changes that operators made to the proposal, oldest first. Prompt and digest are those of
   * the changed call.
   */
  edits: z.array(Edit).optional(),
  /** The operators whose links were revoked. An approval with revoked links shows no `url`. */
  links_revoked: z.union([z.literal('all'), z.array(Name)]).optional(),
  url: z.string().optional(),
})
export type Approval = z.infer<typeof Approval>

export const Answer = z
  .strictObject({
    decision: Verdict,
    scope: Scope.default('once'),
    /** Required for the scope `timeboxed`, refused for others. */
    ttl_s: StandingSeconds.optional(),
    reason: z.string().max(LIMITS.reason_chars).default(''),
    /**
     * The digest that was shown: an answer to another one is refused (L3). Required to approve a
     * call whose arguments were changed.
     */
    digest: Sha256.optional(),
    /**
     * All arguments, to approve instead of the agent's. A hidden value is sent as the card shows
     * it.
     */
    arguments: z.record(z.string(), z.unknown()).optional(),
    /**
     * The digest that the preview of the changed arguments returned: if the call's would be
     * another, the answer is refused.
     */
    becomes: Sha256.optional(),
  })
  .refine(
    (answer) => answer.arguments === undefined || (answer.decision === 'approve' && answer.scope === 'once'),
    {
      path: ['arguments'],
      message: 'are allowed only with `approve` and the scope `once`',
    },
  )
  .refine((answer) => answer.becomes === undefined || answer.arguments !== undefined, {
    path: ['becomes'],
    message: 'is allowed only with changed `arguments`',
  })
  .refine(({ scope, ttl_s }) => (scope === 'timeboxed') === (ttl_s !== undefined), {
    path: ['ttl_s'],
    message: 'is required for the scope `timeboxed` and allowed for no other',
  })
export type Answer = z.infer<typeof Answer>

/**
 * `alike`: how many pending approvals are in its group, itself included. Present in lists that show
 * each group once.
 */
export const ListedApproval = Approval.extend({ alike: z.int().min(1).optional() })
export type ListedApproval = z.infer<typeof ListedApproval>

/**
 * The arguments of an approval, for an operator to change. Hidden values are as the card shows
 * them.
 */
export const Editable = z.strictObject({ digest: Sha256, arguments: z.record(z.string(), z.unknown()) })
export type Editable = z.infer<typeof Editable>
/** The effect that an approval with changed arguments would have. Previewing records nothing. */
export const Revision = z.strictObject({
  digest: Sha256,
  becomes: Sha256,
  changes: z.array(ArgumentChange),
  more: z.int(),
  /** `ask`: other operators are still asked. */
  effect: z.enum(['allow', 'ask']),
  prompt: Approval.shape.prompt,
})
export type Revision = z.infer<typeof Revision>

/** An answer that applies to later calls of the same kind. */
export const Standing = z.strictObject({
  id: StandingId,
  decision: Verdict,
  /** The calls that it applies to, in words. */
  covers: z.string(),
  agent: Name,
  /**
   * When the agent, and below the operator, was created: one that is created again under the same
   * name does not inherit the answer.
   */
  agent_since_ms: Time,
  session: z.string(),
  tool: ToolRef,
  policy_set: Sha256,
  scope: Scope,
  by: Name,
  by_since_ms: Time,
  channel: Name,
  assurance: Assurance,
  reason: z.string(),
  at_ms: Time,
  until_ms: Time,
  /** The approval that it was given to, and the digest of that call. */
  approval: ApprovalId,
  digest: Sha256,
})
export type Standing = z.infer<typeof Standing>
