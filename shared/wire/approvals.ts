// Approvals: what operators are asked, how they answer, and the answers that apply to later calls.

import { z } from 'zod'
import { ApprovalId, CallId, Name, Sha256, StandingId, Time } from '../fields.ts'
import { LIMITS } from '../limits.ts'
import { ToolRef } from '../statement.ts'
import { Risk } from './tools.ts'

const StandingSeconds = z.int().min(1).max(LIMITS.standing_s)
/** For this call alone, or for more of its kind: until the session is reset, or for a time. */
const Scope = z.enum(['once', 'session', 'timeboxed'])
/** One place where an operator changed the arguments before saying yes; `null` where there was, or is, nothing. Redacted as cards are. */
const ArgumentChange = z.strictObject({ at: z.string(), from: z.string().nullable(), to: z.string().nullable() })
export type ArgumentChange = z.infer<typeof ArgumentChange>
/** `from`: the digest that was asked about before. `more`: changes beyond those that are told. */
const Edit = z.strictObject({
  by: Name,
  channel: Name,
  at_ms: Time,
  from: Sha256,
  changes: z.array(ArgumentChange),
  more: z.int().min(0),
})
export type Edit = z.infer<typeof Edit>

const ApprovalStatus = z.enum(['pending', 'approved', 'denied', 'expired', 'cancelled'])
const Said = z.enum(['approve', 'deny'])
/** How surely it was they, the surest first: by a key of theirs, by Slack's word for who they are, or by a link that anyone could hold. */
export const Assurance = z.enum(['key', 'slack', 'link'])
export type Assurance = z.infer<typeof Assurance>
export const Approval = z.strictObject({
  id: ApprovalId,
  status: ApprovalStatus,
  /** What it is about, as a standing answer names it: `tool:<name>`. */
  subject: z.string(),
  digest: Sha256,
  /** The same wherever the same agent asks for exactly the same: tool version, arguments, plan. */
  group: Sha256,
  call: CallId,
  prompt: z.strictObject({
    title: z.string(),
    agent: z.string(),
    tool: z.string(),
    tool_version: z.int(),
    risk: Risk,
    risk_ground: z.string().optional(), // none in what was asked before there was one
    /** The command line, as a list; empty where nothing runs. */
    command: z.string(),
    /** Where and how it would run, in words. */
    plan: z.string(),
    arguments: z.string(),
    /** What the call brings, by content; paths as the card shows them. The bytes are at `…/files/{sha256}` below the call. */
    files: z.array(z.strictObject({ path: z.string(), sha256: Sha256, bytes: z.int() })).optional(),
    on_yes: z.string(),
    /** What an answer with more than the scope `once` would cover, and for how long policy lets a yes stand: 0, not at all. */
    standing: z.strictObject({ covers: z.string(), most_s: z.int().min(0) }).optional(),
    policies: z.array(z.string()),
    reason: z.string(),
  }),
  /** What may be answered, as far as policy lets a yes stand. The default is what Enter gives, and what silence comes to. */
  options: z.array(
    z.strictObject({ decision: Said, scope: Scope, ttl_s: StandingSeconds.optional(), default: z.literal(true).optional() }),
  ),
  requested_at: Time,
  expires_at: Time,
  answers: z.array(
    z.strictObject({
      by: Name,
      decision: Said,
      channel: Name,
      assurance: Assurance,
      scope: Scope,
      ttl_s: StandingSeconds.optional(),
      reason: z.string(),
      at_ms: Time,
      /** The standing approval, or denial, that gave it. */
      standing: StandingId.optional(),
    }),
  ),
  /** What operators have changed of what the agent proposed, oldest first: prompt and digest are of the call as it is now. */
  edits: z.array(Edit).optional(),
  /** Whose links answer no more, and why no `url` is shown: somebody took them back. */
  links_revoked: z.union([z.literal('all'), z.array(Name)]).optional(),
  url: z.string().optional(),
})
export type Approval = z.infer<typeof Approval>

export const Answer = z
  .strictObject({
    decision: Said,
    scope: Scope.default('once'),
    /** For `timeboxed`, and only there. */
    ttl_s: StandingSeconds.optional(),
    reason: z.string().max(LIMITS.reason_chars).default(''),
    /** What the answer is to. An answer to anything else is refused (L3); a yes needs it where somebody has changed the arguments. */
    digest: Sha256.optional(),
    /** A yes to these arguments in place of the agent's: whole, with what the card hides as it shows it. */
    arguments: z.record(z.string(), z.unknown()).optional(),
    /** The digest that a preview of the changed arguments told: what runs is that, or nothing. */
    becomes: Sha256.optional(),
  })
  .refine((answer) => answer.arguments === undefined || (answer.decision === 'approve' && answer.scope === 'once'), {
    path: ['arguments'],
    message: 'go with a yes to this call alone',
  })
  .refine((answer) => answer.becomes === undefined || answer.arguments !== undefined, {
    path: ['becomes'],
    message: 'belongs to changed `arguments`',
  })
  .refine(({ scope, ttl_s }) => (scope === 'timeboxed') === (ttl_s !== undefined), {
    path: ['ttl_s'],
    message: 'belongs to the scope `timeboxed`, which needs it',
  })
export type Answer = z.infer<typeof Answer>

/** As listed. `alike`: how many wait that ask exactly this, itself included; told where those are listed once. */
export const ListedApproval = Approval.extend({ alike: z.int().min(1).optional() })
export type ListedApproval = z.infer<typeof ListedApproval>

/** What an approval's arguments are, as an operator may change them: hidden values stand as the card shows them. */
export const Editable = z.strictObject({ digest: Sha256, arguments: z.record(z.string(), z.unknown()) })
export type Editable = z.infer<typeof Editable>
/** What changed arguments would come to, with the yes of whoever asks; nothing is recorded. */
export const Revision = z.strictObject({
  digest: Sha256,
  becomes: Sha256,
  changes: z.array(ArgumentChange),
  more: z.int(),
  /** `ask`: others are asked too. */
  effect: z.enum(['allow', 'ask']),
  prompt: Approval.shape.prompt,
})
export type Revision = z.infer<typeof Revision>

/** An answer that stands for further calls of its kind: a standing approval, or a standing denial. */
export const Standing = z.strictObject({
  id: StandingId,
  decision: Said,
  /** In words. */
  covers: z.string(),
  agent: Name,
  /** Since when there is that agent, and that operator: who is made again under the name inherits no answer. */
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
  /** Where it was given, and about which digest. */
  approval: ApprovalId,
  digest: Sha256,
})
export type Standing = z.infer<typeof Standing>
