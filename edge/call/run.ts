// The stored form of a run, and its budget. Pure.

import { DEFAULT_BUDGET } from '../../shared/limits.ts'
import type { Budget } from '../../shared/plan/plan.ts'
import type { RunFolder } from './shared-folder.ts'

/** The agent of a run. A later agent of the same name is another one (P09). */
export type RunOwner = { readonly name: string; readonly since: number }

export const runOwner = ({ name, since }: RunOwner): RunOwner => ({ name, since })

export const isOwner = ({ agent, agentSince }: RunRecord, { name, since }: RunOwner): boolean =>
  agent === name && agentSince === since

/** The facts of a run that never change. */
export type RunRecord = {
  id: string
  tenant: string
  agent: string
  /** When the agent was created. */
  agentSince: number
  session: string
  channel: string | null
  device: string | null
  budget: Budget
  /** Digest of the request, so that an idempotency key is not reused for another request. */
  fingerprint: string
  createdAt: number
}

/** An agent's budget replaces the default; a run can only lower it. */
type BudgetSpec = { [K in keyof Budget]?: Budget[K] | undefined }
export function budgetOf(
  { budget: agent = {} }: { budget?: BudgetSpec | undefined },
  { budget: run = {} }: { budget?: BudgetSpec | undefined } = {},
): Budget {
  const of = (name: keyof Budget): number =>
    Math.min(agent[name] ?? DEFAULT_BUDGET[name], run[name] ?? Number.POSITIVE_INFINITY)
  return {
    max_calls_per_run: of('max_calls_per_run'),
    execution_timeout_ms: of('execution_timeout_ms'),
    max_denied_per_run: of('max_denied_per_run'),
  }
}

export type RunRow = {
  record: RunRecord
  cancelled: boolean
  calls: number
  allowed: number
  denied: number
  seq: number
  head: string
  logged: number
  folder: RunFolder | null
}
/** The stored output of a call. */
export type StoredOutput = { stdout: Buffer; stderr: Buffer }
