// The format of a file of policy cases: an agent's request, the policies around it, and the
// expected decision. A case is self-contained, so an edge or the bare decision code can evaluate
// it.

import { z } from 'zod'
import { Actor } from '../evidence/actor.ts'
import { Name, ToolName } from '../fields.ts'
import { LIMITS } from '../limits.ts'
import { HypotheticalFiles } from '../plan/call-files.ts'
import { Decision } from './calls.ts'
import { AgentSpec, OperatorSpec } from './principals.ts'
import { RunSpec } from './runs.ts'
import { ProcessToolSpec } from './tools.ts'

const Count = z.int().min(0)
const ToolUsage = z
  .strictObject({ calls: Count, denied: Count, time_ms: Count, spent: Count, asks: Count })
  .partial()
const Usage = z
  .strictObject({ calls: Count, denied: Count, time_ms: Count, asks: Count, tool: ToolUsage })
  .partial()

const Expected = z.strictObject({
  effect: z.enum(['allow', 'ask', 'deny']),
  code: z.string().optional(),
  policies: z.array(z.string()).optional(),
  reason: z.string().optional(),
  plan: z
    .strictObject({ tier: z.string(), egress: z.string(), hosts: z.array(z.string()).optional() })
    .optional(),
})

const PolicyCase = z.strictObject({
  description: z.string().min(1).max(300),
  /** Sets of this file to add to the tenant's set, and files of the tenant's set to leave out. */
  with: z.array(z.string()).default([]),
  without: z.array(z.string()).default([]),
  request: z.strictObject({
    agent: Name,
    tool: z.string(),
    args: z.record(z.string(), z.unknown()).default({}),
    run: RunSpec.optional(),
    files: HypotheticalFiles.default([]),
    /** The actor behind the agent; absent if it uses a key. */
    actor: Actor.omit({ jti_sha256: true }).optional(),
  }),
  /**
   * Operators of the file who approve, in this order; `expect` describes the decision after the
   * last of them.
   */
  approved_by: z
    .array(Name)
    .max(8)
    .refine((names) => new Set(names).size === names.length, 'must name each operator only once')
    .default([]),
  /**
   * The edge's clock; by default noon of a fixed Wednesday, so that a case has the same result
   * every day.
   */
  at: z.iso.datetime().optional(),
  /** An earlier call that shared the folder of the run received a secret. */
  folder_met_secret: z.boolean().default(false),
  /** Earlier usage of run and session; absent counters are 0. */
  used: z
    .strictObject({ run: Usage, session: Usage, agent: z.strictObject({ asks_hour: Count }) })
    .partial()
    .optional(),
  expect: Expected,
  /** Texts that must not occur in the response. */
  silent: z.array(z.string()).default([]),
})
export type PolicyCase = z.infer<typeof PolicyCase>

/** The defaults of a case's tool: any arguments, `true` in tier C, offline. */
const HARMLESS = {
  description: 'a tool of a case',
  input_schema: { type: 'object' },
  capabilities: [],
  executor: { kind: 'process', tiers: ['C'], argv: ['true'], stdin: 'none' },
  egress: { mode: 'strict', hosts: [] },
  workspace: 'call',
  limits: {},
} as const satisfies z.input<typeof ProcessToolSpec>
const CaseTool = ProcessToolSpec.partial().extend({
  executor: ProcessToolSpec.shape.executor.partial().optional(),
})
export const toolOfCase = (tool: z.infer<typeof CaseTool>): ProcessToolSpec =>
  ProcessToolSpec.parse({ ...HARMLESS, ...tool, executor: { ...HARMLESS.executor, ...tool.executor } })

const Lines = z.array(z.string())

/** A file of cases as its author writes it. */
export const PolicyCases = z.strictObject({
  about: z.string(),
  tools: z.record(ToolName, CaseTool).default({}),
  agents: z.record(Name, AgentSpec).default({}),
  operators: z.record(Name, OperatorSpec).default({}),
  /** Policies, as a list of lines or in a file beside this one. */
  sets: z.record(Name, z.union([Lines, z.strictObject({ file: z.string().regex(/\.cedar$/) })])).default({}),
  cases: z.array(PolicyCase).min(1).max(LIMITS.policy_cases),
})
export type PolicyCases = z.infer<typeof PolicyCases>

/** A file of cases as it is sent: the sender has replaced file names by their contents. */
export const SentCases = PolicyCases.extend({ sets: z.record(Name, Lines).default({}) })
export type SentCases = z.infer<typeof SentCases>

export const CaseResult = z.strictObject({
  description: z.string(),
  passed: z.boolean(),
  /**
   * The fields that differ. `approved_by`: the call was decided before all of these operators were
   * asked.
   */
  differs: z.array(z.enum(['effect', 'code', 'policies', 'reason', 'plan', 'approved_by', 'silent'])),
  expected: Expected,
  got: z.strictObject({
    /** `refused`: the request was refused before a decision, for `reason`. */
    effect: z.enum([...Decision.shape.effect.options, 'refused']),
    code: z.string(),
    policies: z.array(z.string()),
    reason: z.string(),
    plan: z.strictObject({ tier: z.string(), egress: z.string(), hosts: z.array(z.string()) }).nullable(),
    unasked: Name.optional(),
  }),
})
export type CaseResult = z.infer<typeof CaseResult>
