// The evidence bundle of one call for an auditor, and its verification with only public keys,
// written as a checklist.

import { z } from 'zod'
import { canonical, digestOf, parseJson } from '../bytes/json.ts'
import { PATTERNS } from '../ids.ts'
import { Plan } from '../plan/plan.ts'
import { CHECK_NAMES, type CheckKey } from './checks.ts'
import { contradictions } from './contradictions.ts'
import { Envelope, payloadBytes, signedByExactly } from './dsse.ts'
import { PublicKey } from './ed25519.ts'
import { Removal } from './removal.ts'
import type { DigestInput, Facts } from './statement.ts'
import {
  BY_EDGE,
  callDigest,
  EDGE_EXECUTOR,
  GRANT_TYPE,
  Grant,
  STATEMENT_TYPE,
  Statement,
  ToolRef,
} from './statement.ts'

export const BUNDLE_FORMAT = 'countersign-bundle/v1'

/**
 * The public keys of an edge and its workers, as `/.well-known/countersign/keys.json` serves them.
 */
export const Keys = z.strictObject({
  format: z.literal('countersign-keys/v1'),
  tenant: z.string().regex(PATTERNS.tenant),
  keys: z.array(
    z.strictObject({
      kid: z.string().max(64),
      kty: z.literal('OKP'),
      crv: z.literal('Ed25519'),
      x: PublicKey,
      role: z.enum(['edge', 'worker']),
      worker: z.string().regex(PATTERNS.worker).optional(),
      status: z.enum(['active', 'revoked']),
    }),
  ),
})
export type Keys = z.infer<typeof Keys>

/** The envelope, and everything that an auditor needs to recompute the digests in it. */
export const Bundle = z.strictObject({
  format: z.literal(BUNDLE_FORMAT),
  envelope: Envelope,
  grant: Envelope.nullable(),
  call: z.strictObject({
    tenant: z.string(),
    run: z.string(),
    call: z.string(),
    tool: ToolRef,
    arguments: z.json(),
    plan: Plan.nullable(),
  }),
  /** The tenant's retention rule has removed arguments and plan, which are null. Their digests are signed. */
  removed: Removal.optional(),
})
export type Bundle = z.infer<typeof Bundle>

/**
 * `at`: the first fault, as a JSON pointer into the statement. `detail`: advice, if there is any.
 */
export type Check = {
  readonly name: string
  readonly ok: boolean
  readonly at?: string
  readonly detail?: string
}
export type Verdict = {
  readonly ok: boolean
  readonly checks: readonly Check[]
  readonly statement?: Statement
}

/** Verifies a bundle with only public keys, check by check; a failed check may end the list. */
export function verifyBundle(bundle: Bundle, keys: Keys): Verdict {
  const checks: Check[] = []
  const holds = (name: string, condition: boolean, at?: string, detail?: string): boolean => {
    const fault = { ...(at === undefined ? {} : { at }), ...(detail === undefined ? {} : { detail }) }
    checks.push({ name, ok: condition, ...(condition ? {} : fault) })
    return condition
  }
  const parsed = parseJson(payloadBytes(bundle.envelope))
  const read = Statement.safeParse(parsed.ok ? parsed.value : undefined)
  if (
    !holds('the payload is an in-toto statement of our predicate', read.success, faultIn(read.error)) ||
    !read.success
  )
    return { ok: false, checks }
  const statement = read.data
  const { facts, execution, grant } = statement.predicate
  // First, because with another tenant's keys the checks that follow fail without saying why.
  const advice = `the key file belongs to the tenant \`${keys.tenant}\`, the attestation to \`${facts.tenant}\`: fetch the keys with \`countersign keys --tenant ${facts.tenant}\``
  holds(
    'the key file belongs to the tenant of the attestation',
    keys.tenant === facts.tenant,
    '/predicate/facts/tenant',
    advice,
  )

  const edges = new Map<string, string>()
  for (const key of keys.keys) if (key.role === 'edge') edges.set(key.kid, key.x)
  const edge = bundle.envelope.signatures.map(({ keyid }) => keyid).find((kid) => edges.has(kid))
  const edgeKey = edge === undefined ? undefined : edges.get(edge)
  const workerKey = keys.keys.find((key) => key.role === 'worker' && key.worker === grant?.worker)

  const sealed = new TextDecoder().decode(payloadBytes(bundle.envelope))
  if (!holds('the payload is in canonical form', sealed === canonical(statement)))
    return { ok: false, checks }
  if (
    !holds('an edge key from the key file signed it', edge !== undefined && edgeKey !== undefined) ||
    !edge ||
    !edgeKey
  )
    return { ok: false, checks }
  const required = new Map([[edge, edgeKey]])
  const byWorker = !BY_EDGE.includes(execution.executor)
  if (byWorker) {
    if (
      !holds(
        'the worker that the grant names has a key in the key file',
        workerKey !== undefined,
        '/predicate/grant/worker',
      ) ||
      !workerKey
    )
      return { ok: false, checks }
    required.set(workerKey.kid, workerKey.x)
  }
  const signers = byWorker ? 'exactly the worker and the edge signed it' : 'exactly the edge signed it'
  if (
    !holds(
      signers,
      signedByExactly(bundle.envelope, STATEMENT_TYPE, required),
      '/predicate/execution/executor',
    )
  )
    return { ok: false, checks }

  const at = (name: keyof Facts): string => `/predicate/facts/${name}`
  const { call } = bundle
  const differs = (['tenant', 'run', 'call', 'tool'] as const).find(
    (name) => canonical(facts[name]) !== canonical(call[name]),
  )
  holds('the facts name the same call', differs === undefined, differs && at(differs))
  const approved = facts.decision.effect !== 'ask' || grant === null || approvedBySomeone(facts)
  holds('an approval exists where policy asks for one', approved, at('approval'))
  holds(
    'nothing ran without a grant',
    execution.executor === EDGE_EXECUTOR || (grant !== null && facts.decision.effect !== 'deny'),
    '/predicate/grant',
  )
  if (grant === null) holds('no grant is included where none was issued', bundle.grant === null)
  const granted = bundle.grant === null || grant === null ? null : grantIn(bundle.grant, edge, edgeKey)
  if (bundle.removed !== undefined) {
    // Only whoever has the arguments can check the rest. The edge did, before it signed.
    const same = grant === null || (granted !== null && digestOf(granted) === grant.sha256)
    holds(CHECK_NAMES.grant, same, '/predicate/grant')
    holds(ARGUMENTS_REMOVED, call.arguments === null && call.plan === null)
  } else checks.push(...checksOfPlan(statement, call, granted))
  return { ok: checks.every((check) => check.ok), checks, statement }
}

/** A bundle without arguments passes with this check in place of those that need them. */
export const ARGUMENTS_REMOVED =
  'the arguments were removed by the tenant’s retention rule: only their digest is signed, and nothing compares the plan'

/** The checks that need the arguments and the plan. */
function* checksOfPlan(statement: Statement, call: Bundle['call'], granted: Grant | null): Generator<Check> {
  const { facts } = statement.predicate
  const { plan } = call
  const check = (name: string, ok: boolean, at?: string): Check =>
    ok || at === undefined ? { name, ok } : { name, ok, at }
  const at = (name: keyof Facts): string => `/predicate/facts/${name}`
  const bounded = (['limits', 'egress'] as const).find(
    (name) => canonical(facts[name]) !== canonical(plan?.[name] ?? null),
  )
  const covered = facts.digest === callDigest(call as DigestInput) // JSON, as it was read
  yield check('the digest covers these arguments and this plan', covered, at('digest'))
  yield check(
    'the arguments digest matches',
    facts.args_sha256 === digestOf(call.arguments),
    at('args_sha256'),
  )
  const isPlan = facts.plan_sha256 === (plan === null ? null : digestOf(plan))
  yield check('the plan digest matches', isPlan, at('plan_sha256'))
  yield check('limits and egress are the plan’s', bounded === undefined, bounded && at(bounded))
  const found = contradictions(statement, { grant: granted, plan })
  for (const [what, name] of Object.entries(CHECK_NAMES) as [CheckKey, string][]) {
    // `Object.entries` loses the key type
    const faults = found.filter((one) => one.what === what).slice(0, MAX_FAULTS)
    if (faults.length === 0) yield check(name, true)
    for (const fault of faults) yield check(name, false, fault.at)
  }
}

/** Faults listed per check. */
const MAX_FAULTS = 16

/** The first field of a value that does not match its schema. */
export const faultIn = (error: z.ZodError | undefined): string =>
  `/${error?.issues[0]?.path.map(String).join('/') ?? ''}`

const approvedBySomeone = (facts: Facts): boolean =>
  facts.approval?.answers.some(({ decision }) => decision === 'approve') ?? false

/** The grant, if the edge signed it. */
function grantIn(envelope: Envelope, kid: string, x: string): Grant | null {
  if (!signedByExactly(envelope, GRANT_TYPE, new Map([[kid, x]]))) return null
  const parsed = parseJson(payloadBytes(envelope))
  const read = Grant.safeParse(parsed.ok ? parsed.value : undefined)
  return read.success ? read.data : null
}
