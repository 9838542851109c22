// The record of a run that a request creates: its id, its agent and its budget.

import { digestOf } from '../../shared/bytes/json.ts'
import type { RunSpec } from '../../shared/wire/runs.ts'
import type { Env } from '../bindings.ts'
import { identityOf } from '../bindings.ts'
import { budgetOf, type RunRecord } from '../call/run.ts'
import type { AgentPrincipal } from '../directory/directory.ts'
import { newRunId, runIdFor } from './run-id.ts'

/** `key`: the same key leads to the same run. Without one, the run is always a new one. */
export function newRunRecord(env: Env, agent: AgentPrincipal, spec: RunSpec, key: string | null): RunRecord {
  const { idKey } = identityOf(env)
  const now = Date.now()
  const id =
    key === null ? newRunId(agent.tenant, idKey, now) : runIdFor(agent.tenant, agent.name, key, idKey)
  return {
    id,
    tenant: agent.tenant,
    agent: agent.name,
    agentSince: agent.since,
    session: spec.session ?? id,
    channel: spec.channel ?? null,
    device: spec.device ?? null,
    budget: budgetOf(agent.spec, spec),
    fingerprint: digestOf(spec),
    createdAt: now,
  }
}
