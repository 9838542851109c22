// Tools as operators register them, and as operators and agents see them.

import { z } from 'zod'
import { FromArgument, ProcessExecutor } from '../executor.ts'
import { Name } from '../fields.ts'
import { LIMITS } from '../limits.ts'
import { Credentials, EgressMode, HostPattern, Limits, SkillExecutor, SkillLimits, Workspace } from '../plan.ts'
import { ToolRef } from '../statement.ts'

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
