// Owns the reading of a claim's answer: whether it is the edge's word, for this call, this worker, these arguments and this plan (L1, L2,
// P08). Pure. What it lets through has been checked against the exact values that will run; nothing after it checks again.

import { canonical, type Json, parseJson, sha256 } from '../../shared/bytes/json.ts'
import { payloadBytes, signedByExactly } from '../../shared/evidence/dsse.ts'
import { callDigest, GRANT_TYPE, Grant } from '../../shared/evidence/statement.ts'
import { type ProcessPlan as Plan, secretsOf } from '../../shared/plan/plan.ts'
import { Claim } from '../../shared/wire/workers.ts'

export type Expected = {
  readonly tenant: string
  readonly run: string
  readonly call: string
  readonly worker: string
  readonly edge: { readonly kid: string; readonly x: string }
  /** By the edge's clock. */
  readonly now_ms: number
}

type Named = {
  readonly grant: Grant
  /** As a statement names it. */
  readonly grant_sha256: string
}

/** The edge's word for this call, and all that it binds recomputed from what would run. */
export type Verified = Named & {
  readonly kind: 'verified'
  readonly plan: Plan
  readonly args: Record<string, unknown>
  /** The arguments in canonical form, as the digest covers them. */
  readonly argsText: string
  readonly secrets: Readonly<Record<string, string>>
}

export type Judged =
  | Verified
  /** It names this call and this worker, and something in it does not hold: nothing runs, and the edge is told so. */
  | (Named & { readonly kind: 'mistrusted'; readonly reason: string })
  /** Not for us, or no grant at all: there is nothing that we could say about it. */
  | { readonly kind: 'stray'; readonly reason: string }

export function verifyClaim(answer: unknown, expected: Expected): Judged {
  const stray = (reason: string): Judged => ({ kind: 'stray', reason })
  const claim = Claim.safeParse(answer)
  if (!claim.success) return stray('the answer is no claim')
  const { grant: envelope, plan, args, secrets } = claim.data
  const payload = parseJson(payloadBytes(envelope))
  const read = Grant.safeParse(payload.ok ? payload.value : undefined)
  if (!read.success) return stray('the grant can’t be read')
  const grant = read.data
  const { facts, worker, deadline_ms } = grant
  const { tenant, run, call } = expected
  if (facts.tenant !== tenant || facts.run !== run || facts.call !== call)
    return stray('the grant is for another call')
  if (worker !== expected.worker) return stray('the grant is for another worker')

  const named = { grant, grant_sha256: sha256(canonical(grant)) }
  const mistrusted = (reason: string): Judged => ({ kind: 'mistrusted', reason, ...named })
  const pinned = new Map([[expected.edge.kid, expected.edge.x]])
  if (!signedByExactly(envelope, GRANT_TYPE, pinned))
    return mistrusted('the grant is not signed by the pinned edge key alone')
  if (expected.now_ms >= deadline_ms) return mistrusted('the deadline of the grant has passed')
  const argsText = canonical(args)
  if (facts.args_sha256 !== sha256(argsText))
    return mistrusted('these are not the arguments that were decided')
  if (facts.plan_sha256 !== sha256(canonical(plan)))
    return mistrusted('this is not the plan that was decided')
  const digest = callDigest({ tenant, run, call, tool: facts.tool, arguments: args as Json, plan }) // args came out of a JSON text
  if (facts.digest !== digest) return mistrusted('the digest does not cover what would run')
  if (canonical(Object.keys(secrets).sort()) !== canonical(secretsOf(plan).sort()))
    return mistrusted('these are not the secrets that the plan names')
  return { kind: 'verified', ...named, plan, args, argsText, secrets }
}
