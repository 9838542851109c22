// How a call of tier A runs: the run itself claims it, for there is no worker to wait for, has the skill's isolate carry it out, and settles
// it with a statement that the edge signs. Each step is the event that a worker's would be, so that nothing runs without a grant or twice
// (L1, L2): where this object dies in between, nobody knows how it ended, and time says so.

import { canonical, digestOf, sha256 } from '../../shared/bytes/json.ts'
import { seal } from '../../shared/evidence/dsse.ts'
import type { Grant } from '../../shared/evidence/statement.ts'
import {
  EDGE_EXECUTOR,
  endingOf,
  ISOLATE,
  STATEMENT_TYPE,
  sealGrant,
  statementOf,
} from '../../shared/evidence/statement.ts'
import { failure } from '../../shared/failures.ts'
import { attestationId } from '../../shared/ids.ts'
import { LIMITS, MAX_SKILL_LIMITS } from '../../shared/limits.ts'
import {
  type Connection,
  type Outcome,
  type Plan,
  type SkillPlan,
  type StreamSummary,
  secretsOf,
} from '../../shared/plan/plan.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { Env } from '../bindings.ts'
import { channelObject, identityOf, outsideOf, skillObject } from '../bindings.ts'
import { claimedUnder } from '../call/decision-of-record.ts'
import type { CallRecord } from '../call/lifecycle.ts'
import { finishedOf } from '../call/settlement.ts'
import { directoryOf } from '../directory/directory.ts'
import type { EnabledSkill } from '../directory/enabled-skill.ts'
import { KnownValues } from '../secrets/known-values.ts'
import type { Caller } from '../skills/execution/concurrency-slots.ts'
import type { Turn } from '../skills/execution/cpu-turns.ts'
import { HostSide } from '../skills/execution/host.ts'
import type { Kept } from '../skills/execution/host-storage.ts'
import { endedAnyway, promised, told } from '../skills/execution/output-check.ts'
import { disabled, type Performed, perform, unseen } from '../skills/execution/run-call.ts'
import { placesOfSkills, turnsOfSkills } from '../skills/execution/scheduler.ts'
import type { Answers, RunAccess } from './approval-answers.ts'
import type { RunStore } from './store.ts'
import { factsOf } from './views.ts'

type Done = Performed & { readonly connections: readonly Connection[] }
type Claimed = {
  readonly n: number
  readonly grant: Grant
  readonly plan: SkillPlan
  readonly args: Record<string, unknown>
  readonly skill: EnabledSkill
  readonly secrets: Readonly<Record<string, string>>
}

/** Nobody's call has a place for so long: claimed, run and settled. */
const PLACE_MS = MAX_SKILL_LIMITS.timeout_ms + LIMITS.settle_grace_ms

const endOf = ({ grant, plan }: Claimed): number => grant.issued_at_ms + plan.limits.timeout_ms

const unbegun = (outcome: Outcome): Done => ({ ...unseen(outcome), connections: [] })

export class SkillWork {
  readonly #env: Env
  readonly #store: RunStore
  readonly #answers: Answers
  readonly #run: RunAccess
  readonly #busy = new Map<number, AbortController>()

  constructor(env: Env, store: RunStore, answers: Answers, run: RunAccess) {
    this.#env = env
    this.#store = store
    this.#answers = answers
    this.#run = run
  }

  /** Ends what is claimed, whether it runs or waits for its turn. */
  stop(n: number): void {
    this.#busy.get(n)?.abort()
  }

  /** Whether one more call of such a plan may wait here. */
  hasRoom(plan: Plan | null): boolean {
    return plan?.tier !== 'A' || !placesOfSkills.full(this.#caller(plan))
  }

  /** Once at a time; what finds no room to wait, or fails before it is claimed, is begun again by the alarm. */
  async carry(n: number): Promise<void> {
    const plan = this.#store.call(n)?.proposal.plan
    if (this.#busy.has(n) || plan?.tier !== 'A') return
    const stopping = new AbortController()
    this.#busy.set(n, stopping)
    try {
      await placesOfSkills.takeOrLeave(this.#caller(plan), PLACE_MS, async () => {
        const claimed = await this.#claim(n)
        if (!claimed.ok) return
        const { signal } = stopping
        const inTurn = turnsOfSkills.takeWithin(endOf(claimed.value) - Date.now(), (turn) =>
          this.#inTurn(claimed.value, turn, signal),
        )
        await this.#settle(
          claimed.value,
          (await endedAnyway<Done | undefined>(inTurn, unbegun)) ??
            unbegun({ kind: signal.aborted ? 'cancelled' : 'timeout' }),
        )
      })
    } finally {
      this.#busy.delete(n)
    }
  }

  /** Who shares places with the others. */
  #caller({ executor: { skill } }: SkillPlan): Caller {
    const { tenant, agent } = this.#run.row()?.record ?? { tenant: '', agent: '' }
    return [tenant, `agent ${agent}`, skill]
  }

  async #claim(n: number): Promise<Result<Claimed>> {
    const row = this.#run.row()
    if (row === undefined) return err(failure('not_claimable', 'no such run'))
    const directory = await directoryOf(this.#env, row.record.tenant)
    const grounds = await this.#answers.grounds(directory, row, n)
    if (!grounds.ok) return grounds
    return this.#run.commit(() => {
      const record = this.#store.call(n)
      const plan = record?.proposal.plan
      if (record === undefined || plan?.tier !== 'A' || record.status.state !== 'granted')
        return err(failure('not_claimable', 'the call does not wait to be run here'))
      const { proposal, status } = record
      const { vault } = directory
      const withheld = vault.withholds({
        name: proposal.tool.name,
        secrets: plan.secrets,
        credentials: plan.credentials,
      })
      const secrets = withheld === undefined ? vault.values(secretsOf(plan)) : undefined
      if (secrets === undefined)
        return err(failure('not_claimable', withheld ?? 'a secret of the call is gone'))
      const now = Date.now()
      const decision = this.#answers.judgeClaim(directory, record, grounds.value)
      const grant: Grant = {
        facts: factsOf(row.record, {
          proposal,
          status: { ...status, decision: claimedUnder(status.decision, decision) },
        }),
        worker: EDGE_EXECUTOR,
        fence: status.fence + 1,
        issued_at_ms: now,
        deadline_ms: now + plan.limits.timeout_ms + LIMITS.settle_grace_ms,
      }
      const envelope = sealGrant(grant, identityOf(this.#env).signer)
      const claimed = {
        kind: 'claimed' as const,
        worker: EDGE_EXECUTOR,
        deadline: grant.deadline_ms,
        grant: envelope,
        decision,
      }
      const done = this.#run.apply(record, claimed)
      if (!done.ok) return done
      const skill = directory.skills.get(plan.executor.skill)
      return done.value.status.state === 'running' && skill !== undefined
        ? ok({ n, grant, plan, args: proposal.args, skill, secrets })
        : err(failure('not_claimable', 'policy does not allow the call any more'))
    })
  }

  /** Who waited may have waited for long: what was disabled meanwhile does not begin. */
  async #inTurn(claimed: Claimed, turn: Turn, signal: AbortSignal): Promise<Done> {
    if (signal.aborted) return unbegun({ kind: 'cancelled' })
    const { tenant } = claimed.grant.facts
    const directory = await directoryOf(this.#env, tenant).catch(() => null)
    const { skill, digest } = claimed.plan.executor
    if (directory === null)
      // L6
      return unbegun({ kind: 'infra', detail: 'nobody could say whether the skill is still enabled' })
    if (directory.skills.get(skill)?.digest === digest) return this.#perform(claimed, turn, signal)
    return unbegun(disabled(claimed.plan, 'before its turn came'))
  }

  async #perform(claimed: Claimed, turn: Turn, signal: AbortSignal): Promise<Done> {
    const { plan, args, grant, skill, secrets } = claimed
    const host = new HostSide({
      plan,
      secrets,
      ...outsideOf(this.#env),
      turn,
      kept: keptBy(this.#env, grant.facts, plan),
    })
    const asked = { input: canonical(args), now: grant.issued_at_ms, ends: endOf(claimed), signal }
    const { outcome, stdout, stderr, used } = await perform(
      this.#env,
      grant.facts.tenant,
      skill,
      plan,
      asked,
      host,
    )
    // V01: all that is the skill's to say, and whole: part of a secret is one too. What is too long is cut after.
    const known = new KnownValues(Object.values(secrets))
    const veil = (text: string): string => String(known.hiddenIn(text, () => '«secret»'))
    const output = Buffer.from(veil(stdout.toString()))
    return {
      outcome: told(promised(outcome, plan, output), veil), // what is promised is what is told
      stdout: output,
      stderr: Buffer.from(veil(stderr.toString()).slice(0, LIMITS.skill_log_chars)),
      used: { ...used, host_calls: { ...used.host_calls, ...host.calls } },
      connections: host.connections.map((one) => ({ ...one, host: veil(one.host) })),
    }
  }

  #settle({ n, grant, plan, skill }: Claimed, done: Done): Promise<Result<CallRecord>> {
    return this.#run.commit(() => {
      const [row, record] = [this.#run.row(), this.#store.call(n)]
      if (row === undefined || record === undefined) return err(failure('stale_fence', 'no such call'))
      const { outcome, stdout, stderr, used, connections } = done
      const ending = endingOf(outcome)
      const statement = statementOf({
        attestation_id: attestationId(row.record.id, n),
        ...ending,
        facts: grant.facts,
        grant: {
          sha256: digestOf(grant),
          worker: grant.worker,
          fence: grant.fence,
          deadline_ms: grant.deadline_ms,
        },
        execution: {
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
        },
      })
      const granted = record.status.state === 'running' ? record.status.grant : null
      this.#store.saveAttestation(n, seal(STATEMENT_TYPE, statement, identityOf(this.#env).signer), granted)
      this.#store.replaceOutput(n, { stdout, stderr })
      return this.#run.apply(record, {
        kind: 'settled',
        worker: EDGE_EXECUTOR,
        fence: grant.fence,
        ...ending,
        refused: outcome.kind === 'refused',
        ...finishedOf(statement),
      })
    })
  }
}

/** Of the skill in this tenant, and in this call's name. */
function keptBy(
  env: Env,
  { tenant, agent, run, call }: Grant['facts'],
  { executor: { skill, version, tool } }: SkillPlan,
): Kept {
  const from = { skill, version, tool, agent, run, call }
  return {
    storage: skillObject(env, tenant, skill),
    post: (channel, number, text) =>
      channelObject(env, tenant).notice(tenant, channel, number, { ...from, text }),
  }
}

const summaryOf = (bytes: Buffer): StreamSummary => ({
  bytes: bytes.byteLength,
  sha256: sha256(bytes),
  kept: bytes.byteLength,
  truncated: false,
})
