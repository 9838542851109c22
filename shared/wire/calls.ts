// Calls as agents and operators see them: the decision, the state and the result.

import { z } from 'zod'
import { CallOrigin } from '../evidence/origin.ts'
import { CallState, Effect } from '../evidence/statement.ts'
import { ApprovalId, CallId, RunId, Sha256, Time, ToolName } from '../fields.ts'
import { OutputFiles } from '../plan/call-files.ts'
import { Plan } from '../plan/plan.ts'
import { DecisionCode, Explanation } from './explanation.ts'
import { Removed } from './retention.ts'

export const Decision = z.strictObject({
  effect: Effect,
  /** Stable. The code of a denial is also the error of the call. */
  code: DecisionCode,
  policies: z.array(z.string()),
  reason: z.string(),
  policy_set: Sha256,
  snapshot: Sha256,
  /**
   * Why, and what would change the decision, as far as the reader may know. Allowed calls have
   * none.
   */
  explanation: Explanation.optional(),
})
export type Decision = z.infer<typeof Decision>

export const CallResult = z.strictObject({
  ok: z.boolean(),
  /** Standard output. If it was cut: its head, then its tail. */
  output: z.string(),
  encoding: z.enum(['utf-8', 'base64']),
  stderr: z.string(),
  exit_code: z.int().nullable(),
  /**
   * The files that the call left, if its tool keeps them. Their bytes are at `…/files/{sha256}`
   * below the call.
   */
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
  approval: z
    .strictObject({ id: ApprovalId, status: z.string(), expires_at: Time, page: z.string() })
    .optional(),
  plan: Plan.optional(),
  /**
   * Set while the call runs: its worker (`edge` for skills), since when, and whether a cancellation
   * was requested.
   */
  running: z.strictObject({ worker: z.string(), since_ms: Time, cancel_requested: z.boolean() }).optional(),
  /**
   * The arguments that an operator changed before approving. They run, and `digest` covers them;
   * `from` is the digest of the proposal.
   */
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
  /** The origin of the proposal. Secrets in the agent's words are masked. */
  origin: CallOrigin.optional(),
  created_at_ms: Time,
  ended_at_ms: Time.optional(),
  /** The kinds that the tenant's retention rule has removed. Digests stay. */
  removed: Removed.optional(),
})
export type Call = z.infer<typeof Call>

/** A call in a list. */
export const ListedCall = z.strictObject({
  id: CallId,
  run: RunId,
  agent: z.string(),
  tool: z.string(),
  state: CallState,
  created_at_ms: Time,
  ended_at_ms: Time.optional(),
})
export type ListedCall = z.infer<typeof ListedCall>

/** The decision that a call would get now. `digest` is set for a call that exists. */
export const DryRun = z.strictObject({ decision: Decision, digest: Sha256.nullable(), plan: Plan.nullable() })
export type DryRun = z.infer<typeof DryRun>
