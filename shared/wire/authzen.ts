// AuthZEN Authorization API 1.0: whether an agent may call a tool, as policy enforcement points ask
// it. Unknown members are ignored, as the specification demands.

import { z } from 'zod'
import { Name, Opaque } from '../fields.ts'
import { LIMITS } from '../limits.ts'
import { InputFiles } from '../plan/call-files.ts'
import { DecisionCode, Explanation } from './explanation.ts'

const Text = z.string().min(1).max(LIMITS.evaluation_name_chars)
const Properties = z.record(z.string(), z.unknown())

const Entity = z.object({ type: Text, id: Text, properties: Properties.optional() })
const Action = z.object({ name: Text, properties: Properties.optional() })

export const Evaluation = z.object({
  /** `agent` and its name. Its `properties` are ignored: the edge knows its agents. */
  subject: Entity,
  /** `tools/call` is the only action that can be permitted. */
  action: Action,
  /** `tool` and its name; `properties` as `ToolProperties`. */
  resource: Entity,
  /** As `EvaluationContext`. */
  context: Properties.optional(),
})
export type Evaluation = z.infer<typeof Evaluation>

/** Countersign reads these members of a tool's properties, and of the context. */
export const ToolProperties = z.object({
  arguments: Properties.default({}),
  files: InputFiles.default([]),
})
export const EvaluationContext = z.object({
  session: Opaque.optional(),
  channel: Name.optional(),
  device: Opaque.optional(),
})

/**
 * Defaults, and evaluations that may leave out what the defaults have. Without evaluations, the
 * defaults are the one evaluation.
 */
export const Evaluations = z.object({
  subject: Entity.partial().optional(),
  action: Action.partial().optional(),
  resource: Entity.partial().optional(),
  context: Properties.optional(),
  evaluations: z.array(z.record(z.string(), z.unknown())).max(LIMITS.evaluations).optional(),
  options: z
    .object({
      evaluations_semantic: z
        .enum(['execute_all', 'deny_on_first_deny', 'permit_on_first_permit'])
        .default('execute_all'),
    })
    .optional(),
})
export type Evaluations = z.infer<typeof Evaluations>

export const AccessDecision = z.strictObject({
  decision: z.boolean(),
  context: z.strictObject({
    reason: z.string(),
    /** The decision of policy. Absent if there was nothing to decide. */
    code: DecisionCode.optional(),
    policies: z.array(z.string()).optional(),
    policy_set: z.string().optional(),
    /** Why, and what would change the decision. */
    explanation: Explanation.optional(),
    /**
     * Only if humans could approve the call: a call of this tool that is proposed here asks them,
     * and runs once they have approved.
     */
    access_request: z.strictObject({ endpoint: z.string(), tool: z.string() }).optional(),
    /** Why this evaluation has no decision of policy: for example, there is no such tool. */
    error: z.strictObject({ status: z.int(), code: z.string(), message: z.string() }).optional(),
  }),
})
export type AccessDecision = z.infer<typeof AccessDecision>
