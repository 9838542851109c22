// The things that cross the wire, as schemas: tools, runs, calls, approvals, principals, workers. `api.ts` says on which routes.

import { z } from 'zod'
import { FromArgument, ProcessExecutor } from './executor.ts'
import { DecisionCode, Explanation } from './explanation.ts'
import { OutputFiles } from './files.ts'
import { PATTERNS } from './ids.ts'
import { LIMITS, MAX_BUDGET } from './limits.ts'
import { Credentials, EgressMode, HostPattern, Limits, Plan, SkillExecutor, SkillLimits, Workspace } from './plan.ts'
import { CallState, ToolRef } from './statement.ts'

export const Name = z.string().regex(PATTERNS.name)
export const ToolName = z.string().regex(PATTERNS.tool)
export const RunId = z.string().regex(PATTERNS.run, 'is not the id of a run; those look like run_01ABC…')
export const CallId = z.string().regex(PATTERNS.call, 'is not the id of a call; those look like call_01ABC…_1')
export const ApprovalId = z.string().regex(PATTERNS.approval, 'is not the id of an approval; those look like apr_01ABC…_1')
export const StandingId = z.string().regex(PATTERNS.standing)
export const WorkerId = z.string().regex(PATTERNS.worker)
export const Sha256 = z.string().regex(PATTERNS.sha256)
export const Time = z.int().min(0)
const StandingSeconds = z.int().min(1).max(LIMITS.standing_s)
/** An opaque name that the agent's side chooses: a session, a device. */
export const Opaque = z
  .string()
  .min(1)
  .max(128)
  .regex(/^[\x21-\x7e]+$/, 'must be printable ASCII without spaces')

// ── Tools ─────────────────────────────────────────────────────────────────────────────────────────────────────────

export const Capability = z.enum(['process_exec', 'network', 'secrets_read', 'filesystem_read', 'filesystem_write', 'artifacts_read'])
export type Capability = z.infer<typeof Capability>

/** How much an approver should mind. */
export const Risk = z.enum(['low', 'medium', 'high', 'critical'])
export type Risk = z.infer<typeof Risk>

/** A tool that runs programs, as operators put it. */
export const ProcessToolSpec = z.strictObject({
  description: z.string().min(1).max(2_000),
  input_schema: z.record(z.string(), z.unknown()),
  /** The result: one JSON object on standard output that fits. Else the call ends as `invalid_output`. */
  output_schema: z.record(z.string(), z.unknown()).optional(),
  /** Hosts imply `network` and secrets `secrets_read`, said or not. */
  capabilities: z.array(Capability).max(6),
  /** What it has in common with others, for policy: `resource in ToolGroup::"…"`. */
  groups: z.array(Name).max(32).optional(),
  /** Sensitive beyond what its capabilities already say. */
  sensitive: z.boolean().optional(),
  /** Declared safe to run again: only then is a lost execution retried. */
  idempotent: z.boolean().optional(),
  /** The argument that is spent, in whole units (cents): policies cap its sum. */
  spends: FromArgument.optional(),
  /** How long humans have to answer: less for what is stale soon, more for what may wait for the morning. */
  approval_ttl_s: z.int().min(1).max(LIMITS.approval_ttl_max_s).optional(),
  executor: ProcessExecutor,
  egress: z.strictObject({
    mode: EgressMode,
    hosts: z.array(HostPattern).max(64),
    /** The argument that names the hosts of one call: a list of hosts, or a URL. Each must be on `hosts`. */
    named_by: z.union([FromArgument, z.strictObject({ url: z.string().min(1).max(64) })]).optional(),
  }),
  secrets: z.array(Name).max(32).optional(),
  credentials: Credentials.optional(),
  workspace: Workspace,
  /** Calls may bring files: they lie read-only in `/input`, in tier C alone. */
  input_files: z.boolean().optional(),
  /** Keeps the files that a call leaves in `/output`, only in tier C, except files that hold a secret of the call. */
  output_files: z.boolean().optional(),
  limits: Limits.partial(),
})
export type ProcessToolSpec = z.infer<typeof ProcessToolSpec>

/** Or one that a skill brings: what it is and may comes with its manifest, when the skill is enabled. */
export const ToolSpec = ProcessToolSpec.extend({
  /** What its publisher says of it, at the least: what it is given may come to more. */
  risk: Risk.optional(),
  executor: z.discriminatedUnion('kind', [ProcessExecutor, SkillExecutor]),
  limits: Limits.partial().extend({ fuel: SkillLimits.shape.fuel.optional() }),
})
export type ToolSpec = z.infer<typeof ToolSpec>

export const Tool = ToolSpec.extend({ ...ToolRef.shape })
export type Tool = z.infer<typeof Tool>

/** A tool as an operator sees it, with what policies can read of its arguments. */
export const RegisteredTool = Tool.extend({
  policy: z.strictObject({
    /** The Cedar type of `context.args`. */
    args: z.string(),
    /** What of the arguments no policy sees, and why. */
    unseen: z.array(z.strictObject({ at: z.string(), reason: z.string() })),
  }),
})

/** A tool as an agent sees it. */
export const ToolSummary = z.strictObject({
  ...ToolRef.shape,
  description: z.string(),
  input_schema: z.record(z.string(), z.unknown()),
  output_schema: z.record(z.string(), z.unknown()).optional(),
  capabilities: z.array(Capability),
  sensitive: z.boolean(),
  input_files: z.boolean(),
})

// ── Principals ────────────────────────────────────────────────────────────────────────────────────────────────────

export const Budget = z.strictObject({
  max_calls_per_run: z.int().min(0).max(MAX_BUDGET.max_calls_per_run),
  execution_timeout_ms: z.int().min(1).max(MAX_BUDGET.execution_timeout_ms),
  max_denied_per_run: z.int().min(0).max(MAX_BUDGET.max_denied_per_run),
})
export type Budget = z.infer<typeof Budget>

export const AgentSpec = z.strictObject({
  /** Tools this agent may call; `*` is every registered one. */
  tools: z.array(z.union([ToolName, z.literal('*')])).max(LIMITS.tools),
  /** Channels it may come from; absent means any. */
  channels: z.array(Name).max(64).optional(),
  groups: z.array(Name).max(32).optional(),
  /** Operators who answer for it; whoever makes it, where nobody is named. Policy may bar them from approving its calls. */
  owners: z.array(Name).max(16).optional(),
  budget: Budget.partial().optional(),
  /** What its runs may hold together, of files that calls bring and leave. */
  files_bytes: z.int().min(0).max(LIMITS.agent_files_bytes).optional(),
  pool: Name.optional(),
})
export type AgentSpec = z.infer<typeof AgentSpec>

export const OperatorSpec = z.strictObject({ roles: z.array(Name).max(16) })
export type OperatorSpec = z.infer<typeof OperatorSpec>

export const Agent = AgentSpec.extend({ name: Name, created_at_ms: Time })
export const Operator = OperatorSpec.extend({ name: Name, created_at_ms: Time })
/** `key` is shown once, when it is made. */
export const WithKey = <T extends z.ZodRawShape>(shape: T) => z.strictObject({ ...shape, key: z.string().optional() })

// ── Runs and calls ────────────────────────────────────────────────────────────────────────────────────────────────

export const RunSpec = z.strictObject({
  session: Opaque.optional(),
  channel: Name.optional(),
  device: Opaque.optional(),
  budget: Budget.partial().optional(),
})
export type RunSpec = z.infer<typeof RunSpec>

export const Run = z.strictObject({
  id: RunId,
  agent: Name,
  session: z.string(),
  channel: z.string().nullable(),
  device: z.string().nullable(),
  state: z.enum(['open', 'cancelled']),
  budget: Budget,
  used: z.strictObject({ calls: z.int(), denied: z.int() }),
  created_at_ms: Time,
  journal: z.strictObject({ seq: z.int(), head: Sha256 }),
})
export type Run = z.infer<typeof Run>

const Effect = z.enum(['allow', 'ask', 'deny'])
export const Decision = z.strictObject({
  effect: Effect,
  /** Stable; a denial's is the error of the call. */
  code: DecisionCode,
  policies: z.array(z.string()),
  reason: z.string(),
  policy_set: Sha256,
  snapshot: Sha256,
  /** Why, and what would change it, as far as the reader may know. Allowed calls carry none: their policies and the reason say it. */
  explanation: Explanation.optional(),
})
export type Decision = z.infer<typeof Decision>

export const CallResult = z.strictObject({
  ok: z.boolean(),
  /** Standard output: the head, and behind a cut the tail. */
  output: z.string(),
  encoding: z.enum(['utf-8', 'base64']),
  stderr: z.string(),
  exit_code: z.int().nullable(),
  /** What it left, where its tool keeps that; the bytes are at `…/files/{sha256}` below the call. */
  files: OutputFiles.optional(),
  truncated: z.boolean(),
  error: z.strictObject({ code: z.string(), detail: z.string() }).optional(),
})
export type CallResult = z.infer<typeof CallResult>

export const Call = z.strictObject({
  id: CallId,
  run: RunId,
  tool: ToolName,
  state: CallState,
  digest: Sha256,
  decision: Decision,
  approval: z.strictObject({ id: ApprovalId, status: z.string(), expires_at: Time, page: z.string() }).optional(),
  plan: Plan.optional(),
  /** While it runs: on which worker (`edge` runs skills), since when, and whether somebody asked to cancel it. */
  running: z.strictObject({ worker: z.string(), since_ms: Time, cancel_requested: z.boolean() }).optional(),
  /** An operator changed the arguments before saying yes: these run, and `digest` is theirs; `from` is that of what was proposed. */
  edited: z.strictObject({ arguments: z.record(z.string(), z.unknown()), from: Sha256 }).optional(),
  result: CallResult.optional(),
  attestation: z
    .strictObject({
      id: z.string(),
      execution_sha256: Sha256,
      executor: z.string(),
      sandbox_enforcement: z.string(),
      cgroup: z.boolean().optional(),
    })
    .optional(),
  created_at_ms: Time,
  ended_at_ms: Time.optional(),
})
export type Call = z.infer<typeof Call>

/** What would be decided now. `digest` where it is about a call that there is. */
export const DryRun = z.strictObject({ decision: Decision, digest: Sha256.nullable(), plan: Plan.nullable() })
export type DryRun = z.infer<typeof DryRun>

/** What a set that shadows the one in force would have decided of a call. `salt`: its digest in the journal tells nothing by itself. */
export const Shadowed = z.strictObject({
  version: z.int(),
  since_ms: Time,
  from: Effect,
  to: Effect,
  code: z.string(),
  policies: z.array(z.string()),
  salt: z.string(),
})
export type Shadowed = z.infer<typeof Shadowed>

/** One entry of a run's journal: hash-chained, and what the event stream sends. */
export const JournalEntry = z.strictObject({
  seq: z.int().min(1),
  at_ms: Time,
  kind: z.string(),
  call: CallId.nullable(),
  body: z.record(z.string(), z.unknown()),
  prev: Sha256,
  hash: Sha256,
  /** For operators alone, and so not under the hash itself: its digest is, as `shadow_sha256` of the body. */
  shadow: Shadowed.optional(),
})
export type JournalEntry = z.infer<typeof JournalEntry>

// ── Approvals ─────────────────────────────────────────────────────────────────────────────────────────────────────

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
