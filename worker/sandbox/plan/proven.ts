// Owns the facts that a worker has proven about itself: for each tier, its checks and their
// results. A plan that needs anything unproven is refused (L8).

import type { ProcessPlan as Plan } from '../../../shared/plan/plan.ts'
import type { Host } from './host-programs.ts'
import { PROFILES, type ProfileName } from './profiles.ts'
import { type Refusal, refused } from './verdict.ts'

/** `detail` is the observation and, if the check failed, what to do. */
export type Check = { readonly name: string; readonly ok: boolean; readonly detail: string }
export type Proof = {
  readonly ok: boolean
  readonly checks: readonly Check[]
  /** The code of the refusal of a call that needs it. */
  readonly lack?: Lack
}
/** Switched off by the worker's operator, impossible on such a host, or not proven. */
export type Lack = Extract<Refusal['code'], 'disabled' | 'unsupported_platform' | 'sandbox_unavailable'>

export type Facts = {
  readonly tiers: { readonly B: Proof; readonly C: Proof }
  /** Needed by tier C for plans with hosts. */
  readonly egress: Proof
  /** Needed by no tier; a plan may require it. */
  readonly cgroups: Proof
  /** Warm sandboxes. Without this proof each call starts its own sandbox. */
  readonly prepared: Proof
  /** The operator's profiles, each proven by the canaries of the profile that it extends. */
  readonly profiles: Readonly<Record<string, Proof>>
  readonly versions: Host['versions']
  readonly took_ms: number
}

export const proofOf = (checks: readonly Check[]): Proof => ({
  ok: checks.length > 0 && checks.every(({ ok }) => ok),
  checks,
})
export const unprovenBecause = (lack: Lack, details: readonly string[]): Proof => ({
  ok: false,
  checks: details.map((detail) => ({ name: 'what it needs', ok: false, detail })),
  lack,
})

/** The refusal if the plan needs something that this worker has not proven; otherwise undefined. */
export function unproven(
  { tiers, egress, profiles }: Facts,
  { tier, profile: own }: Plan,
  profile: ProfileName,
): Refusal | undefined {
  const relayed = 'relayed' in PROFILES[profile] && PROFILES[profile].relayed
  const named =
    own === undefined
      ? []
      : [
          profiles[own] ??
            unprovenBecause('sandbox_unavailable', [`this worker has no proof of the profile \`${own}\``]),
        ]
  const lacking = [tiers[tier], ...(relayed ? [egress] : []), ...named].find(({ ok }) => !ok)
  if (lacking === undefined) return undefined
  const failed = lacking.checks.find(({ ok }) => !ok)
  return refused(
    lacking.lack ?? 'sandbox_unavailable',
    `tier ${tier} is not proven on this worker: ${failed === undefined ? 'no check was made' : `${failed.name}: ${failed.detail}`}`,
  )
}
