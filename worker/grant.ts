// Owns the reading of a claim's answer: whether it is the edge's word, for this call, this worker, these arguments and this plan (L1, L2, P08).
// Pure. What it lets through has been checked against the exact values that will run; nothing after it checks again.

import type { KeyObject } from 'node:crypto'
import { payloadBytes, signedByExactly } from '../shared/dsse.ts'
import { canonical, type Json, parseJson, sha256 } from '../shared/json.ts'
import type { Plan } from '../shared/plan.ts'
import { err, ok, type Result } from '../shared/result.ts'
import { callDigest, GRANT_TYPE, Grant } from '../shared/statement.ts'
import { Claim } from '../shared/wire.ts'

export type Expected = {
  readonly tenant: string
  readonly run: string
  readonly call: string
  readonly worker: string
  readonly edge: { readonly kid: string; readonly key: KeyObject }
  /** By the edge's clock. */
  readonly now_ms: number
}

/** A claim whose grant names this call and this worker; what it binds has been recomputed. */
export type Verified = {
  readonly grant: Grant
  readonly grant_sha256: string
  readonly plan: Plan
  readonly args: Record<string, unknown>
  /** The arguments in canonical form, as the digest covers them. */
  readonly argsText: string
}

/** `grant` is there when it at least names us and this call: then the call can be settled as refused, and somebody hears of it. */
export type Mistrust = { readonly reason: string; readonly grant?: Grant; readonly grant_sha256?: string }

export function verifyClaim(answer: unknown, expected: Expected): Result<Verified, Mistrust> {
  const claim = Claim.safeParse(answer)
  if (!claim.success) return err({ reason: 'the answer is no claim' })
  const { grant: envelope, plan, args } = claim.data
  const payload = parseJson(payloadBytes(envelope))
  const read = Grant.safeParse(payload.ok ? payload.value : undefined)
  if (!read.success) return err({ reason: 'the grant can’t be read' })
  const grant = read.data
  const { facts, worker, deadline_ms } = grant

  const { tenant, run, call } = expected
  const forThisCall = facts.tenant === tenant && facts.run === run && facts.call === call
  if (!forThisCall) return err({ reason: 'the grant is for another call' })
  if (worker !== expected.worker) return err({ reason: 'the grant is for another worker' })
  const grant_sha256 = sha256(canonical(grant))
  const refuse = (reason: string): Result<never, Mistrust> => err({ reason, grant, grant_sha256 })

  if (!signedByExactly(envelope, GRANT_TYPE, new Map([[expected.edge.kid, expected.edge.key]])))
    return refuse('the grant is not signed by the pinned edge key alone')
  if (expected.now_ms >= deadline_ms) return refuse('the deadline of the grant has passed')
  const argsText = canonical(args)
  if (facts.args_sha256 !== sha256(argsText)) return refuse('these are not the arguments that were decided')
  if (facts.plan_sha256 !== sha256(canonical(plan))) return refuse('this is not the plan that was decided')
  const digest = callDigest({ tenant, run, call, tool: facts.tool, arguments: args as Json, plan }) // args came out of a JSON text
  if (facts.digest !== digest) return refuse('the digest does not cover what would run')
  return ok({ grant, grant_sha256, plan, args, argsText })
}
