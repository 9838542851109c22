// Agents and operators, as operators register and see them.

import { z } from 'zod'
import { Name, Time, ToolName } from '../fields.ts'
import { LIMITS } from '../limits.ts'
import { Budget } from '../plan.ts'

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
