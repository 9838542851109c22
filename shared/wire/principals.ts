// Agents and operators, as operators register and see them.

import { z } from 'zod'
import { CallId, Name, Time, ToolName } from '../fields.ts'
import { LIMITS } from '../limits.ts'
import { Budget } from '../plan/plan.ts'
import { DeliveryState } from './channels.ts'

/**
 * `call.answered`: an approver answered a question about one of its calls. `call.ended`: one of its
 * calls ended.
 */
export const AgentEventType = z.enum(['call.answered', 'call.ended'])
export type AgentEventType = z.infer<typeof AgentEventType>

/** The address to which the edge posts events of the agent's calls, signed by Standard Webhooks. */
export const AgentWebhook = z.strictObject({
  /** Operators can read it: put no secret into it. The signature authenticates the edge. */
  url: z.string().min(1).max(LIMITS.channel_url_chars),
  /** The events that it gets; absent: all. */
  events: z.array(AgentEventType).min(1).max(AgentEventType.options.length).optional(),
})
export type AgentWebhook = z.infer<typeof AgentWebhook>

/** How the MCP endpoint treats the agent's clients. */
const McpSettings = z.strictObject({
  /** The run of a request that names neither run nor session: that of the day, or none. */
  run: z.enum(['day', 'required']).optional(),
  /** Text of a tool's output in one result. */
  output_chars: z.int().min(256).max(LIMITS.output_bytes).optional(),
  /** Cancels running calls too, some time after their client closed the connection. */
  cancel_running: z.boolean().optional(),
  /** Offers the sign-in page of an approval to the client's user, if the client opens pages. */
  elicit: z.boolean().optional(),
})

export const AgentSpec = z.strictObject({
  /** Tools that this agent may call; `*` is every registered tool. */
  tools: z.array(z.union([ToolName, z.literal('*')])).max(LIMITS.tools),
  /** Channels that its runs may come from; absent means any. */
  channels: z.array(Name).max(64).optional(),
  groups: z.array(Name).max(32).optional(),
  /**
   * Operators who are responsible for it; by default the one who creates it. Policy may forbid them
   * to approve its calls.
   */
  owners: z.array(Name).max(16).optional(),
  budget: Budget.partial().optional(),
  /** Bytes of files that all of its runs may hold together. */
  files_bytes: z.int().min(0).max(LIMITS.agent_files_bytes).optional(),
  pool: Name.optional(),
  webhook: AgentWebhook.optional(),
  mcp: McpSettings.optional(),
})
export type AgentSpec = z.infer<typeof AgentSpec>

export const OperatorSpec = z.strictObject({ roles: z.array(Name).max(16) })
export type OperatorSpec = z.infer<typeof OperatorSpec>

export const Agent = AgentSpec.extend({ name: Name, created_at_ms: Time })
export const Operator = OperatorSpec.extend({ name: Name, created_at_ms: Time })
/** `key` is returned once, when it is created. */
export const WithKey = <T extends z.ZodRawShape>(shape: T) =>
  z.strictObject({ ...shape, key: z.string().optional() })
/** `webhook_secret` is returned once, when it is made: with a webhook, a new URL, or a rotation. */
export const AgentWithKey = WithKey({ ...Agent.shape, webhook_secret: z.string().optional() })

/** An event on its way to an agent's webhook. Delivered ones are kept for a while. */
export const AgentDelivery = z.strictObject({
  /** The same for each attempt: the `webhook-id`. */
  id: z.string(),
  type: AgentEventType,
  call: CallId,
  state: DeliveryState,
  tries: z.int(),
  next_at_ms: Time.nullable(),
  changed_at_ms: Time,
  why: z.string().nullable(),
})
export type AgentDelivery = z.infer<typeof AgentDelivery>
