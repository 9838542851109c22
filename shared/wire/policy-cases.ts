// The form of a file of policy cases: who asks for what, around which policies, and what is to come of it. A case holds all that it
// needs, so that whoever judges it (a running edge, or the decision alone) needs nothing else. It judges nothing itself.

import { z } from 'zod'
import { Name, ToolName } from '../fields.ts'
import { LIMITS } from '../limits.ts'
import { SupposedFiles } from '../plan/call-files.ts'
import { Decision } from './calls.ts'
import { AgentSpec, OperatorSpec } from './principals.ts'
import { RunSpec } from './runs.ts'
import { ProcessToolSpec } from './tools.ts'

const Count = z.int().min(0)
const Spent = z
  .strictObject({ calls: Count, denied: Count, time_ms: Count, spent: Count, asks: Count })
  .partial()
const Counted = z
  .strictObject({ calls: Count, denied: Count, time_ms: Count, asks: Count, tool: Spent })
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
  /** Sets of the file that stand beside the tenant's own, and files of the tenant's own that do not. */
  with: z.array(z.string()).default([]),
  without: z.array(z.string()).default([]),
  request: z.strictObject({
    agent: Name,
    tool: z.string(),
    args: z.record(z.string(), z.unknown()).default({}),
    run: RunSpec.optional(),
    files: SupposedFiles.default([]),
  }),
  /** Operators of the file who then say yes, in this order: what is expected is expected after the last of them. */
  approved_by: z
    .array(Name)
    .max(8)
    .refine((names) => new Set(names).size === names.length, 'each of them answers once')
    .default([]),
  /** The edge's clock; if absent, noon of some Wednesday, so that a case says the same every day. */
  at: z.iso.datetime().optional(),
  /** An earlier call that shared the folder of the run received a secret. */
  folder_met_secret: z.boolean().default(false),
  /** What run and session have used before; nothing where nothing is said. */
  used: z
    .strictObject({ run: Counted, session: Counted, agent: z.strictObject({ asks_hour: Count }) })
    .partial()
    .optional(),
  expect: Expected,
  /** What the answer must not say. */
  silent: z.array(z.string()).default([]),
})
export type PolicyCase = z.infer<typeof PolicyCase>

/** A tool that does not say otherwise takes anything and runs `true` in tier C, offline. */
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
export const toolOfCase = (said: z.infer<typeof CaseTool>): ProcessToolSpec =>
  ProcessToolSpec.parse({ ...HARMLESS, ...said, executor: { ...HARMLESS.executor, ...said.executor } })

const Lines = z.array(z.string())

/** A file of cases as it is written. */
export const PolicyCases = z.strictObject({
  about: z.string(),
  tools: z.record(ToolName, CaseTool).default({}),
  agents: z.record(Name, AgentSpec).default({}),
  operators: z.record(Name, OperatorSpec).default({}),
  /** Policies, line by line or in a file beside this one. */
  sets: z.record(Name, z.union([Lines, z.strictObject({ file: z.string().regex(/\.cedar$/) })])).default({}),
  cases: z.array(PolicyCase).min(1).max(LIMITS.policy_cases),
})
export type PolicyCases = z.infer<typeof PolicyCases>

/** The same as it is sent: whoever reads the file reads the files that it names. */
export const SentCases = PolicyCases.extend({ sets: z.record(Name, Lines).default({}) })
export type SentCases = z.infer<typeof SentCases>

export const CaseResult = z.strictObject({
  description: z.string(),
  passed: z.boolean(),
  /** What is not as expected. `approved_by`: it was decided before all of them were asked. */
  differs: z.array(z.enum(['effect', 'code', 'policies', 'reason', 'plan', 'approved_by', 'silent'])),
  expected: Expected,
  got: z.strictObject({
    /** `refused`: no decision came of it, for the reason given. */
    effect: z.enum([...Decision.shape.effect.options, 'refused']),
    code: z.string(),
    policies: z.array(z.string()),
    reason: z.string(),
    plan: z.strictObject({ tier: z.string(), egress: z.string(), hosts: z.array(z.string()) }).nullable(),
    unasked: Name.optional(),
  }),
})
export type CaseResult = z.infer<typeof CaseResult>
