// Runs calls of tier A without a worker: the run claims the call, an isolate executes the skill,
// and the run settles the call with a statement that the edge signs. It applies the same events as
// for a worker, so nothing runs without a grant or twice (L1, L2). If this object dies in between,
// nobody knows how the call ended, and the call ends when its lease expires.

import { canonical } from '../../shared/bytes/json.ts'
import { seal } from '../../shared/evidence/dsse.ts'
import type { Grant } from '../../shared/evidence/statement.ts'
import { STATEMENT_TYPE } from '../../shared/evidence/statement.ts'
import { failure } from '../../shared/failures.ts'
import { attestationId } from '../../shared/ids.ts'
import { LIMITS } from '../../shared/limits.ts'
import { maskedHost } from '../../shared/plan/egress-hosts.ts'
import type { Connection, Outcome, SkillPlan } from '../../shared/plan/plan.ts'
import type { Result } from '../../shared/result.ts'
import { err } from '../../shared/result.ts'
import type { Env } from '../bindings.ts'
import { channelObject, identityOf, outboundNetwork, skillObject } from '../bindings.ts'
import type { CallRecord } from '../call/lifecycle.ts'
import { skillStatement } from '../call/skill-statement.ts'
import { directoryOf } from '../directory/directory.ts'
import { KnownValues } from '../secrets/known-values.ts'
import type { CpuTurn } from '../skills/execution/cpu-turns.ts'
import { SkillHost } from '../skills/execution/host.ts'
import type { HostServices } from '../skills/execution/host-storage.ts'
import { asInfraFailure, checkOutput, cleanDetail } from '../skills/execution/output-check.ts'
import {
  type ExecutionResult,
  emptyResult,
  executeCall,
  skillDisabled,
} from '../skills/execution/run-call.ts'
import { skillTurns } from '../skills/execution/scheduler.ts'
import { claimForSkill, type SkillClaim } from './commands/claim.ts'
import { attest, heldBy } from './commands/settle.ts'
import type { RunContext } from './context.ts'

type Execution = ExecutionResult & { readonly connections: readonly Connection[] }

const NO_CALL = failure('stale_fence', 'no such call')

/** Claims, executes and settles a granted call. `signal` cancels it. */
export async function carryOutSkillCall(run: RunContext, n: number, signal: AbortSignal): Promise<void> {
  const claimed = await claimForSkill(run, n)
  if (!claimed.ok) return
  const claim = claimed.value
  await settle(run, claim, await executeClaim(run.env, claim, signal))
}

/** Waits for a turn and executes the call. Never throws. */
export async function executeClaim(env: Env, claim: SkillClaim, signal: AbortSignal): Promise<Execution> {
  const inTurn = skillTurns.takeWithin(endOf(claim) - Date.now(), (turn) =>
    executeInTurn(env, claim, turn, signal),
  )
  const execution = await asInfraFailure<Execution | undefined>(inTurn, notStarted)
  return execution ?? notStarted({ kind: signal.aborted ? 'cancelled' : 'timeout' })
}

const endOf = ({ grant, plan }: SkillClaim): number => grant.issued_at_ms + plan.limits.timeout_ms

const notStarted = (outcome: Outcome): Execution => ({ ...emptyResult(outcome), connections: [] })

/** The call may have waited for long: a skill that was disabled in the meantime does not start. */
async function executeInTurn(
  env: Env,
  claim: SkillClaim,
  turn: CpuTurn,
  signal: AbortSignal,
): Promise<Execution> {
  if (signal.aborted) return notStarted({ kind: 'cancelled' })
  const { skill, digest } = claim.plan.executor
  const directory = await directoryOf(env, claim.grant.facts.tenant).catch(() => null)
  if (directory === null)
    return notStarted({
      kind: 'infra',
      detail: 'the edge could not check whether the skill is still enabled',
    }) // L6
  if (directory.skills.get(skill)?.digest !== digest)
    return notStarted(skillDisabled(claim.plan, 'before its turn came'))
  return execute(env, claim, turn, signal)
}

async function execute(env: Env, claim: SkillClaim, turn: CpuTurn, signal: AbortSignal): Promise<Execution> {
  const { plan, args, grant, skill, secrets } = claim
  const host = new SkillHost({
    plan,
    secrets,
    ...outboundNetwork(env),
    turn,
    services: storageOf(env, grant.facts, plan),
  })
  const input = { input: canonical(args), now: grant.issued_at_ms, ends: endOf(claim), signal }
  const { outcome, stdout, stderr, used } = await executeCall(
    env,
    grant.facts.tenant,
    skill,
    plan,
    input,
    host,
  )
  // V01: mask everything that the skill can choose before truncating it: a part of a secret is
  // secret too.
  const known = new KnownValues(Object.values(secrets))
  const mask = (text: string): string => String(known.hiddenIn(text, () => '«secret»'))
  const output = Buffer.from(mask(stdout.toString()))
  const fits = output.byteLength <= plan.limits.output_bytes // a mask may be longer than what it hides
  const ending = fits ? checkOutput(outcome, plan, output) : ({ kind: 'output_cap' } as const) // the masked output, because only that is stored
  return {
    outcome: cleanDetail(ending, mask),
    stdout: fits ? output : Buffer.alloc(0),
    stderr: Buffer.from(mask(stderr.toString()).slice(0, LIMITS.skill_log_chars)),
    used: { ...used, host_calls: { ...used.host_calls, ...host.calls } },
    connections: host.connections.map((one) => ({ ...one, host: maskedHost(plan.egress.hosts, one, mask) })),
  }
}

/** The skill's storage in this tenant, and its notices, both on behalf of this call. */
function storageOf(
  env: Env,
  { tenant, agent, run, call }: Grant['facts'],
  { executor }: SkillPlan,
): HostServices {
  const { skill, version, tool } = executor
  const from = { skill, version, tool, agent, run, call }
  return {
    storage: skillObject(env, tenant, skill),
    post: (channel, number, text) =>
      channelObject(env, tenant).notice(tenant, channel, number, { ...from, text }),
  }
}

function settle(run: RunContext, claim: SkillClaim, execution: Execution): Promise<Result<CallRecord>> {
  return run.transact((tx) => {
    const record = run.store.call(claim.n)
    if (tx.row === undefined || record === undefined) return err(NO_CALL)
    const running = heldBy(record, claim.grant)
    if (!running.ok) return running
    const { statement, output } = skillStatement(attestationId(tx.row.record.id, claim.n), claim, execution)
    const envelope = seal(STATEMENT_TYPE, statement, identityOf(run.env).signer)
    const { stdout, stderr } = output
    return attest(tx, record, running.value, { statement, envelope, output: { stdout, stderr } })
  })
}
