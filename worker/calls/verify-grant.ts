// Verifies the answer to a claim: that the edge signed it, for this call, worker, arguments and
// plan (L1, L2, P08). Every digest is recomputed from the exact values that will run; no later code
// checks again.

import { canonical, type Json, parseJson, sha256 } from '../../shared/bytes/json.ts'
import { type Envelope, payloadBytes, signedByExactly } from '../../shared/evidence/dsse.ts'
import { callDigest, GRANT_TYPE, Grant } from '../../shared/evidence/statement.ts'
import { type ProcessPlan as Plan, secretsOf } from '../../shared/plan/plan.ts'
import { Claim } from '../../shared/wire/workers.ts'

export type Expected = {
  readonly tenant: string
  readonly run: string
  readonly call: string
  readonly worker: string
  /** The edge's public key with this id, if its grants count now. */
  readonly edgeKey: (kid: string) => string | undefined
  /** By the edge's clock. */
  readonly now_ms: number
}

type GrantReference = {
  readonly grant: Grant
  /** The statement refers to the grant by this digest. */
  readonly grant_sha256: string
}

/** A grant whose digests match the plan and arguments beside it. */
export type VerifiedClaim = GrantReference & {
  readonly kind: 'verified'
  readonly plan: Plan
  readonly args: Record<string, unknown>
  /** The arguments in canonical form, as the digest covers them. */
  readonly argsText: string
  readonly secrets: Readonly<Record<string, string>>
}

export type ClaimVerdict =
  | VerifiedClaim
  /**
   * A grant for this call and worker that fails a check: nothing runs, and the refusal is attested.
   */
  | (GrantReference & { readonly kind: 'untrusted'; readonly reason: string })
  /**
   * No grant, or one for another call or worker: there is no call for which we could report an end.
   */
  | { readonly kind: 'stray'; readonly reason: string }

/** The id of the key that is said to have signed it. */
export const signerOf = ({ signatures: [first] }: Envelope): string => first?.keyid ?? ''

export function verifyClaim(answer: unknown, expected: Expected): ClaimVerdict {
  const stray = (reason: string): ClaimVerdict => ({ kind: 'stray', reason })
  const claim = Claim.safeParse(answer)
  if (!claim.success) return stray('the answer is not a claim')
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

  const reference = { grant, grant_sha256: sha256(canonical(grant)) }
  const untrusted = (reason: string): ClaimVerdict => ({ kind: 'untrusted', reason, ...reference })
  const kid = signerOf(envelope)
  const key = expected.edgeKey(kid)
  if (key === undefined || !signedByExactly(envelope, GRANT_TYPE, new Map([[kid, key]])))
    return untrusted('the grant is not signed by the pinned edge key alone')
  if (expected.now_ms >= deadline_ms) return untrusted('the deadline of the grant has passed')
  const argsText = canonical(args)
  if (facts.args_sha256 !== sha256(argsText))
    return untrusted('these are not the arguments that were decided')
  if (facts.plan_sha256 !== sha256(canonical(plan))) return untrusted('this is not the plan that was decided')
  // Args were parsed from JSON.
  const digest = callDigest({ tenant, run, call, tool: facts.tool, arguments: args as Json, plan })
  if (facts.digest !== digest) return untrusted('the digest does not cover what would run')
  if (canonical(Object.keys(secrets).sort()) !== canonical(secretsOf(plan).sort()))
    return untrusted('these are not the secrets that the plan names')
  return { kind: 'verified', ...reference, plan, args, argsText, secrets }
}
