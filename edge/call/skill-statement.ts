// The edge's statement about a call of a skill, which it executes itself. Pure.

import { sha256 } from '../../shared/bytes/json.ts'
import type { Grant, SkillUse, Statement } from '../../shared/evidence/statement.ts'
import { ISOLATE } from '../../shared/evidence/statement.ts'
import type { Connection, Outcome, SkillPlan, StreamSummary } from '../../shared/plan/plan.ts'
import type { Result } from '../../shared/result.ts'
import type { Skill } from '../../shared/wire/skills.ts'
import { executedAtEdge } from './settlement.ts'

type SkillRun = {
  readonly grant: Grant
  readonly plan: SkillPlan
  readonly skill: Pick<Skill, 'digest' | 'component' | 'modules'>
}
type SkillExecution = {
  readonly outcome: Outcome
  readonly stdout: Buffer
  readonly stderr: Buffer
  /** As the isolate reports it. */
  readonly used: Pick<SkillUse, 'fuel_used' | 'memory_bytes' | 'host_calls'>
  /** As the host has recorded them. */
  readonly connections: readonly Connection[]
}

const NOTHING = {
  stdout: Buffer.alloc(0),
  stderr: Buffer.alloc(0),
  used: { fuel_used: 0, memory_bytes: 0, host_calls: {} },
}

/**
 * The statement that the edge signs. The isolate is not trusted: if its account of the call
 * contradicts the grant, the call failed. The connections are the host's own account, which never
 * contradicts it.
 */
export function skillStatement(id: string, claim: SkillRun, execution: SkillExecution) {
  const described = describe(id, claim, execution)
  if (described.ok) return { statement: described.value, output: execution }
  const detail = `the isolate’s account of the call contradicts its grant at ${described.error}`
  const failed: SkillExecution = {
    ...NOTHING,
    outcome: { kind: 'infra', detail },
    connections: execution.connections,
  }
  const statement = describe(id, claim, failed)
  if (!statement.ok) throw new Error(`${detail}, and without it at ${statement.error}`)
  return { statement: statement.value, output: failed }
}

function describe(
  id: string,
  { grant, plan, skill }: SkillRun,
  execution: SkillExecution,
): Result<Statement, string> {
  const { outcome, stdout, stderr, used, connections } = execution
  return executedAtEdge(id, grant, plan, {
    outcome,
    stdout: summaryOf(stdout),
    stderr: summaryOf(stderr),
    connections: [...connections],
    executor: ISOLATE,
    sandbox_enforcement: 'isolate',
    profile_sha256: null,
    argv_sha256: null,
    limits: plan.limits,
    skill: {
      digest: skill.digest,
      component_sha256: skill.component.sha256,
      modules: skill.modules.map(({ name, sha256 }) => ({ name, sha256 })),
      ...used,
    },
    started_at_ms: grant.issued_at_ms,
    ended_at_ms: Date.now(),
  })
}

const summaryOf = (bytes: Buffer): StreamSummary => ({
  bytes: bytes.byteLength,
  sha256: sha256(bytes),
  kept: bytes.byteLength,
  truncated: false,
})
