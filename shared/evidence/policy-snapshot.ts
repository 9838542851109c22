// The policy snapshot of a call: everything that applied to its agent and run when it was decided,
// apart from the call itself. Statements hold its digest.

import { z } from 'zod'
import { digestOf } from '../bytes/json.ts'
import { Budget, EgressMode, Limits, Tier, Workspace } from '../plan/plan.ts'
import { type Facts, ToolRef } from './statement.ts'

export const PolicySnapshot = z.strictObject({
  format: z.literal('countersign-snapshot/v1'),
  policy_set: z.string(),
  allowed_tools: z.array(z.string()),
  groups: z.array(z.string()),
  /** `null`: any. */
  channels: z.array(z.string()).nullable(),
  budget: Budget,
  tool: ToolRef,
  process_runner: z
    .strictObject({
      tiers: z.array(Tier),
      workspace: Workspace,
      /** `null`: any. */
      allowed_executables: z.array(z.string()).nullable(),
      egress_mode: EgressMode,
      allowed_hosts: z.array(z.string()),
      secrets: z.array(z.string()),
      limits: Limits,
    })
    .nullable(),
  wasm_runtime: z
    .strictObject({
      fuel: z.int(),
      memory_bytes: z.int(),
      table_elements: z.int(),
      instances: z.int(),
      allowed_hosts: z.array(z.string()),
      allowed_secrets: z.array(z.string()),
      allowed_prefixes: z.array(z.string()),
    })
    .nullable(),
})
export type PolicySnapshot = z.infer<typeof PolicySnapshot>

/**
 * Whether a call was decided under this snapshot: the digest, the policy set and the tool must
 * match.
 */
export const decidedUnder = (snapshot: PolicySnapshot, { tool, decision }: Facts): boolean =>
  digestOf(snapshot) === decision.snapshot &&
  snapshot.policy_set === decision.policy_set &&
  snapshot.tool.name === tool.name
