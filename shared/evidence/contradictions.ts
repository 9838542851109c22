// Compares a statement with the grant and the plan that it names. The edge does this before it
// countersigns, and every verifier does it later. Pure. A table has a rule for each field; a field
// without a rule doesn't compile.
//
// Nobody can check what only the executor knows (docs/threat-model.md, "Evidence"): how a program
// ended, what it wrote, the addresses of its connections, their bytes within the limit, those that it
// leaves out, the digest of its command line, and times within the grant's.

import { canonical, digestOf } from '../bytes/json.ts'
import { approvalId, attestationId, splitId } from '../ids.ts'
import { LIMITS } from '../limits.ts'
import type { Outcome, Plan } from '../plan/plan.ts'
import { isEdgePlan, mcpRequestOf } from '../plan/plan.ts'
import { below, type Context, type Contradiction, isAtEdge, WITHOUT_SANDBOX } from './checks.ts'
import { connectionFaults } from './connection-rules.ts'
import type { CallState, Execution, Grant, Predicate, Statement } from './statement.ts'
import {
  EDGE_EXECUTOR,
  endingOf,
  executionDigest,
  ISOLATE,
  SANDBOXES,
  STDIO_ORIGIN,
  UNSTARTED,
  UPSTREAM_CLIENT,
} from './statement.ts'
import { NOTHING, outcomeFaults, streamFaults, usageFaults } from './usage-rules.ts'

/**
 * `now_ms`: the edge's clock when the end is reported; an auditor reads it in the journal, if there is
 * one.
 */
export type Evidence = {
  readonly grant: Grant | null
  readonly plan: Plan | null
  readonly now_ms?: number | undefined
}

export const contradictions = (statement: Statement, against: Evidence): Contradiction[] => [
  ...compared(statement, against),
]

function* compared(
  { subject: [subject], predicate }: Statement,
  { grant, plan, now_ms }: Evidence,
): Generator<Contradiction> {
  const { facts, execution } = predicate
  if (subject.name !== facts.call) yield { at: '/subject/0/name', what: 'subject' }
  if (subject.digest.sha256 !== facts.digest) yield { at: '/subject/0/digest/sha256', what: 'subject' }
  for (const rule of Object.values(PREDICATE)) yield* below('/predicate', rule(predicate, { grant, plan }))
  const { executor, outcome, argv_sha256 } = execution
  const who = WITHOUT_SANDBOX.find((name) => name === executor) ?? 'sandbox'
  const ran = isAtEdge(who) || (who === 'sandbox' && argv_sha256 !== null && argv_sha256 !== NOTHING)
  const unended = outcome !== null && MAYBE_UNBEGUN.includes(outcome.kind)
  for (const rule of Object.values(EXECUTION))
    yield* below('/predicate/execution', rule(execution, { grant, plan, now_ms, who, ran, unended }))
}

/** Outcomes of which it is unknown whether anything was started. */
const MAYBE_UNBEGUN: readonly string[] = ['refused', 'infra', 'cancelled'] satisfies Outcome['kind'][]
/** States that a call reaches without an executor. */
const UNRUN: ReadonlySet<CallState> = new Set([
  'denied',
  'rejected',
  'expired',
  'cancelled',
  'lapsed',
  'released',
])
const ENDS_OF_SKILLS: readonly string[] = [
  'returned',
  'skill_error',
  'trap',
  'fuel_exhausted',
  'capability_denied',
] satisfies Outcome['kind'][]
const ENDS_OF_UPSTREAMS: readonly string[] = [
  'returned',
  'upstream_error',
  'upstream_wants_input',
  'no_answer',
] satisfies Outcome['kind'][]
const ENDS_OF_PROCESSES: readonly string[] = [
  'exit',
  'signal',
  'memory_cap',
  'cpu_cap',
  'workspace_cap',
] satisfies Outcome['kind'][]
/** The endings that calls of a tier can have, in addition to those that every call can have. */
const ENDS: Readonly<Record<Plan['tier'], readonly string[]>> = {
  A: ENDS_OF_SKILLS,
  B: ENDS_OF_PROCESSES,
  C: ENDS_OF_PROCESSES,
  M: ENDS_OF_UPSTREAMS,
}
/** A worker speaks with an MCP server in tier C like the edge with a remote one. */
const endsOf = (plan: Plan | null): readonly string[] =>
  mcpRequestOf(plan) === undefined ? ENDS[plan?.tier ?? 'C'] : ENDS_OF_UPSTREAMS
const ENDS_OF_SOME: ReadonlySet<string> = new Set(Object.values(ENDS).flat())

type Rules<T, Context, Fields extends keyof T = keyof T> = {
  readonly [Field in keyof Required<Pick<T, Fields>>]: (value: T, context: Context) => Iterable<Contradiction>
}

const PREDICATE: Rules<Predicate, Pick<Context, 'grant' | 'plan'>, Exclude<keyof Predicate, 'execution'>> = {
  *attestation_id({ attestation_id, facts }) {
    if (attestation_id !== attestationId(facts.run, splitId(facts.call).n))
      yield { at: '/attestation_id', what: 'id' }
  },
  *state({ state, execution: { outcome } }, { grant, plan }) {
    // Countersign itself executes a call with a plan, so it never releases one to the agent.
    if (state === 'released' && plan !== null) yield { at: '/state', what: 'ending' }
    const fits =
      outcome === null
        ? UNRUN.has(state)
          ? grant === null
          : state === 'indeterminate'
        : endingOf(outcome).state === state
    if (!fits) yield { at: '/state', what: 'ending' }
  },
  *error({ error, execution: { outcome } }) {
    if (outcome !== null && endingOf(outcome).error !== error) yield { at: '/error', what: 'ending' }
  },
  *timed_out({ timed_out, state }) {
    if (timed_out !== (state === 'timed_out')) yield { at: '/timed_out', what: 'ending' }
  },
  *facts({ facts }, { grant }) {
    if (grant !== null) yield* differing(facts, grant.facts, '/facts')
    const { approval, call, run } = facts
    if (splitId(call).run !== run) yield { at: '/facts/call', what: 'facts' }
    if (approval !== null && approval.id !== approvalId(run, splitId(call).n))
      yield { at: '/facts/approval/id', what: 'facts' }
  },
  *grant({ grant: named }, { grant, plan }) {
    if ((named === null) !== (grant === null)) yield { at: '/grant', what: 'grant' }
    if (named === null || grant === null) return
    if (named.sha256 !== digestOf(grant)) yield { at: '/grant/sha256', what: 'grant' }
    if (named.worker !== grant.worker) yield { at: '/grant/worker', what: 'grant' }
    if (named.fence !== grant.fence) yield { at: '/grant/fence', what: 'grant' }
    if (named.deadline_ms !== grant.deadline_ms) yield { at: '/grant/deadline_ms', what: 'grant' }
    if ((named.worker === EDGE_EXECUTOR) !== (plan !== null && isEdgePlan(plan)))
      yield { at: '/grant/worker', what: 'tier' }
  },
  *execution_sha256({ execution_sha256, facts, execution }) {
    if (execution_sha256 !== executionDigest(facts.digest, execution))
      yield { at: '/execution_sha256', what: 'digest' }
  },
}

/** The innermost fields in which two values of the same shape differ. */
function* differing(one: unknown, other: unknown, at: string): Generator<Contradiction> {
  if (canonical(one) === canonical(other)) return
  const [a, b] = [membersOf(one), membersOf(other)]
  if (a === undefined || b === undefined) return yield { at, what: 'facts' }
  for (const key of new Set([...Object.keys(a), ...Object.keys(b)])) {
    if (!(key in a) || !(key in b)) yield { at: `${at}/${key}`, what: 'facts' }
    else yield* differing(a[key], b[key], `${at}/${key}`)
  }
}
const membersOf = (value: unknown): Record<string, unknown> | undefined =>
  typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined // a list becomes its indices

const EXECUTION: Rules<Execution, Context> = {
  *outcome(execution, known) {
    yield* outcomeFaults(execution, known)
    const { outcome } = execution
    const { who, plan, ran, unended } = known
    const at = '/outcome'
    if ((outcome === null) !== (who === EDGE_EXECUTOR)) yield { at, what: 'ending' } // only an executor sees an outcome
    if (outcome === null) return
    const own = endsOf(plan)
    if (ENDS_OF_SOME.has(outcome.kind) && !own.includes(outcome.kind)) yield { at, what: 'tier' }
    // A skill returns JSON, even if its tool declares no schema.
    if (outcome.kind === 'invalid_output' && plan?.tier !== 'A' && plan?.executor.output === undefined)
      yield { at, what: 'output' }
    if (!ran && !unended) yield { at, what: 'started' }
  },
  stdout: ({ stdout, limits }, known) => streamFaults('/stdout', stdout, limits, known),
  stderr: ({ stderr, limits }, known) => streamFaults('/stderr', stderr, limits, known),
  connections: (execution, known) => below('/connections', connectionFaults(execution, known)),
  *executor({ executor }, { who, plan, unended }) {
    const process = plan !== null && !isEdgePlan(plan)
    const expected = {
      [EDGE_EXECUTOR]: true,
      [ISOLATE]: plan?.tier === 'A',
      [UPSTREAM_CLIENT]: plan?.tier === 'M',
      [UNSTARTED]: process && unended,
      sandbox: process,
    }[who]
    const named = who !== 'sandbox' || plan === null || isEdgePlan(plan) || executor === SANDBOXES[plan.tier]
    if (!expected || !named) yield { at: '/executor', what: 'tier' }
  },
  *sandbox_enforcement({ sandbox_enforcement }, { who, plan }) {
    const expected = {
      [EDGE_EXECUTOR]: 'policy',
      [ISOLATE]: 'isolate',
      [UPSTREAM_CLIENT]: 'remote',
      [UNSTARTED]: 'none',
      sandbox: plan?.egress.mode,
    }[who]
    if (sandbox_enforcement !== expected) yield { at: '/sandbox_enforcement', what: 'tier' }
  },
  *cgroup({ cgroup }, { who, plan, grant, ran }) {
    const at = '/cgroup'
    if (cgroup !== undefined && !(ran && who === 'sandbox')) yield { at, what: 'started' }
    if (cgroup === true && grant?.proven?.cgroups === false) yield { at, what: 'counted' }
    if (ran && plan !== null && !isEdgePlan(plan) && plan.cgroup === true && cgroup !== true)
      yield { at, what: 'counted' }
  },
  *profile_sha256({ profile_sha256 }, { who, ran, grant }) {
    const at = '/profile_sha256'
    if (!fitsStart(profile_sha256, who, ran)) yield { at, what: 'started' }
    const proven = grant?.proven?.profile_sha256
    if (ran && proven !== undefined && profile_sha256 !== proven) yield { at, what: 'tier' }
  },
  *argv_sha256({ argv_sha256 }, { who, ran }) {
    if (!fitsStart(argv_sha256, who, ran)) yield { at: '/argv_sha256', what: 'started' }
  },
  *limits({ limits }, { who, plan, grant }) {
    const at = '/limits'
    const started = who === 'sandbox' || isAtEdge(who)
    if ((limits !== undefined) !== started) return yield { at, what: 'started' }
    if (limits === undefined || plan === null) return
    const [stated, planned] = [limits, plan.limits].map((all) => new Map(Object.entries(all)))
    for (const name of new Set([...(planned?.keys() ?? []), ...(stated?.keys() ?? [])])) {
      const [one, most] = [stated?.get(name), planned?.get(name)]
      const lower = most === undefined || (one !== undefined && one <= most) // a worker may lower them
      if (isAtEdge(who) ? one !== most : !lower) yield { at: `${at}/${name}`, what: 'limits' }
    }
    if (grant !== null && limits.timeout_ms > grant.deadline_ms - grant.issued_at_ms)
      yield { at: `${at}/timeout_ms`, what: 'times' }
  },
  *skill({ skill }, { who, plan }) {
    if ((skill !== undefined) !== (who === ISOLATE)) yield { at: '/skill', what: 'tier' }
    if (skill === undefined || plan?.tier !== 'A') return
    if (skill.digest !== plan.executor.digest) yield { at: '/skill/digest', what: 'tier' }
    yield* below('/skill', usageFaults(skill, plan))
  },
  *upstream({ upstream, outcome, connections }, { who, plan }) {
    const at = '/upstream'
    const request = mcpRequestOf(plan)
    const onWorker = who === 'sandbox' && request?.method === 'tools/call'
    if ((upstream !== undefined) !== (who === UPSTREAM_CLIENT || onWorker)) yield { at, what: 'exchange' }
    if (upstream === undefined) return
    if (request?.method === 'tools/call') {
      if (upstream.name !== request.upstream) yield { at: `${at}/name`, what: 'exchange' }
      if (upstream.origin !== STDIO_ORIGIN) yield { at: `${at}/origin`, what: 'exchange' }
      if (upstream.definition_sha256 !== request.definition)
        yield { at: `${at}/definition_sha256`, what: 'exchange' }
    }
    if (plan?.tier === 'M') {
      const { executor } = plan
      if (upstream.name !== executor.upstream) yield { at: `${at}/name`, what: 'exchange' }
      if (upstream.origin !== originOf(executor.url)) yield { at: `${at}/origin`, what: 'exchange' }
      if (upstream.definition_sha256 !== executor.definition)
        yield { at: `${at}/definition_sha256`, what: 'exchange' }
      const reached = connections.some(({ bytes_out }) => bytes_out > 0)
      if (upstream.request_sha256 !== null && !reached) yield { at: `${at}/request_sha256`, what: 'exchange' }
    }
    const { era, request_sha256: sent, response_sha256: answered } = upstream
    const kind = outcome?.kind ?? ''
    if ((sent === null) !== (era === null)) yield { at: `${at}/era`, what: 'exchange' }
    if (sent === null && (answered !== null || !UNSENT.includes(kind)))
      yield { at: `${at}/request_sha256`, what: 'exchange' }
    if (answered === null ? ANSWERED.includes(kind) : kind === 'no_answer')
      yield { at: `${at}/response_sha256`, what: 'exchange' }
  },
  *files({ files }, { plan, ran }) {
    if (files !== undefined && !(ran && plan !== null && !isEdgePlan(plan) && plan.outputs === true))
      yield { at: '/files', what: 'output' }
  },
  *started_at_ms({ started_at_ms, ended_at_ms }, { who, grant }) {
    const at = '/started_at_ms'
    if ((started_at_ms === null) !== (who === EDGE_EXECUTOR || who === UNSTARTED))
      yield { at, what: 'started' }
    if (started_at_ms === null) return
    if (started_at_ms > ended_at_ms) yield { at, what: 'times' }
    if (grant === null) return
    if (started_at_ms < grant.issued_at_ms - LIMITS.clock_slack_ms) yield { at, what: 'times' }
    if (isAtEdge(who) && started_at_ms !== grant.issued_at_ms) yield { at, what: 'times' } // one clock, one reading
  },
  *ended_at_ms({ ended_at_ms, started_at_ms, limits }, { who, grant, now_ms = Number.POSITIVE_INFINITY }) {
    if (grant === null) return
    // A worker has this long to set a call up, and to end and collect it after its time.
    const longest = (limits?.timeout_ms ?? 0) + LIMITS.settle_grace_ms + LIMITS.clock_slack_ms
    if (who === 'sandbox' && started_at_ms !== null && ended_at_ms - started_at_ms > longest)
      yield { at: '/ended_at_ms', what: 'times' }
    // The edge uses its own clock for a call that it ends itself, which may be after the deadline.
    const latest =
      who === EDGE_EXECUTOR || isAtEdge(who) ? Number.POSITIVE_INFINITY : Math.min(grant.deadline_ms, now_ms)
    const early = ended_at_ms < grant.issued_at_ms - LIMITS.clock_slack_ms
    if (early || ended_at_ms > latest + LIMITS.clock_slack_ms) yield { at: '/ended_at_ms', what: 'times' }
  },
}

/** Outcomes without a request to the upstream's tool, and outcomes that its answer decided. */
const UNSENT: readonly string[] = ['refused', 'cancelled', 'infra'] satisfies Outcome['kind'][]
const ANSWERED: readonly string[] = ['returned', 'invalid_output'] satisfies Outcome['kind'][]
const originOf = (url: string): string => (URL.canParse(url) ? new URL(url).origin : '')

/**
 * A sandbox states its digests; for a sandbox that was prepared but not started, they are the
 * digest of nothing.
 */
const fitsStart = (digest: string | null, who: Context['who'], ran: boolean): boolean =>
  who === 'sandbox' ? digest !== null && (digest === NOTHING) === !ran : digest === null
