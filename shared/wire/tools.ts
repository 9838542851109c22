// Tools as operators register them, and as operators and agents see them.

import { z } from 'zod'
import { ToolRef } from '../evidence/statement.ts'
import { Name } from '../fields.ts'
import { LIMITS } from '../limits.ts'
import { FromArgument, ProcessExecutor, StdioExecutor } from '../plan/executor.ts'
import {
  Credentials,
  EgressMode,
  HostPattern,
  Limits,
  SkillExecutor,
  SkillLimits,
  UpstreamExecutor,
  Workspace,
} from '../plan/plan.ts'

export const Capability = z.enum([
  'process_exec',
  'network',
  'secrets_read',
  'filesystem_read',
  'filesystem_write',
  'artifacts_read',
])
export type Capability = z.infer<typeof Capability>

/** How much harm a call may do, for the operator who approves it. */
export const Risk = z.enum(['low', 'medium', 'high', 'critical'])
export type Risk = z.infer<typeof Risk>

/** A tool that runs a program, as an operator registers it. */
export const ProcessToolSpec = z.strictObject({
  description: z.string().min(1).max(2_000),
  input_schema: z.record(z.string(), z.unknown()),
  /**
   * Standard output must be one JSON object that matches. Otherwise the call fails with
   * `invalid_output`.
   */
  output_schema: z.record(z.string(), z.unknown()).optional(),
  /**
   * `mcp`: standard output is one result of the Model Context Protocol, `{content,
   * structuredContent?, isError?}`, which MCP clients get as it is. `output_schema` is then that of
   * `structuredContent`.
   */
  result: z.literal('mcp').optional(),
  /** Hosts imply `network`, and secrets `secrets_read`, even if they are not listed. */
  capabilities: z.array(Capability).max(6),
  /** Groups that policies can name: `resource in ToolGroup::"…"`. */
  groups: z.array(Name).max(32).optional(),
  /** Marks a tool as sensitive whose capabilities alone don't. */
  sensitive: z.boolean().optional(),
  /** Safe to run twice. Only then is a lost execution retried. */
  idempotent: z.boolean().optional(),
  /** The argument that holds an amount to spend, in whole units (cents). Policies limit its sum. */
  spends: FromArgument.optional(),
  /** How long operators have to answer. */
  approval_ttl_s: z.int().min(1).max(LIMITS.approval_ttl_max_s).optional(),
  executor: ProcessExecutor,
  egress: z.strictObject({
    mode: EgressMode,
    hosts: z.array(HostPattern).max(64),
    /**
     * The argument that names the hosts of a call: a list of hosts, or a URL. Each host must be
     * listed in `hosts`.
     */
    named_by: z.union([FromArgument, z.strictObject({ url: z.string().min(1).max(64) })]).optional(),
  }),
  secrets: z.array(Name).max(32).optional(),
  credentials: Credentials.optional(),
  workspace: Workspace,
  /** Lets calls bring files, which are read-only in `/input`. Tier C only. */
  input_files: z.boolean().optional(),
  /**
   * Keeps the files that a call leaves in `/output`, except files that contain a secret of the
   * call. Tier C only.
   */
  output_files: z.boolean().optional(),
  limits: Limits.partial(),
})
export type ProcessToolSpec = z.infer<typeof ProcessToolSpec>

/**
 * The agent's own program executes the tool. Countersign decides, asks and records, and neither runs
 * it nor sees it run.
 */
const NoExecutor = z.strictObject({ kind: z.literal('none') })

/** A tool as an operator registers it. */
export const RegisteredToolSpec = ProcessToolSpec.extend({
  executor: z.discriminatedUnion('kind', [ProcessExecutor, NoExecutor]),
})
export type RegisteredToolSpec = z.infer<typeof RegisteredToolSpec>

export const runsProcess = (spec: RegisteredToolSpec): spec is ProcessToolSpec =>
  spec.executor.kind === 'process'

/**
 * Any tool: that of an operator, one that an enabled skill declares in its manifest, or one of an
 * upstream that an operator has accepted.
 */
export const ToolSpec = ProcessToolSpec.extend({
  description: z.string().min(1).max(LIMITS.upstream_description_chars),
  /** The risk that the publisher declares. The tool's grants may raise it. */
  risk: Risk.optional(),
  executor: z.discriminatedUnion('kind', [
    ProcessExecutor,
    SkillExecutor,
    UpstreamExecutor,
    StdioExecutor,
    NoExecutor,
  ]),
  limits: Limits.partial().extend({ fuel: SkillLimits.shape.fuel.optional() }),
})
export type ToolSpec = z.infer<typeof ToolSpec>

/** The upstream that a tool belongs to. */
export function upstreamOf({ executor }: Pick<ToolSpec, 'executor'>): string | undefined {
  if (executor.kind === 'stdio') return executor.request.upstream
  return executor.kind === 'upstream' ? executor.upstream : undefined
}

export const Tool = ToolSpec.extend({ ...ToolRef.shape })
export type Tool = z.infer<typeof Tool>

/** A tool as an operator sees it, with the arguments that policies can read. */
export const RegisteredTool = Tool.extend({
  policy: z.strictObject({
    /** The Cedar type of `context.args`. */
    args: z.string(),
    /** The parts of the arguments that policies can't read, and why. */
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
