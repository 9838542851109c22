// Leads from ids to RunObjects, and makes the records of new runs, for every way into the edge.

import { digestOf } from '../../shared/bytes/json.ts'
import { failure } from '../../shared/failures.ts'
import { splitId } from '../../shared/ids.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { RunSpec } from '../../shared/wire/runs.ts'
import { type Env, identityOf, runObject } from '../bindings.ts'
import { budgetOf, type RunRecord } from '../call/run.ts'
import type { AgentPrincipal } from '../directory/loaded-directory.ts'
import { isRunOf, newRunId, runIdFor, sharedRunId } from './run-id.ts'

export type FoundRun = ReturnType<typeof runObject>
export type FoundCall = { readonly run: FoundRun; readonly n: number }

/** Refuses an id that the edge did not mint for this tenant, before an object is woken (G11). */
export const runOf = (env: Env, tenant: string, run: string): Result<FoundRun> =>
  isRunOf(tenant, run, identityOf(env).idKey)
    ? ok(runObject(env, tenant, run))
    : err(failure('not_found', 'no such run'))

/** `call` has matched the pattern of a call id. With `run`, the call must be one of that run. */
export function callOf(env: Env, tenant: string, call: string, run?: string): Result<FoundCall> {
  const { run: own, n } = splitId(call)
  const object = runOf(env, tenant, own)
  if (!object.ok || (run !== undefined && run !== own)) return err(failure('not_found', 'no such call'))
  return ok({ run: object.value, n })
}

/**
 * The record of a run that a request may create. The same `key` of the same agent always leads to
 * the same run; `null` makes a new one.
 */
export function runRecord(env: Env, agent: AgentPrincipal, spec: RunSpec, key: string | null): RunRecord {
  const { idKey } = identityOf(env)
  const now = Date.now()
  const id = key === null ? newRunId(agent.tenant, idKey, now) : runIdFor(agent.tenant, agent, key, idKey)
  return recordOf(id, agent, spec, now)
}

/** A UUID of version 7 begins with the time at which it was made. */
const TIMED_KEY = /^([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/
/** Later times do not fit into an id. */
const LAST_TIME = 2 ** 47 - 1

/**
 * The record of a run for one call, in an object that it shares with other runs of the agent; null if
 * the key does not say when it was made, or was made before `since`: its run has an object to itself,
 * where an earlier version of the edge looked for it.
 */
export function sharedRunRecord(
  env: Env,
  agent: AgentPrincipal,
  spec: RunSpec,
  key: string | null,
  since: number,
): RunRecord | null {
  const { idKey } = identityOf(env)
  const now = Date.now()
  const at = key === null ? now : timeOf(key)
  if (at === null || (key !== null && at < since)) return null
  return recordOf(sharedRunId(agent.tenant, agent, key, idKey, at), agent, spec, now)
}

function timeOf(key: string): number | null {
  const [, high = '', low = ''] = TIMED_KEY.exec(key) ?? []
  const at = Number.parseInt(high + low, 16)
  return at <= LAST_TIME ? at : null
}

function recordOf(id: string, agent: AgentPrincipal, spec: RunSpec, now: number): RunRecord {
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
