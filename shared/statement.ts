// What is signed about a call: the facts the edge vouches for, the grant that lets one worker run it once, and the
// attestation of what happened. Offline verification of an attestation lives here too, as a checklist.

import { z } from 'zod'
import type { Signer } from './dsse.ts'
import { Envelope, payloadBytes, seal, signedByExactly } from './dsse.ts'
import { PublicKey } from './ed25519.ts'
import type { Code } from './failures.ts'
import { OutputFiles } from './files.ts'
import { PATTERNS } from './ids.ts'
import type { Json } from './json.ts'
import { canonical, digestOf, parseJson } from './json.ts'
import { LIMITS } from './limits.ts'
import { Connection, EgressMode, Limits, Outcome, Plan, SkillLimits, StreamSummary } from './plan.ts'
import { asTold, TOLD_CHARS } from './told.ts'

export const GRANT_TYPE = 'application/vnd.countersign.grant+json'
export const STATEMENT_TYPE = 'application/vnd.in-toto+json'
const PREDICATE_TYPE = 'https://countersign.dev/attestation/v1'
export const BUNDLE_FORMAT = 'countersign-bundle/v1'

const Sha256 = z.string().regex(PATTERNS.sha256)
const Name = z.string().regex(PATTERNS.name)
const Time = z.int().min(0)

export const CallState = z.enum([
  'proposed',
  'denied',
  'awaiting_approval',
  'rejected',
  'expired',
  'cancelled',
  'granted',
  'lapsed',
  'running',
  'succeeded',
  'failed',
  'timed_out',
  'indeterminate',
])
export type CallState = z.infer<typeof CallState>

export const ToolRef = z.strictObject({ name: z.string().regex(PATTERNS.tool), version: z.int().min(1), digest: Sha256 })
export type ToolRef = z.infer<typeof ToolRef>

/** What the digest covers: THE identity of what is decided, approved, run and attested. */
export type DigestInput = { tenant: string; run: string; call: string; tool: ToolRef; arguments: Json; plan: Plan | null }
export const callDigest = (input: DigestInput): string => digestOf(input)

export const ApprovalFacts = z.strictObject({
  id: z.string().regex(PATTERNS.approval),
  scope: z.enum(['once', 'session', 'timeboxed']),
  answers: z
    .array(
      z.strictObject({
        by: Name,
        decision: z.enum(['approve', 'deny']),
        channel: Name,
        at_ms: Time,
        /** The standing approval that gave it, where it was not given to this very call. */
        standing: z.string().regex(PATTERNS.standing).optional(),
      }),
    )
    .max(32),
})
export type ApprovalFacts = z.infer<typeof ApprovalFacts>

/** What the edge vouches for, before anything runs. */
export const Facts = z.strictObject({
  tenant: z.string().regex(PATTERNS.tenant),
  run: z.string().regex(PATTERNS.run),
  call: z.string().regex(PATTERNS.call),
  agent: Name,
  session: z.string().max(128),
  tool: ToolRef,
  digest: Sha256,
  args_sha256: Sha256,
  plan_sha256: Sha256.nullable(),
  limits: z.union([Limits, SkillLimits]).nullable(),
  egress: z.strictObject({ mode: EgressMode, hosts: z.array(z.string().max(260)).max(64) }).nullable(),
  decision: z.strictObject({
    effect: z.enum(['allow', 'ask', 'deny']),
    policies: z.array(z.string().max(128)).max(LIMITS.policies),
    /** Digest of the policy set that decided: floor, and the tenant's active version. */
    policy_set: Sha256,
    /** Digest of the policy snapshot: allowed tools, budget and process runner in force. */
    snapshot: Sha256,
  }),
  approval: ApprovalFacts.nullable(),
})
export type Facts = z.infer<typeof Facts>

export const EDGE_EXECUTOR = 'edge'
/** As the edge calls itself where it runs a skill. */
export const ISOLATE = 'wasm_isolate'
/** A worker; or the edge itself, of tier A. */
const Executor = z.union([z.string().regex(PATTERNS.worker), z.literal(EDGE_EXECUTOR)])

/** One worker, one digest, one execution, one deadline (L1, L2). */
export const Grant = z.strictObject({
  facts: Facts,
  worker: Executor,
  fence: z.int().min(1),
  issued_at_ms: Time,
  deadline_ms: Time,
  /** Where the plan shares the run's folder. kept: calls of the run have worked in it, so a worker that has it no more must not begin. */
  folder: z.enum(['new', 'kept']).optional(),
})
export type Grant = z.infer<typeof Grant>

export const sealGrant = (grant: Grant, edge: Signer): Envelope => seal(GRANT_TYPE, grant, edge)

/** The modules are those that ran, metered, with what joins them. */
const SkillUse = z.strictObject({
  digest: Sha256,
  component_sha256: Sha256,
  modules: z.array(z.strictObject({ name: z.string().max(64), sha256: Sha256 })).max(64),
  fuel_used: z.int().min(0),
  memory_bytes: z.int().min(0),
  host_calls: z.record(z.string().max(64), z.int().min(0)),
})

/** What an executor saw. For an ending without execution (a denial, an expiry) the edge is the executor. */
export const Execution = z.strictObject({
  outcome: Outcome.nullable(),
  stdout: StreamSummary.nullable(),
  stderr: StreamSummary.nullable(),
  connections: z.array(Connection).max(1_000),
  executor: z.string().max(64),
  sandbox_enforcement: z.string().max(64),
  /** Whether memory and processes of the call were counted together, by a cgroup. Absent where nothing was started, and in statements of before. */
  cgroup: z.boolean().optional(),
  /** Digests of the sandbox profile and of the exact command line that was spawned. */
  profile_sha256: Sha256.nullable(),
  argv_sha256: Sha256.nullable(),
  /** What was in force: of plan, worker and the time that the grant left, the least. Absent where nothing was to be started. */
  limits: z.union([Limits, SkillLimits]).optional(),
  /** Which code ran, of a skill, and what it used. */
  skill: SkillUse.optional(),
  /** What the call left, where its plan keeps that. */
  files: OutputFiles.optional(),
  started_at_ms: Time.nullable(),
  ended_at_ms: Time,
})
export type Execution = z.infer<typeof Execution>

export const Predicate = z.strictObject({
  attestation_id: z.string().regex(PATTERNS.attestation),
  state: CallState,
  error: z.string().max(64).nullable(),
  timed_out: z.boolean(),
  facts: Facts,
  grant: z.strictObject({ sha256: Sha256, worker: Executor, fence: z.int().min(1), deadline_ms: Time }).nullable(),
  execution: Execution,
  execution_sha256: Sha256,
})
export type Predicate = z.infer<typeof Predicate>

export const Statement = z.strictObject({
  _type: z.literal('https://in-toto.io/Statement/v1'),
  subject: z.tuple([z.strictObject({ name: z.string().regex(PATTERNS.call), digest: z.strictObject({ sha256: Sha256 }) })]),
  predicateType: z.literal(PREDICATE_TYPE),
  predicate: Predicate,
})
export type Statement = z.infer<typeof Statement>

/** Names what was executed and what came of it; recomputed by every verifier. */
export const executionDigest = (digest: string, execution: Execution): string => digestOf({ digest, execution })

export function statementOf(predicate: Omit<Predicate, 'execution_sha256' | 'timed_out'>): Statement {
  const { facts, state } = predicate
  const execution = readable(predicate.execution)
  return {
    _type: 'https://in-toto.io/Statement/v1',
    subject: [{ name: facts.call, digest: { sha256: facts.digest } }],
    predicateType: PREDICATE_TYPE,
    predicate: { ...predicate, execution, timed_out: state === 'timed_out', execution_sha256: executionDigest(facts.digest, execution) },
  }
}

/** The one place where texts of tools, skills and hosts are made fit to be told. Whoever hides a secret in them has done so before: part of one is one too. */
function readable({ outcome, connections, files, ...rest }: Execution): Execution {
  return {
    ...rest,
    outcome: outcome !== null && 'detail' in outcome ? { ...outcome, detail: asTold(outcome.detail, TOLD_CHARS.detail) } : outcome,
    connections: connections.map((one) => ({ ...one, host: asTold(one.host, TOLD_CHARS.host) })),
    ...(files && { files: { ...files, left: files.left.map(({ path, why }) => ({ path: asTold(path, TOLD_CHARS.left), why })) } }),
  }
}

/** As `env`, `prlimit` and every shell tell it: there is no such program, or it can't be executed. */
const NOT_STARTED: readonly number[] = [126, 127]
/** The kernel sends them for nothing else than CPU time or a file beyond its limit. */
const QUOTA_SIGNALS: readonly string[] = ['SIGXCPU', 'SIGXFSZ']

/** How an outcome ends a call. `indeterminate` is not here: only the edge says it, when nobody saw the end. */
export function endingOf(outcome: Outcome): { state: 'succeeded' | 'failed' | 'timed_out'; error: Code | null } {
  switch (outcome.kind) {
    case 'exit':
      if (outcome.code === 0) return { state: 'succeeded', error: null }
      return { state: 'failed', error: NOT_STARTED.includes(outcome.code) ? 'spawn_failed' : 'runtime_failure' }
    case 'timeout':
      return { state: 'timed_out', error: 'timed_out' }
    case 'signal':
      return { state: 'failed', error: QUOTA_SIGNALS.includes(outcome.signal) ? 'quota_exceeded' : 'runtime_failure' }
    case 'output_cap':
    case 'memory_cap':
    case 'cpu_cap':
    case 'workspace_cap':
      return { state: 'failed', error: 'quota_exceeded' }
    case 'returned':
      return { state: 'succeeded', error: null }
    case 'trap':
      return { state: 'failed', error: 'runtime_failure' }
    case 'fuel_exhausted':
      return { state: 'failed', error: 'quota_exceeded' }
    case 'skill_error':
    case 'capability_denied':
    case 'invalid_output':
    case 'cancelled':
      return { state: 'failed', error: outcome.kind }
    case 'refused':
      return { state: 'failed', error: outcome.code }
    case 'infra':
      return { state: 'failed', error: 'sandbox_failed' }
  }
}

/** The public keys of an edge and its workers, as `/.well-known/countersign/keys.json` serves them. */
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

/** What an auditor takes home: the envelope, and what it takes to recompute the digests in it. */
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
})
export type Bundle = z.infer<typeof Bundle>

export type Check = { readonly name: string; readonly ok: boolean }
export type Verdict = { readonly ok: boolean; readonly checks: readonly Check[]; readonly statement?: Statement }

/** Verifies a bundle with nothing but public keys. Reads as the checklist that it is; a check after a failed one is not asked. */
export function verifyBundle(bundle: Bundle, keys: Keys): Verdict {
  const checks: Check[] = []
  const holds = (name: string, condition: boolean): boolean => {
    checks.push({ name, ok: condition })
    return condition
  }
  const parsed = parseJson(payloadBytes(bundle.envelope))
  const read = Statement.safeParse(parsed.ok ? parsed.value : undefined)
  if (!holds('the payload is an in-toto statement of our predicate', read.success) || !read.success) return { ok: false, checks }
  const statement = read.data
  const { predicate } = statement
  const { facts, execution, grant } = predicate

  const edges = new Map<string, string>()
  for (const key of keys.keys) if (key.role === 'edge') edges.set(key.kid, key.x)
  const edge = bundle.envelope.signatures.map(({ keyid }) => keyid).find((kid) => edges.has(kid))
  const edgeKey = edge === undefined ? undefined : edges.get(edge)
  const workerKey = keys.keys.find((key) => key.role === 'worker' && key.worker === grant?.worker)

  const sealed = new TextDecoder().decode(payloadBytes(bundle.envelope))
  if (!holds('the payload is in canonical form', sealed === canonical(statement))) return { ok: false, checks }
  if (!holds('an edge key from the key file signed it', edge !== undefined && edgeKey !== undefined) || !edge || !edgeKey)
    return { ok: false, checks }
  const required = new Map([[edge, edgeKey]])
  const executed = execution.executor !== EDGE_EXECUTOR
  const isolated = execution.executor === ISOLATE
  if (executed && !isolated) {
    if (!holds('the worker that the grant names has a key in the key file', workerKey !== undefined) || !workerKey)
      return { ok: false, checks }
    required.set(workerKey.kid, workerKey.x)
  }
  const who = executed && !isolated ? 'exactly the worker and the edge signed it' : 'exactly the edge signed it'
  if (!holds(who, signedByExactly(bundle.envelope, STATEMENT_TYPE, required))) return { ok: false, checks }

  const subject = statement.subject[0]
  holds('the key file is of the tenant that it names', keys.tenant === facts.tenant)
  holds('the subject is this call', subject.name === facts.call && subject.digest.sha256 === facts.digest)
  holds('the digest covers these arguments and this plan', facts.digest === callDigest(bundle.call as DigestInput))
  holds(
    'the facts name the same call',
    facts.call === bundle.call.call && facts.run === bundle.call.run && facts.tenant === bundle.call.tenant,
  )
  holds('the arguments digest fits', facts.args_sha256 === digestOf(bundle.call.arguments))
  holds('the plan digest fits', facts.plan_sha256 === (bundle.call.plan === null ? null : digestOf(bundle.call.plan)))
  holds(
    'limits and egress are the plan’s',
    canonical([facts.limits, facts.egress]) === canonical([bundle.call.plan?.limits ?? null, bundle.call.plan?.egress ?? null]),
  )
  holds('processes were counted together where the plan wants it', isFree(bundle.call.plan) || execution.cgroup !== false)
  holds('the execution digest fits', predicate.execution_sha256 === executionDigest(facts.digest, execution))
  holds('the ending fits the outcome', endingFits(predicate))
  holds('an approval stands behind what policy asks', facts.decision.effect !== 'ask' || grant === null || approvedBySomeone(facts))
  holds('nothing ran without a grant', !executed || (grant !== null && facts.decision.effect !== 'deny'))
  holds('a skill ran at the edge, and anything else on a worker', ranInItsTier(bundle, predicate))
  if (grant === null) holds('no grant is shown, for none was given', bundle.grant === null)
  else
    holds('the grant is the edge’s, for this call and worker', bundle.grant !== null && grantFits(bundle.grant, predicate, edge, edgeKey))
  return { ok: checks.every((check) => check.ok), checks, statement }
}

/** Ends of which it is not said that anything was started. */
const MAYBE_UNBEGUN: readonly string[] = ['refused', 'infra', 'cancelled'] satisfies Outcome['kind'][]

/** Nothing of the kind is wanted. */
const isFree = (plan: Plan | null): boolean => plan === null || plan.tier === 'A' || plan.cgroup !== true

/** What a plan binds to a cgroup ran in one, if it ran. */
export const countedAsPlanned = (plan: Plan | null, { outcome, cgroup }: Execution): boolean =>
  isFree(plan) || cgroup === true || (cgroup === undefined && (outcome === null || MAYBE_UNBEGUN.includes(outcome.kind)))

const approvedBySomeone = (facts: Facts): boolean => facts.approval?.answers.some(({ decision }) => decision === 'approve') ?? false

/** Tier A is the edge's alone to run: no worker can have, and of nothing else may the edge say that it did. */
function ranInItsTier({ call: { plan } }: Bundle, { execution, grant }: Predicate): boolean {
  if (execution.executor === EDGE_EXECUTOR) return grant === null || (grant.worker === EDGE_EXECUTOR) === (plan?.tier === 'A')
  const isolated = execution.executor === ISOLATE
  const ofPlan = execution.skill?.digest === (plan?.tier === 'A' ? plan.executor.digest : undefined)
  return isolated === (plan?.tier === 'A') && isolated === (grant?.worker === EDGE_EXECUTOR) && ofPlan
}

/** Endings that no worker had a part in. */
const UNRUN: ReadonlySet<CallState> = new Set(['denied', 'rejected', 'expired', 'cancelled', 'lapsed'])

function endingFits({ execution, state, error, timed_out, grant }: Predicate): boolean {
  if (timed_out !== (state === 'timed_out')) return false
  if ((execution.outcome === null) !== (execution.executor === EDGE_EXECUTOR)) return false // the edge runs nothing, so it saw no outcome
  if (execution.outcome === null) return UNRUN.has(state) ? grant === null : state === 'indeterminate'
  const ending = endingOf(execution.outcome)
  return ending.state === state && ending.error === error
}

function grantFits(envelope: Envelope, { facts, grant }: Predicate, kid: string, key: string): boolean {
  if (!signedByExactly(envelope, GRANT_TYPE, new Map([[kid, key]]))) return false
  const parsed = parseJson(payloadBytes(envelope))
  const read = Grant.safeParse(parsed.ok ? parsed.value : undefined)
  if (!read.success || grant === null) return false
  const { worker, fence, deadline_ms } = read.data
  return (
    digestOf(read.data) === grant.sha256 &&
    worker === grant.worker &&
    fence === grant.fence &&
    deadline_ms === grant.deadline_ms &&
    canonical(read.data.facts) === canonical(facts)
  )
}
