// What a worker has proven of itself: the outcome of its canaries, signed with its key. The edge offers a worker no call of a tier that
// such a proof does not hold (L8, K04), and shows operators why.

import { z } from 'zod'
import { canonical, parseJson } from '../bytes/json.ts'
import { PATTERNS } from '../ids.ts'
import { type ProcessPlan, Tier } from '../plan/plan.ts'
import { err, ok, type Result } from '../result.ts'
import { type Envelope, payloadBytes, type Signer, seal, signedByExactly } from './dsse.ts'

export const PROOF_TYPE = 'application/vnd.countersign.worker-proof+json'
/** What a canary saw may be lines of anything; this much of it is sent. */
export const SEEN_CHARS = 300

const Check = z.strictObject({ name: z.string().max(100), ok: z.boolean(), seen: z.string().max(SEEN_CHARS) })
export const Part = z.strictObject({
  ok: z.boolean(),
  /** switched off by the worker's operator, not possible on such a host, or something is missing; canaries were not tried then. */
  lack: z.enum(['disabled', 'unsupported_platform', 'sandbox_unavailable']).nullable(),
  checks: z.array(Check).max(100),
})
export type Part = z.infer<typeof Part>
const Version = z.string().max(64)

/** A sandbox of the worker's own: its name, what it is made from, and the digest of what it is. */
const OwnProfile = z.strictObject({
  name: z.string().regex(PATTERNS.name),
  from: z.enum(['c_offline', 'c_relayed']),
  sha256: z.string().regex(PATTERNS.sha256),
})
export const PROFILES_MAX = 32

/** What a worker has for calls: none that needs more is handed to it. */
export const Means = z.strictObject({
  tiers: z.array(Tier).max(2),
  /** Tier C for calls that may reach hosts. */
  egress: z.boolean(),
  /** Memory and processes of a call counted together, ended together. */
  cgroups: z.boolean(),
  profiles: z.array(OwnProfile).max(PROFILES_MAX),
})
export type Means = z.infer<typeof Means>
export const NO_MEANS: Means = { tiers: [], egress: false, cgroups: false, profiles: [] }

export const WorkerProof = z.strictObject({
  format: z.literal('countersign-worker-proof/v1'),
  tenant: z.string().regex(PATTERNS.tenant),
  worker: z.string().regex(PATTERNS.worker),
  /** By the edge's clock, as the worker knows it. */
  at_ms: z.int().min(0),
  took_ms: z.int().min(0),
  versions: z.strictObject({ kernel: Version, bubblewrap: Version, util_linux: Version, node: Version }),
  tiers: z.strictObject({ B: Part, C: Part }),
  /** Of tier C, for calls that may reach hosts. */
  egress: Part,
  /** Memory and processes of a call counted together. Without it tier C is `C-nocgroup`: each process has its limits, and stands alone. */
  cgroups: Part,
  /** Sandboxes of tier C that are set up in advance: without, each call starts its own. Proofs of before say nothing of them; new ones always do. */
  prepared: Part.optional(),
  /** Its own sandboxes, each by the canaries of what it is made from. Proofs of before have none; new ones always do. */
  profiles: z
    .array(OwnProfile.extend({ proof: Part }))
    .max(PROFILES_MAX)
    .optional(),
})
export type WorkerProof = z.infer<typeof WorkerProof>

export const provenMeans = ({
  tiers,
  egress,
  cgroups,
  profiles = [],
}: Pick<WorkerProof, 'tiers' | 'egress' | 'cgroups' | 'profiles'>): Means => ({
  tiers: Tier.options.filter((tier) => tiers[tier].ok),
  egress: tiers.C.ok && egress.ok,
  cgroups: cgroups.ok,
  profiles: profiles.flatMap(({ proof, ...profile }) => (proof.ok ? [profile] : [])),
})

/** What both say. A profile that is another by now is none of them. */
export const narrowed = (proven: Means, said: Means): Means => ({
  tiers: proven.tiers.filter((tier) => said.tiers.includes(tier)),
  egress: proven.egress && said.egress,
  cgroups: proven.cgroups && said.cgroups,
  profiles: proven.profiles.filter((profile) =>
    said.profiles.some((other) => canonical(other) === canonical(profile)),
  ),
})

/** What of the plan's needs these means do not meet, in words; nothing where they do (L8, K04). */
export function unmet({ tier, egress, profile, cgroup }: ProcessPlan, means: Means): string[] {
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

/** `C-nocgroup`: each process of a call has its limits, and stands alone. */
export const Advertised = z.enum(['B', 'C', 'C-nocgroup'])
export const advertised = ({ tiers, cgroups }: Means): z.infer<typeof Advertised>[] =>
  tiers.map((tier) => (tier === 'C' && !cgroups ? 'C-nocgroup' : tier))

export const sealProof = (proof: WorkerProof, worker: Signer): Envelope => seal(PROOF_TYPE, proof, worker)

/** Whose it has to be. */
export type Prover = {
  readonly tenant: string
  readonly id: string
  readonly kid: string
  readonly x: string
}

export function readProof(envelope: Envelope, { tenant, id, kid, x }: Prover): Result<WorkerProof, string> {
  if (!signedByExactly(envelope, PROOF_TYPE, new Map([[kid, x]])))
    return err('it is not signed by the worker alone')
  const bytes = payloadBytes(envelope)
  const parsed = parseJson(bytes)
  const read = WorkerProof.safeParse(parsed.ok ? parsed.value : undefined)
  if (!read.success) return err('the payload is no proof of a worker')
  if (canonical(read.data) !== new TextDecoder().decode(bytes))
    return err('the payload is not in canonical form')
  if (read.data.tenant !== tenant || read.data.worker !== id) return err('it is another worker’s')
  const { tiers, egress, cgroups, prepared, profiles = [] } = read.data
  const said = [
    tiers.B,
    tiers.C,
    egress,
    cgroups,
    ...(prepared === undefined ? [] : [prepared]),
    ...profiles.map(({ proof }) => proof),
  ]
  if (said.some((part) => part.ok !== (part.checks.length > 0 && part.checks.every((check) => check.ok))))
    return err('it says more than its checks do')
  return ok(read.data)
}
