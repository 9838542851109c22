// What a worker has proven of itself: the outcome of its canaries, signed with its key. The edge offers a worker no call of a tier that
// such a proof does not hold (L8, K04), and shows operators why.

import type { KeyObject } from 'node:crypto'
import { z } from 'zod'
import { type Envelope, payloadBytes, type Signer, seal, signedByExactly } from './dsse.ts'
import { PATTERNS } from './ids.ts'
import { canonical, parseJson } from './json.ts'
import { Tier } from './plan.ts'
import { err, ok, type Result } from './result.ts'

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
})
export type WorkerProof = z.infer<typeof WorkerProof>

export const provenTiers = ({ tiers }: WorkerProof): Tier[] => Tier.options.filter((tier) => tiers[tier].ok)

export const sealProof = (proof: WorkerProof, worker: Signer): Envelope => seal(PROOF_TYPE, proof, worker)

/** Whose it has to be. */
export type Prover = { readonly tenant: string; readonly id: string; readonly kid: string; readonly key: KeyObject }

export function readProof(envelope: Envelope, { tenant, id, kid, key }: Prover): Result<WorkerProof, string> {
  if (!signedByExactly(envelope, PROOF_TYPE, new Map([[kid, key]]))) return err('it is not signed by the worker alone')
  const bytes = payloadBytes(envelope)
  const parsed = parseJson(bytes)
  const read = WorkerProof.safeParse(parsed.ok ? parsed.value : undefined)
  if (!read.success) return err('the payload is no proof of a worker')
  if (canonical(read.data) !== new TextDecoder().decode(bytes)) return err('the payload is not in canonical form')
  if (read.data.tenant !== tenant || read.data.worker !== id) return err('it is another worker’s')
  const said = [read.data.tiers.B, read.data.tiers.C, read.data.egress, read.data.cgroups]
  if (said.some((part) => part.ok !== (part.checks.length > 0 && part.checks.every((check) => check.ok))))
    return err('it says more than its checks do')
  return ok(read.data)
}
