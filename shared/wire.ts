// The things that cross the wire, as schemas: tools, runs, calls, approvals, principals, workers. `api.ts` says on which routes.

import { z } from 'zod'
import { Envelope, PublicKey } from './dsse.ts'
import { Explanation } from './explanation.ts'
import { PATTERNS } from './ids.ts'
import { LIMITS, MAX_BUDGET } from './limits.ts'
import { Argv, ArgvItem, EgressMode, EnvName, HostPattern, Limits, Plan, Stdin, Tier, Workspace } from './plan.ts'
import { CallState, ToolRef } from './statement.ts'

export const Name = z.string().regex(PATTERNS.name)
export const ToolName = z.string().regex(PATTERNS.tool)
export const RunId = z.string().regex(PATTERNS.run, 'is not the id of a run; those look like run_01ABC…')
export const CallId = z.string().regex(PATTERNS.call, 'is not the id of a call; those look like call_01ABC…_1')
export const ApprovalId = z.string().regex(PATTERNS.approval, 'is not the id of an approval; those look like apr_01ABC…_1')
export const StandingId = z.string().regex(PATTERNS.standing)
export const WorkerId = z.string().regex(PATTERNS.worker)
const Sha256 = z.string().regex(PATTERNS.sha256)
const Time = z.int().min(0)
const StandingSeconds = z.int().min(1).max(LIMITS.standing_s)
/** An opaque name that the agent's side chooses: a session, a device. */
export const Opaque = z
  .string()
  .min(1)
  .max(128)
  .regex(/^[\x21-\x7e]+$/)

// ── Tools ─────────────────────────────────────────────────────────────────────────────────────────────────────────

export const Capability = z.enum(['process_exec', 'network', 'secrets_read', 'filesystem_read', 'filesystem_write', 'artifacts_read'])
export type Capability = z.infer<typeof Capability>

const FromArgument = z.strictObject({ arg: z.string().min(1).max(64) })

export const ToolSpec = z.strictObject({
  description: z.string().min(1).max(2_000),
  input_schema: z.record(z.string(), z.unknown()),
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
  executor: z.strictObject({
    kind: z.literal('process'),
    /** From least to most isolated; policy makes the planner climb. */
    tiers: z.array(Tier).min(1).max(2),
    /** `{name}` fills exactly one element with that argument; `{...name}` fills one element for each item of a list of strings. */
    argv: Argv,
    stdin: Stdin,
    env: z.record(EnvName, ArgvItem).optional(),
    cwd: FromArgument.optional(),
    /** An argument that may ask for less time than the tool's limit. */
    timeout_ms: FromArgument.optional(),
    /** What argv[0] may be, where an argument fills it. */
    allowed_executables: z.array(z.string().min(1).max(256)).max(256).optional(),
  }),
  egress: z.strictObject({
    mode: EgressMode,
    hosts: z.array(HostPattern).max(64),
    /** The argument that names the hosts of one call: a list of hosts, or a URL. Each must be on `hosts`. */
    named_by: z.union([FromArgument, z.strictObject({ url: z.string().min(1).max(64) })]).optional(),
  }),
  secrets: z.array(Name).max(32).optional(),
  workspace: Workspace,
  limits: Limits.partial(),
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
  capabilities: z.array(Capability),
  sensitive: z.boolean(),
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

export const ProposedCall = z.strictObject({ tool: ToolName, args: z.record(z.string(), z.unknown()) })
export type ProposedCall = z.infer<typeof ProposedCall>
export const ProposedCallInNewRun = ProposedCall.extend({ run: RunSpec.optional() })

const Effect = z.enum(['allow', 'ask', 'deny'])
export const Decision = z.strictObject({
  effect: Effect,
  /** Stable; a denial's is the error of the call. */
  code: z.enum(['allowed', 'approval_required', 'denied', 'egress_denied', 'budget_spent', 'policy_error']),
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
  result: CallResult.optional(),
  attestation: z
    .strictObject({ id: z.string(), execution_sha256: Sha256, executor: z.string(), sandbox_enforcement: z.string() })
    .optional(),
  created_at_ms: Time,
  ended_at_ms: Time.optional(),
})
export type Call = z.infer<typeof Call>

/** A call that is only supposed. An operator names the agent; an agent is itself. */
export const SupposedCall = ProposedCallInNewRun.extend({ agent: Name.optional() })
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
    risk: z.enum(['low', 'medium', 'high', 'critical']),
    /** The command line, as a list; empty where nothing runs. */
    command: z.string(),
    /** Where and how it would run, in words. */
    plan: z.string(),
    arguments: z.string(),
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
  })
  .refine(({ scope, ttl_s }) => (scope === 'timeboxed') === (ttl_s !== undefined), {
    path: ['ttl_s'],
    message: 'belongs to the scope `timeboxed`, which needs it',
  })
export type Answer = z.infer<typeof Answer>

/** As listed. `alike`: how many wait that ask exactly this, itself included; told where those are listed once. */
export const ListedApproval = Approval.extend({ alike: z.int().min(1).optional() })
export type ListedApproval = z.infer<typeof ListedApproval>

/** An answer that stands for further calls of its kind: a standing approval, or a standing denial. */
export const Standing = z.strictObject({
  id: StandingId,
  decision: Said,
  /** In words. */
  covers: z.string(),
  agent: Name,
  session: z.string(),
  tool: ToolRef,
  policy_set: Sha256,
  scope: Scope,
  by: Name,
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

// ── Workers ───────────────────────────────────────────────────────────────────────────────────────────────────────

export const Enrolment = z.strictObject({ token: z.string().max(200), x: PublicKey, name: Name, tiers: z.array(Tier) })
export const Enrolled = z.strictObject({
  worker: WorkerId,
  tenant: z.string(),
  pool: Name,
  edge: z.strictObject({ kid: z.string(), x: PublicKey }),
})
export const Worker = z.strictObject({
  id: WorkerId,
  name: Name,
  pool: Name,
  kid: z.string(),
  tiers: z.array(Tier),
  enrolled_at_ms: Time,
  seen_at_ms: Time.nullable(),
  status: z.enum(['active', 'revoked']),
})

export const ClaimRequest = z.strictObject({ run: RunId, call: CallId, tiers: z.array(Tier).max(2) })
/** What a claim hands over, once: the plan, the arguments, and the grant that binds them. */
export const Claim = z.strictObject({ grant: Envelope, plan: Plan, args: z.record(z.string(), z.unknown()), facts_digest: Sha256 })
export type Claim = z.infer<typeof Claim>

const Chunk = z.base64().max(Math.ceil(LIMITS.output_chunk_bytes / 3) * 4)
const StreamName = z.enum(['stdout', 'stderr'])
export const OutputChunk = z.strictObject({ fence: z.int().min(1), stream: StreamName, offset: z.int().min(0), data: Chunk })
export const Settlement = z.strictObject({
  fence: z.int().min(1),
  envelope: Envelope,
  /** What was kept of each stream, whole: `kept` bytes, head and behind a cut the tail. */
  output: z.strictObject({ stdout: z.base64(), stderr: z.base64() }),
})
export type Settlement = z.infer<typeof Settlement>
export const Settled = z.strictObject({ call: CallId, state: CallState, attestation: Envelope })
export const Heartbeat = z.strictObject({
  tiers: z.array(Tier),
  running: z.array(z.strictObject({ call: CallId, fence: z.int() })).max(1_000),
})
export const HeartbeatAnswer = z.strictObject({ stop: z.array(CallId), now_ms: Time })
