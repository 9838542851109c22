// The policy snapshot: what an agent may do in a run with one tool, in one version of the
// directory. It records what was in force at a decision. Pure, and content-addressed, so that a run
// stores each snapshot once.

import { canonical, sha256 } from '../../shared/bytes/json.ts'
import type { PolicySnapshot } from '../../shared/evidence/policy-snapshot.ts'
import { DEFAULT_LIMITS, DEFAULT_SKILL_LIMITS, LIMITS } from '../../shared/limits.ts'
import type { Budget } from '../../shared/plan/plan.ts'
import { secretsOf } from '../../shared/plan/plan.ts'
import type { Tool } from '../../shared/wire/tools.ts'
import type { AgentPrincipal, LoadedDirectory, LoadedTool } from '../directory/loaded-directory.ts'

export type Snapshot = { readonly digest: string; readonly text: string }

type InForce = { agent: AgentPrincipal; tool: LoadedTool; run: { budget: Budget } }

function contentOf(
  { policies }: LoadedDirectory,
  { agent: { spec }, tool: { tool }, run: { budget } }: InForce,
): PolicySnapshot {
  return {
    format: 'countersign-snapshot/v1',
    policy_set: policies.digest,
    allowed_tools: spec.tools,
    groups: spec.groups ?? [],
    channels: spec.channels ?? null,
    budget,
    tool: { name: tool.name, version: tool.version, digest: tool.digest },
    process_runner: processRunner(tool, budget),
    wasm_runtime: wasmRuntime(tool),
  }
}

function processRunner(tool: Tool, budget: Budget): PolicySnapshot['process_runner'] {
  const { executor } = tool
  if (executor.kind !== 'process' && executor.kind !== 'stdio') return null
  const limits = {
    ...DEFAULT_LIMITS,
    ...Object.fromEntries(Object.entries(tool.limits).filter(([, value]) => value !== undefined)),
  }
  return {
    tiers: executor.kind === 'stdio' ? ['C'] : executor.tiers,
    workspace: tool.workspace,
    allowed_executables: executor.kind === 'stdio' ? null : (executor.allowed_executables ?? null),
    egress_mode: tool.egress.mode,
    allowed_hosts: tool.egress.hosts,
    secrets: secretsOf(tool),
    limits: { ...limits, timeout_ms: Math.min(limits.timeout_ms, budget.execution_timeout_ms) },
  }
}

function wasmRuntime(tool: Tool): PolicySnapshot['wasm_runtime'] {
  const { executor, limits } = tool
  if (executor.kind !== 'skill') return null
  return {
    fuel: limits.fuel ?? DEFAULT_SKILL_LIMITS.fuel,
    memory_bytes: limits.memory_bytes ?? DEFAULT_SKILL_LIMITS.memory_bytes,
    table_elements: DEFAULT_SKILL_LIMITS.table_elements,
    instances: LIMITS.skill_modules,
    allowed_hosts: tool.egress.hosts,
    allowed_secrets: secretsOf(tool),
    allowed_prefixes: executor.kv ?? [],
  }
}

/** For each version of a directory; bounded, because runs choose their budgets. */
const cache = new WeakMap<LoadedDirectory, Map<string, Snapshot>>()
const KEPT = 1_000

export function snapshotOf(directory: LoadedDirectory, inForce: InForce): Snapshot {
  const { agent, tool, run } = inForce
  const kept = cache.get(directory) ?? new Map<string, Snapshot>()
  cache.set(directory, kept)
  const { name, version, digest } = tool.tool
  const id = JSON.stringify([agent.name, name, version, digest, run.budget])
  const known = kept.get(id)
  if (known !== undefined) return known
  const text = canonical(contentOf(directory, inForce))
  const snapshot = { digest: sha256(text), text }
  if (kept.size >= KEPT) kept.clear()
  kept.set(id, snapshot)
  return snapshot
}
