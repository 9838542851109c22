// The signed parts of a call: the facts that the edge vouches for, the grant that lets one worker
// run it once, and the attestation of the result. contradictions.ts checks that these agree,
// bundle.ts verifies them offline.

import { z } from 'zod'
import type { Json } from '../bytes/json.ts'
import { digestOf } from '../bytes/json.ts'
import { SIGNED_TEXT_CHARS, toSignableText } from '../bytes/signable-text.ts'
import type { Code } from '../failures.ts'
import { Name, Sha256, Time } from '../fields.ts'
import { PATTERNS } from '../ids.ts'
import { LIMITS } from '../limits.ts'
import { OutputFiles } from '../plan/call-files.ts'
import {
  Connection,
  EgressMode,
  Limits,
  Outcome,
  type Plan,
  SkillLimits,
  StreamSummary,
  UpstreamLimits,
} from '../plan/plan.ts'
import type { Envelope, Signer } from './dsse.ts'
import { seal } from './dsse.ts'
import { CallOrigin } from './origin.ts'

export const GRANT_TYPE = 'application/vnd.countersign.grant+json'
export const STATEMENT_TYPE = 'application/vnd.in-toto+json'
const PREDICATE_TYPE = 'https://countersign.dev/attestation/v1'

export const CallState = z.enum([
  'proposed',
  'denied',
  'awaiting_approval',
  'rejected',
  'expired',
  'cancelled',
  'granted',
  'lapsed',
  'released',
  'running',
  'succeeded',
  'failed',
  'timed_out',
  'indeterminate',
])
export type CallState = z.infer<typeof CallState>

export const ToolRef = z.strictObject({
  name: z.string().regex(PATTERNS.tool),
  version: z.int().min(1),
  digest: Sha256,
})
export type ToolRef = z.infer<typeof ToolRef>

/** The input of the call digest, which identifies what is decided, approved, run and attested. */
export type DigestInput = {
  tenant: string
  run: string
  call: string
  tool: ToolRef
  arguments: Json
  plan: Plan | null
}
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
        /** The standing approval that supplied the answer, if it was not given to this call. */
        standing: z.string().regex(PATTERNS.standing).optional(),
      }),
    )
    .max(32),
})
export type ApprovalFacts = z.infer<typeof ApprovalFacts>

export const Effect = z.enum(['allow', 'ask', 'deny'])

/** The facts that the edge vouches for before the call runs. */
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
  limits: z.union([Limits, SkillLimits, UpstreamLimits]).nullable(),
  egress: z.strictObject({ mode: EgressMode, hosts: z.array(z.string().max(260)).max(64) }).nullable(),
  decision: z.strictObject({
    effect: Effect,
    policies: z.array(z.string().max(128)).max(LIMITS.policies),
    /** Digest of the policy set that decided: floor, and the tenant's active version. */
    policy_set: Sha256,
    /** Digest of the policy snapshot: allowed tools, budget and process runner in force. */
    snapshot: Sha256,
  }),
  approval: ApprovalFacts.nullable(),
  origin: CallOrigin.optional(),
})
export type Facts = z.infer<typeof Facts>

export const EDGE_EXECUTOR = 'edge'
/** The executor of a skill: the edge. */
export const ISOLATE = 'wasm_isolate'
/** The executor of an upstream's tool: the edge's MCP client. */
export const UPSTREAM_CLIENT = 'mcp_client'
/** The origin of an exchange over standard input and output: the plan has the command. */
export const STDIO_ORIGIN = 'stdio'
/** Executors whose statements the edge alone signs; no worker may name one. */
export const BY_EDGE: readonly string[] = [EDGE_EXECUTOR, ISOLATE, UPSTREAM_CLIENT]
/**
 * The executor that a worker names if it started no sandbox, and the names of its sandboxes by
 * tier.
 */
export const UNSTARTED = 'worker'
export const SANDBOXES = { B: 'sandbox_tier_b_linux_rlimits', C: 'sandbox_tier_c_linux_bubblewrap' } as const
/** A worker, or for tier A the edge. */
const Executor = z.union([z.string().regex(PATTERNS.worker), z.literal(EDGE_EXECUTOR)])

/** One worker, one digest, one execution, one deadline (L1, L2). */
export const Grant = z.strictObject({
  facts: Facts,
  worker: Executor,
  fence: z.int().min(1),
  issued_at_ms: Time,
  deadline_ms: Time,
  /**
   * Set if the plan shares the run's folder. `kept`: earlier calls have used it, so a worker that
   * has lost it must not begin.
   */
  folder: z.enum(['new', 'kept']).optional(),
  /**
   * The abilities that the worker had proven at the claim, which limit its statement. Absent in
   * older grants and for skills.
   */
  proven: z.strictObject({ cgroups: z.boolean(), profile_sha256: Sha256.optional() }).optional(),
})
export type Grant = z.infer<typeof Grant>

export const sealGrant = (grant: Grant, edge: Signer): Envelope => seal(GRANT_TYPE, grant, edge)

/** The use of a skill. `modules` are those that ran: the metered ones and their glue. */
const SkillUse = z.strictObject({
  digest: Sha256,
  component_sha256: Sha256,
  modules: z.array(z.strictObject({ name: z.string().max(64), sha256: Sha256 })).max(64),
  fuel_used: z.int().min(0),
  memory_bytes: z.int().min(0),
  host_calls: z.record(z.string().max(64), z.int().min(0)),
})
export type SkillUse = z.infer<typeof SkillUse>

/**
 * The exchange with an upstream. The digests cover the JSON-RPC messages of the call byte for byte,
 * as sent and as received; null if there was none.
 */
export const UpstreamExchange = z.strictObject({
  name: z.string().regex(PATTERNS.upstream),
  origin: z.string().max(SIGNED_TEXT_CHARS.host),
  /** The protocol in which it was called. Null if it was not called. */
  era: z.enum(['modern', 'legacy']).nullable(),
  definition_sha256: Sha256,
  request_sha256: Sha256.nullable(),
  response_sha256: Sha256.nullable(),
})
export type UpstreamExchange = z.infer<typeof UpstreamExchange>

/**
 * An execution as its executor saw it. For an ending without execution (a denial, an expiry) the
 * edge is the executor.
 */
export const Execution = z.strictObject({
  outcome: Outcome.nullable(),
  stdout: StreamSummary.nullable(),
  stderr: StreamSummary.nullable(),
  connections: z.array(Connection).max(1_000),
  executor: z.string().max(64),
  sandbox_enforcement: z.string().max(64),
  /**
   * Whether a cgroup limited memory and processes of the whole call. Absent if nothing was started,
   * and in older statements.
   */
  cgroup: z.boolean().optional(),
  /** Digests of the sandbox profile and of the exact command line that was spawned. */
  profile_sha256: Sha256.nullable(),
  argv_sha256: Sha256.nullable(),
  /**
   * The effective limits: the minimum of plan, worker and the time left of the grant. Absent if
   * nothing was started.
   */
  limits: z.union([Limits, SkillLimits, UpstreamLimits]).optional(),
  /** For a skill: which code ran, and what it used. */
  skill: SkillUse.optional(),
  /** For a tool of an upstream: the exchange with its server. */
  upstream: UpstreamExchange.optional(),
  /** The output files, if the plan keeps them. */
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
  grant: z
    .strictObject({ sha256: Sha256, worker: Executor, fence: z.int().min(1), deadline_ms: Time })
    .nullable(),
  execution: Execution,
  execution_sha256: Sha256,
})
export type Predicate = z.infer<typeof Predicate>

export const Statement = z.strictObject({
  _type: z.literal('https://in-toto.io/Statement/v1'),
  subject: z.tuple([
    z.strictObject({ name: z.string().regex(PATTERNS.call), digest: z.strictObject({ sha256: Sha256 }) }),
  ]),
  predicateType: z.literal(PREDICATE_TYPE),
  predicate: Predicate,
})
export type Statement = z.infer<typeof Statement>

/** The digest of an execution and its result, which every verifier recomputes. */
export const executionDigest = (digest: string, execution: Execution): string =>
  digestOf({ digest, execution })

export function statementOf(predicate: Omit<Predicate, 'execution_sha256' | 'timed_out'>): Statement {
  const { facts, state } = predicate
  const execution = signable(predicate.execution)
  return {
    _type: 'https://in-toto.io/Statement/v1',
    subject: [{ name: facts.call, digest: { sha256: facts.digest } }],
    predicateType: PREDICATE_TYPE,
    predicate: {
      ...predicate,
      execution,
      timed_out: state === 'timed_out',
      execution_sha256: executionDigest(facts.digest, execution),
    },
  }
}

/**
 * Makes texts of tools, skills and hosts signable; the only place that does. Mask secrets before: a
 * truncated secret is no longer found.
 */
function signable({ outcome, connections, files, ...rest }: Execution): Execution {
  return {
    ...rest,
    outcome:
      outcome !== null && 'detail' in outcome
        ? { ...outcome, detail: toSignableText(outcome.detail, SIGNED_TEXT_CHARS.detail) }
        : outcome,
    connections: connections.map((one) => ({
      ...one,
      host: toSignableText(one.host, SIGNED_TEXT_CHARS.host),
    })),
    ...(files && {
      files: {
        ...files,
        left: files.left.map(({ path, why }) => ({
          path: toSignableText(path, SIGNED_TEXT_CHARS.left),
          why,
        })),
      },
    }),
  }
}

/**
 * Exit codes of `env`, `prlimit` and shells for a program that does not exist or can't be executed.
 */
const NOT_STARTED: readonly number[] = [126, 127]
/** Signals that the kernel sends only when a CPU or file size limit is exceeded. */
const QUOTA_SIGNALS: readonly string[] = ['SIGXCPU', 'SIGXFSZ']

/**
 * The state and error in which an outcome ends a call. `indeterminate` only if an upstream did not
 * answer; the edge also sets it if no outcome was reported.
 */
export function endingOf(outcome: Outcome): {
  state: 'succeeded' | 'failed' | 'timed_out' | 'cancelled' | 'indeterminate'
  error: Code | null
} {
  switch (outcome.kind) {
    case 'exit':
      if (outcome.code === 0) return { state: 'succeeded', error: null }
      return {
        state: 'failed',
        error: NOT_STARTED.includes(outcome.code) ? 'spawn_failed' : 'runtime_failure',
      }
    case 'timeout':
      return { state: 'timed_out', error: 'timed_out' }
    case 'signal':
      return {
        state: 'failed',
        error: QUOTA_SIGNALS.includes(outcome.signal) ? 'quota_exceeded' : 'runtime_failure',
      }
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
    case 'upstream_error':
    case 'upstream_wants_input':
      return { state: 'failed', error: outcome.kind }
    case 'no_answer':
      return { state: 'indeterminate', error: 'no_answer' }
    case 'cancelled':
      return { state: 'cancelled', error: 'cancelled' }
    case 'refused':
      return { state: 'failed', error: outcome.code }
    case 'infra':
      return { state: 'failed', error: 'sandbox_failed' }
  }
}
