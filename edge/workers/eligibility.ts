// Which calls each enrolled worker may take now: those that its last proof covers, if the proof is
// recent by the edge's clock and its heartbeats still report the tiers (L8, K04). Also explains why
// nobody claimed a call. Pure.

import { NO_RESOURCES, unmetNeeds, type WorkerResources } from '../../shared/evidence/worker-proof.ts'
import { LIMITS } from '../../shared/limits.ts'
import { isEdgePlan, type Plan, type Tier } from '../../shared/plan/plan.ts'

/** The content of a worker's last proof; `at`: when the edge received it. */
export type ReceivedProof = { readonly means: WorkerResources; readonly at: number }

/** `tiers`: those that its heartbeats still report. */
type Enrolled = { readonly tiers: readonly Tier[]; readonly proven: ReceivedProof | null }

/** An expired proof counts as none, because hosts change (L9). */
export function currentResources({ tiers, proven }: Enrolled, now: number): WorkerResources {
  if (proven === null || now - proven.at > LIMITS.proof_ms) return NO_RESOURCES
  return { ...proven.means, tiers: proven.means.tiers.filter((tier) => tiers.includes(tier)) }
}

/** The reason why no worker of the pool could claim such a call; undefined if one could have. */
export function whyUnclaimable(plan: Plan, pool: readonly Enrolled[], now: number): string | undefined {
  if (isEdgePlan(plan)) return 'the edge could not start it'
  const lacks = pool.map((worker) => unmetNeeds(plan, currentResources(worker, now)))
  const [least] = lacks.toSorted((a, b) => a.length - b.length)
  if (least === undefined) return 'no worker is enrolled in its pool'
  return least.length === 0
    ? undefined
    : `no worker of its pool has proven what it needs: ${least.join(', ')}`
}
