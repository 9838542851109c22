// Owns what a worker has proven of itself: for each tier, the checks that were made and what they saw. What is not proven is refused (L8).

import type { ProcessPlan as Plan } from '../../../shared/plan/plan.ts'
import type { Host } from './host-programs.ts'
import { PROFILES, type ProfileName } from './profiles.ts'
import { type Refusal, refused } from './verdict.ts'

/** `detail` is what was seen; where it failed, also what to do. */
export type Check = { readonly name: string; readonly ok: boolean; readonly detail: string }
export type Proof = {
  readonly ok: boolean
  readonly checks: readonly Check[]
  /** Why a call that needs it is refused. */
  readonly lack?: Lack
}
/** switched off by the worker's operator, not possible on such a host, or simply not proven. */
export type Lack = Extract<Refusal['code'], 'disabled' | 'unsupported_platform' | 'sandbox_unavailable'>

export type Facts = {
  readonly tiers: { readonly B: Proof; readonly C: Proof }
  /** Tier C with hosts on its list; tier C without needs nothing of it. */
  readonly egress: Proof
  /** No tier needs it; a plan may. */
  readonly cgroups: Proof
  /** Sandboxes that were set up in advance. Where they are not proven, each call starts one of its own. */
  readonly prepared: Proof
  /** The operator's own, each by the canaries of what it is made from. */
  readonly profiles: Readonly<Record<string, Proof>>
  readonly versions: Host['versions']
  readonly took_ms: number
}

export const proofOf = (checks: readonly Check[]): Proof => ({
  ok: checks.length > 0 && checks.every(({ ok }) => ok),
  checks,
})
export const lacks = (lack: Lack, details: readonly string[]): Proof => ({
  ok: false,
  checks: details.map((detail) => ({ name: 'what it needs', ok: false, detail })),
  lack,
})

/** Why this worker may not run the plan; undefined if it has proven all that the plan needs. */
export function unproven(
  { tiers, egress, profiles }: Facts,
  { tier, profile: own }: Plan,
  profile: ProfileName,
): Refusal | undefined {
  const relayed = 'relayed' in PROFILES[profile] && PROFILES[profile].relayed
  const named =
    own === undefined
      ? []
      : [profiles[own] ?? lacks('sandbox_unavailable', [`nothing is known of \`${own}\``])]
  const lacking = [tiers[tier], ...(relayed ? [egress] : []), ...named].find(({ ok }) => !ok)
  if (lacking === undefined) return undefined
  const failed = lacking.checks.find(({ ok }) => !ok)
  return refused(
    lacking.lack ?? 'sandbox_unavailable',
    `tier ${tier} is not proven on this worker: ${failed?.name ?? 'no check'}: ${failed?.detail ?? 'none was made'}`,
  )
}
