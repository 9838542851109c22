// Starts and stops the calls that the edge executes without a worker: those of skills (tier A) and of
// upstreams (tier M). Each waits for a slot, never twice at a time. The alarm starts a call again that
// found no room to wait or failed before its claim.

import { LIMITS, MAX_SKILL_LIMITS } from '../../shared/limits.ts'
import { isEdgePlan, type Plan, type SkillPlan, type UpstreamPlan } from '../../shared/plan/plan.ts'
import { MAX_UPSTREAM_LIMITS } from '../../shared/upstream-limits.ts'
import type { RunRow } from '../call/run.ts'
import { ConcurrencySlots, type SlotCaller } from '../skills/execution/concurrency-slots.ts'
import { skillSlots } from '../skills/execution/scheduler.ts'
import type { RunContext } from './context.ts'
import { carryOutSkillCall } from './skill-calls.ts'
import { carryOutUpstreamCall } from './upstream-calls.ts'

type EdgePlan = SkillPlan | UpstreamPlan

/** Calls of upstreams in this process: each in flight holds memory for its answer. */
const upstreamSlots = new ConcurrencySlots(LIMITS.upstream_calls)

const slotsOf = ({ tier }: EdgePlan): ConcurrencySlots => (tier === 'A' ? skillSlots : upstreamSlots)

/** The longest time that a call holds its slot, from the look or the claim to settlement. */
const HELD_MS: Readonly<Record<EdgePlan['tier'], number>> = {
  A: MAX_SKILL_LIMITS.timeout_ms + LIMITS.settle_grace_ms,
  M: LIMITS.upstream_look_timeout_ms + MAX_UPSTREAM_LIMITS.timeout_ms + LIMITS.settle_grace_ms,
}

/** The levels among which slots are shared fairly. */
const ownerOf = ({ record: { tenant, agent } }: RunRow, { executor }: EdgePlan): SlotCaller => [
  tenant,
  `agent ${agent}`,
  executor.kind === 'skill' ? executor.skill : executor.upstream,
]

/** Whether one more call with this plan may wait for a slot. */
export const hasRoomAtEdge = (row: RunRow, plan: Plan | null): boolean =>
  plan === null || !isEdgePlan(plan) || !slotsOf(plan).isFull(ownerOf(row, plan))

export class EdgeCalls {
  readonly #running = new Map<number, AbortController>()

  /** Ends a claimed call that runs or waits for its turn. */
  stop(n: number): void {
    this.#running.get(n)?.abort()
  }

  /** Claims, executes and settles a granted call. */
  async start(run: RunContext, n: number): Promise<void> {
    const plan = run.store.call(n)?.proposal.plan ?? null
    const { row } = run
    if (row === undefined || plan === null || !isEdgePlan(plan) || this.#running.has(n)) return
    const stopping = new AbortController()
    this.#running.set(n, stopping)
    const carryOut = (): Promise<void> =>
      plan.tier === 'A'
        ? carryOutSkillCall(run, n, stopping.signal)
        : carryOutUpstreamCall(run, row, n, plan, stopping.signal)
    try {
      await slotsOf(plan).takeUnlessFull(ownerOf(row, plan), HELD_MS[plan.tier], carryOut)
    } finally {
      this.#running.delete(n)
    }
  }
}
