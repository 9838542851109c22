// A worker's proof: the results of its canaries, signed with its key. The edge offers a worker no
// call of a tier that the proof does not cover (L8, K04), and shows operators why.

import { z } from 'zod'
import { canonical, parseJson } from '../bytes/json.ts'
import { PATTERNS } from '../ids.ts'
import { type ProcessPlan, Tier } from '../plan/plan.ts'
import { err, ok, type Result } from '../result.ts'
import { type Envelope, payloadBytes, type Signer, seal, signedByExactly } from './dsse.ts'

export const PROOF_TYPE = 'application/vnd.countersign.worker-proof+json'
/** The longest text that a canary's observation may have; the rest is cut off. */
export const OBSERVATION_CHARS = 300

const Check = z.strictObject({
  name: z.string().max(100),
  ok: z.boolean(),
  seen: z.string().max(OBSERVATION_CHARS),
})
export const ProofPart = z.strictObject({
  ok: z.boolean(),
  /**
   * Why no canaries ran: switched off by the worker's operator, impossible on this platform, or a
   * missing prerequisite.
   */
  lack: z.enum(['disabled', 'unsupported_platform', 'sandbox_unavailable']).nullable(),
  checks: z.array(Check).max(100),
})
export type ProofPart = z.infer<typeof ProofPart>
const Version = z.string().max(64)

/**
 * A sandbox profile that the worker's operator added: its name, its base profile, and the digest of
 * its definition.
 */
const OwnProfile = z.strictObject({
  name: z.string().regex(PATTERNS.name),
  from: z.enum(['c_offline', 'c_relayed']),
  sha256: z.string().regex(PATTERNS.sha256),
})
export const PROFILES_MAX = 32

/** The abilities that a worker offers to calls. It gets no call that needs more. */
export const WorkerResources = z.strictObject({
  tiers: z.array(Tier).max(2),
  /** Whether tier C works for calls that may reach hosts. */
  egress: z.boolean(),
  /** Whether a cgroup can limit, and end, all processes of a call together. */
  cgroups: z.boolean(),
  profiles: z.array(OwnProfile).max(PROFILES_MAX),
})
export type WorkerResources = z.infer<typeof WorkerResources>
export const NO_RESOURCES: WorkerResources = { tiers: [], egress: false, cgroups: false, profiles: [] }

export const WorkerProof = z.strictObject({
  format: z.literal('countersign-worker-proof/v1'),
  tenant: z.string().regex(PATTERNS.tenant),
  worker: z.string().regex(PATTERNS.worker),
  /** The edge's clock, as the worker estimates it. */
  at_ms: z.int().min(0),
  took_ms: z.int().min(0),
  versions: z.strictObject({ kernel: Version, bubblewrap: Version, util_linux: Version, node: Version }),
  tiers: z.strictObject({ B: ProofPart, C: ProofPart }),
  /** Tier C for calls that may reach hosts. */
  egress: ProofPart,
  /**
   * Limits for all processes of a call together. Without it tier C is `C-nocgroup`: the limits
   * apply to each process alone.
   */
  cgroups: ProofPart,
  /**
   * Warm sandboxes of tier C. Without it, each call starts its own sandbox. Absent only in older
   * proofs.
   */
  prepared: ProofPart.optional(),
  /**
   * Profiles that the worker's operator added, each proven by the canaries of its base profile.
   * Absent only in older proofs.
   */
  profiles: z
    .array(OwnProfile.extend({ proof: ProofPart }))
    .max(PROFILES_MAX)
    .optional(),
})
export type WorkerProof = z.infer<typeof WorkerProof>

export const provenResources = ({
  tiers,
  egress,
  cgroups,
  profiles = [],
}: Pick<WorkerProof, 'tiers' | 'egress' | 'cgroups' | 'profiles'>): WorkerResources => ({
  tiers: Tier.options.filter((tier) => tiers[tier].ok),
  egress: tiers.C.ok && egress.ok,
  cgroups: cgroups.ok,
  profiles: profiles.flatMap(({ proof, ...profile }) => (proof.ok ? [profile] : [])),
})

/**
 * The intersection of what was proven and what is reported. A profile whose definition has changed
 * is not in it.
 */
export const intersectResources = (proven: WorkerResources, reported: WorkerResources): WorkerResources => ({
  tiers: proven.tiers.filter((tier) => reported.tiers.includes(tier)),
  egress: proven.egress && reported.egress,
  cgroups: proven.cgroups && reported.cgroups,
  profiles: proven.profiles.filter((profile) =>
    reported.profiles.some((other) => canonical(other) === canonical(profile)),
  ),
})

/** The needs of a plan that `means` does not meet, in words (L8, K04). */
export function unmetNeeds({ tier, egress, profile, cgroup }: ProcessPlan, means: WorkerResources): string[] {
  const from = egress.hosts.length === 0 ? 'c_offline' : 'c_relayed'
  const needs: readonly (readonly [string, boolean])[] = [
    [`tier ${tier}`, means.tiers.includes(tier)],
    ['tier C for calls that reach hosts', tier !== 'C' || from === 'c_offline' || means.egress],
    ['cgroups', cgroup !== true || means.cgroups],
    [
      `the profile \`${profile}\` made from \`${from}\``,
      profile === undefined || means.profiles.some((own) => own.name === profile && own.from === from),
    ],
  ]
  return needs.flatMap(([words, met]) => (met ? [] : [words]))
}

/** `C-nocgroup`: tier C whose limits apply to each process alone. */
export const AdvertisedTier = z.enum(['B', 'C', 'C-nocgroup'])
export const advertisedTiers = ({ tiers, cgroups }: WorkerResources): z.infer<typeof AdvertisedTier>[] =>
  tiers.map((tier) => (tier === 'C' && !cgroups ? 'C-nocgroup' : tier))

export const sealProof = (proof: WorkerProof, worker: Signer): Envelope => seal(PROOF_TYPE, proof, worker)

/** The worker whose proof is expected. */
export type Prover = {
  readonly tenant: string
  readonly id: string
  readonly kid: string
  readonly x: string
}

export function readProof(envelope: Envelope, { tenant, id, kid, x }: Prover): Result<WorkerProof, string> {
  if (!signedByExactly(envelope, PROOF_TYPE, new Map([[kid, x]])))
    return err('it must have exactly one signature, the worker’s')
  const bytes = payloadBytes(envelope)
  const parsed = parseJson(bytes)
  const read = WorkerProof.safeParse(parsed.ok ? parsed.value : undefined)
  if (!read.success) return err('the payload is not a worker proof')
  if (canonical(read.data) !== new TextDecoder().decode(bytes))
    return err('the payload is not in canonical form')
  if (read.data.tenant !== tenant || read.data.worker !== id) return err('it belongs to another worker')
  const { tiers, egress, cgroups, prepared, profiles = [] } = read.data
  const parts = [
    tiers.B,
    tiers.C,
    egress,
    cgroups,
    ...(prepared === undefined ? [] : [prepared]),
    ...profiles.map(({ proof }) => proof),
  ]
  if (parts.some((part) => part.ok !== (part.checks.length > 0 && part.checks.every((check) => check.ok))))
    return err('it claims more than its checks show')
  return ok(read.data)
}
