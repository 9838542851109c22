// The policy snapshot of a call: everything that applied to its agent and run when it was decided,
// apart from the call itself. Statements hold its digest. `snapshotChecks` compares both, for an auditor.

import { z } from 'zod'
import { canonical, digestOf } from '../bytes/json.ts'
import { isWithin } from '../plan/egress-hosts.ts'
import { Budget, EgressMode, Limits, type Plan, secretsOf, Tier, Workspace } from '../plan/plan.ts'
import type { Check } from './checks.ts'
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

type Decided = Pick<Facts, 'tool' | 'decision'>

/**
 * Whether a call was decided under this snapshot. A call whose agent or tool was gone at its claim is
 * denied without a policy, under the set of that moment and the snapshot of its proposal.
 */
export const decidedUnder = (snapshot: PolicySnapshot, { tool, decision }: Decided): boolean =>
  digestOf(snapshot) === decision.snapshot &&
  snapshot.tool.name === tool.name &&
  (snapshot.policy_set === decision.policy_set || isWithoutPolicy(decision))

const isWithoutPolicy = ({ effect, policies }: Facts['decision']): boolean =>
  effect === 'deny' && policies.length === 0

/** `snapshot`: undefined if it is missing. `plan`: null if the call has none, or if the retention rule has removed it. */
export function* snapshotChecks(
  snapshot: PolicySnapshot | undefined,
  facts: Decided,
  plan: Plan | null,
): Generator<Check> {
  yield {
    name: 'the policy snapshot is the one that the facts name',
    ok: snapshot !== undefined && decidedUnder(snapshot, facts),
  }
  yield {
    name: 'the snapshot allows this tool and plan',
    ok: snapshot !== undefined && allows(snapshot, facts, plan),
  }
}

function allows(snapshot: PolicySnapshot, { tool, decision }: Decided, plan: Plan | null): boolean {
  if (decision.effect === 'deny') return true
  const { allowed_tools, process_runner: runner, wasm_runtime: runtime } = snapshot
  const isAllowed = allowed_tools.includes('*') || allowed_tools.includes(tool.name)
  if (!isAllowed || canonical(snapshot.tool) !== canonical(tool)) return false
  if (plan === null || plan.tier === 'M') return true
  const reaches = (hosts: readonly string[]): boolean =>
    plan.egress.hosts.every((host) => isWithin(hosts, host))
  const isAmong = (all: readonly string[], some: readonly string[] = []): boolean =>
    some.every((one) => all.includes(one))
  if (plan.tier === 'A')
    return (
      runtime !== null &&
      plan.limits.fuel <= runtime.fuel &&
      plan.limits.memory_bytes <= runtime.memory_bytes &&
      reaches(runtime.allowed_hosts) &&
      isAmong(runtime.allowed_secrets, secretsOf(plan)) &&
      isAmong(runtime.allowed_prefixes, plan.executor.kv)
    )
  if (runner === null) return false
  const most: Readonly<Record<string, number | undefined>> = runner.limits
  return (
    runner.tiers.includes(plan.tier) &&
    runner.workspace === plan.workspace &&
    isAmong(runner.allowed_executables ?? plan.executor.argv, plan.executor.argv.slice(0, 1)) &&
    reaches(runner.allowed_hosts) &&
    isAmong(runner.secrets, secretsOf(plan)) &&
    Object.entries(plan.limits).every(([name, limit]) => (limit ?? 0) <= (most[name] ?? 0))
  )
}
