// What each enrolled worker may be given calls of now: as it has proven, signed, not long ago by
// our clock, and still says. Pure. What a call needs beyond that is not handed out (L8, K04), and
// is told to whoever asks why nobody took it.

import { type Means, NO_MEANS, unmet } from '../../shared/evidence/worker-proof.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Plan, Tier } from '../../shared/plan/plan.ts'

/** Of the last envelope that it signed; `at`: when we got it. */
export type Proven = { readonly means: Means; readonly at: number }

/** `tiers`: those that its heartbeats still say. */
type Enrolled = { readonly tiers: readonly Tier[]; readonly proven: Proven | null }

/** A proof that is too old is none: hosts change (L9). */
export function meansNow({ tiers, proven }: Enrolled, now: number): Means {
  if (proven === null || now - proven.at > LIMITS.proof_ms) return NO_MEANS
  return { ...proven.means, tiers: proven.means.tiers.filter((tier) => tiers.includes(tier)) }
}

/**
 * Why nobody claims such a call, in words for whoever reads its end; undefined where somebody could
 * have.
 */
export function unclaimable(plan: Plan, pool: readonly Enrolled[], now: number): string | undefined {
  if (plan.tier === 'A') return 'the edge could not begin it'
  const lacks = pool.map((worker) => unmet(plan, meansNow(worker, now)))
  const [least] = lacks.toSorted((a, b) => a.length - b.length)
  if (least === undefined) return 'no worker is enrolled in its pool'
  return least.length === 0
    ? undefined
    : `no worker of its pool has proven what it needs: ${least.join(', ')}`
}
