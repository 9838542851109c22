// Evidence to verify and to tamper with: keys, an executed call with its approval, and a denied
// call. Keys and times are fixed, so every runtime produces the same bytes. The private keys are
// for tests.

import { digestOf, parseJson, sha256 } from '../../shared/bytes/json.ts'
import { BUNDLE_FORMAT, type Bundle, type CallEvidence } from '../../shared/evidence/bundle.ts'
import { signCheckpoint } from '../../shared/evidence/checkpoint.ts'
import type { Envelope, PrivateJwk, Signer } from '../../shared/evidence/dsse.ts'
import { countersign, kidOf, payloadBytes, seal, signerFromJwk } from '../../shared/evidence/dsse.ts'
import { entryHash, GENESIS, type JournalEntry } from '../../shared/evidence/journal.ts'
import type { Keys } from '../../shared/evidence/keys.ts'
import { append, inclusion, leafHash, type ReadNode, root } from '../../shared/evidence/merkle.ts'
import type { PolicySnapshot } from '../../shared/evidence/policy-snapshot.ts'
import { type PartsRemoval, sealTombstone } from '../../shared/evidence/removal.ts'
import type { Execution, Facts, UpstreamExchange } from '../../shared/evidence/statement.ts'
import {
  callDigest,
  EDGE_EXECUTOR,
  executionDigest,
  GRANT_TYPE,
  Grant,
  ISOLATE,
  STATEMENT_TYPE,
  Statement,
  sealGrant,
  statementOf,
  UPSTREAM_CLIENT,
} from '../../shared/evidence/statement.ts'
import { DEFAULT_LIMITS } from '../../shared/limits.ts'
import type { Plan, SkillPlan, UpstreamPlan } from '../../shared/plan/plan.ts'
import { EXPORT_FORMAT, type ExportLine } from '../../shared/wire/exports.ts'
import type { Changes } from './tamper.ts'
import { withChanges } from './tamper.ts'

const jwk = (x: string, d: string): PrivateJwk => ({ kty: 'OKP', crv: 'Ed25519', x, d })
export const EDGE: Signer = signerFromJwk(
  jwk('iojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1w', 'AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE'),
)
export const WORKER: Signer = signerFromJwk(
  jwk('gTl3Dqh9F19Wo1Rmw0x-zMuNipG07jeiXfYPW4_Js5Q', 'AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI'),
)
export const STRANGER: Signer = signerFromJwk(
  jwk('7UkoxijRwsbq6QM4kFmVYSlZJzpcY_k2NsFGFKyHN9E', 'AwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwM'),
)

const ULID = '01KA5XJ3M0000000000000000A'
export const WORKER_ID = `wrk_${ULID}`
const RUN = `run_${ULID}`
const CALL = `call_${ULID}_7`
export const NOW = 1_763_000_000_000

export const KEYS: Keys = {
  format: 'countersign-keys/v2',
  chain: [],
  tenant: 'default',
  keys: [
    {
      kid: kidOf(EDGE.x),
      kty: 'OKP',
      crv: 'Ed25519',
      x: EDGE.x,
      role: 'edge',
      from_ms: 0,
      until_ms: null,
      status: 'active',
    },
    {
      kid: kidOf(WORKER.x),
      kty: 'OKP',
      crv: 'Ed25519',
      x: WORKER.x,
      role: 'worker',
      worker: WORKER_ID,
      from_ms: 0,
      until_ms: null,
      status: 'active',
    },
  ],
}

const PLAN: Plan = {
  tier: 'C',
  executor: {
    kind: 'process',
    argv: ['wc', '-c'],
    stdin: { arg: 'text' },
    env: { LANG: 'C.UTF-8' },
    cwd: '.',
  },
  egress: { mode: 'strict', hosts: ['api.example.com:443'] },
  profile: 'own',
  secrets: ['token'],
  workspace: 'call',
  limits: { ...DEFAULT_LIMITS },
  cgroup: true,
}
const TOOL = { name: 'text_count', version: 3, digest: sha256('tool') }
const ARGUMENTS = { text: 'four', nested: [{ é: null }] }

const describedCall = (call: string, plan: Plan | null): Bundle['call'] => ({
  tenant: 'default',
  run: RUN,
  call,
  tool: TOOL,
  arguments: ARGUMENTS,
  plan,
})

function factsOf(call: Bundle['call'], rest: Pick<Facts, 'decision' | 'approval' | 'origin'>): Facts {
  const { tenant, run, tool, plan } = call
  return {
    tenant,
    run,
    call: call.call,
    agent: 'dev',
    session: 'session-1',
    tool,
    digest: callDigest({ tenant, run, call: call.call, tool, arguments: ARGUMENTS, plan }),
    args_sha256: digestOf(ARGUMENTS),
    plan_sha256: plan === null ? null : digestOf(plan),
    limits: plan?.limits ?? null,
    egress: plan?.egress ?? null,
    ...rest,
  }
}

const decision = (effect: 'allow' | 'ask' | 'deny', plan: Plan | null) => ({
  effect,
  policies: ['sensitive-needs-approval'],
  policy_set: sha256('policies'),
  snapshot: digestOf(snapshotFor(plan)),
})

/** A snapshot that applies to the call: its agent may use the tool, whose contract allows this plan. */
const snapshotFor = (plan: Plan | null): PolicySnapshot => ({
  format: 'countersign-snapshot/v1',
  policy_set: sha256('policies'),
  allowed_tools: ['text_count'],
  groups: [],
  channels: null,
  budget: { max_calls_per_run: 100, execution_timeout_ms: 60_000, max_denied_per_run: 10 },
  tool: TOOL,
  process_runner:
    plan?.tier === 'C'
      ? {
          tiers: ['B', 'C'],
          workspace: 'call',
          allowed_executables: ['wc'],
          egress_mode: 'strict',
          allowed_hosts: ['.example.com'],
          secrets: ['token'],
          limits: { ...DEFAULT_LIMITS },
        }
      : null,
  wasm_runtime:
    plan?.tier === 'A'
      ? {
          fuel: 2_000_000,
          memory_bytes: 1_048_576,
          table_elements: 10_000,
          instances: 8,
          allowed_hosts: ['api.example.com:443'],
          allowed_secrets: [],
          allowed_prefixes: [],
        }
      : null,
})

type Event = Pick<JournalEntry, 'kind' | 'call' | 'body'> & { readonly at_ms?: number }

/** The journal that fits a statement, from entry `from` on. Between its entries is one of another call. */
function journalFor({ predicate }: Statement, from = 4): JournalEntry[] {
  const { facts, grant, state, error, execution, attestation_id, execution_sha256 } = predicate
  const { tool, digest, args_sha256, origin, approval, call } = facts
  const { policy_set, snapshot } = facts.decision
  const proposal = { tool: tool.name, version: tool.version, digest, args_sha256, ...(origin && { origin }) }
  const end = {
    ...(execution.outcome === null ? {} : { worker: grant?.worker, error }),
    ...(state === 'released' ? { policy_set, snapshot } : {}),
    attestation: attestation_id,
    execution_sha256,
  }
  const of = (kind: string, body: Record<string, unknown>): Event => ({ kind, call, body })
  /** The edge journals an end after it has happened. */
  const at_ms = Math.max(NOW + 200, execution.ended_at_ms)
  const asked = approval && { approval: approval.id, expires_at: NOW + 1_000 }
  const later: Event[] = [
    { kind: 'allowed', call: `call_${ULID}_5`, body: { tool: 'other' } },
    ...(approval?.answers ?? []).map((answer) =>
      of('approved', { approval: approval?.id, scope: approval?.scope, since_ms: 0, reason: '', ...answer }),
    ),
    ...(grant === null
      ? []
      : [
          of('claimed', {
            worker: grant.worker,
            fence: grant.fence,
            deadline_ms: grant.deadline_ms,
            policy_set,
            snapshot,
          }),
        ]),
    ...(execution.outcome?.kind === 'cancelled'
      ? [of('cancel_requested', { by: { kind: 'agent', name: 'dev' } })]
      : []),
    { ...of(state, end), at_ms },
  ]
  const events =
    grant === null && approval === null
      ? [{ ...of(state, { ...proposal, ...end }), at_ms }]
      : [of(approval === null ? 'allowed' : 'approval_requested', { ...asked, ...proposal }), ...later]
  return chained(events, from)
}

/** The entries with their places and hashes. */
export function chained(
  events: readonly Event[],
  from = 1,
  prev = sha256('the entry before'),
): JournalEntry[] {
  const entries: JournalEntry[] = []
  for (const [i, { kind, call, body, at_ms = NOW + 100 + i }] of events.entries()) {
    const entry = { seq: from + i, at_ms, kind, call, body, prev: entries.at(-1)?.hash ?? prev }
    entries.push({ ...entry, hash: entryHash(entry) })
  }
  return entries
}

export const ORIGIN_OF_LOG = 'edge.example/default'

/** A log of seven leaves, of which the fifth is the end of the call, and its head, which `by` signs. */
export function logFor(journal: readonly JournalEntry[], by = EDGE, origin = ORIGIN_OF_LOG): Bundle['log'] {
  const [index, size] = [4, 7]
  const nodes = new Map<string, string>()
  const read: ReadNode = (level, place) => nodes.get(`${level}/${place}`) ?? ''
  for (let at = 0; at < size; at++) {
    const hash = at === index ? (journal.at(-1)?.hash ?? '') : sha256(`leaf ${at}`)
    for (const node of append(at, leafHash(Buffer.from(hash, 'hex')), read))
      nodes.set(`${node.level}/${node.index}`, node.hash)
  }
  const checkpoint = signCheckpoint({ origin, size, root: root(size, read) }, by)
  return { index, proof: inclusion(index, size, read), checkpoint }
}

/** The bundle of an edge whose journal and log fit what the statement says, even if that is a lie. */
function complete(evidence: CallEvidence): Bundle {
  const journal = journalFor(statementIn(evidence))
  const snapshot = snapshotFor(evidence.call.plan)
  return { format: BUNDLE_FORMAT, ...evidence, snapshot, journal, log: logFor(journal) }
}
const stream = (text: string) => ({
  bytes: text.length,
  sha256: sha256(text),
  kept: text.length,
  truncated: false,
})

const EXECUTION: Execution = {
  outcome: { kind: 'exit', code: 0 },
  stdout: stream('4\n'),
  stderr: stream(''),
  connections: [
    {
      host: 'api.example.com',
      port: 443,
      address: '192.0.2.1',
      bytes_out: 10,
      bytes_in: 20,
      verdict: 'allowed',
    },
  ],
  executor: 'sandbox_tier_c_linux_bubblewrap',
  sandbox_enforcement: 'strict',
  cgroup: true,
  profile_sha256: sha256('profile'),
  argv_sha256: sha256('argv'),
  limits: PLAN.limits,
  started_at_ms: NOW + 10,
  ended_at_ms: NOW + 20,
}

const approvalOf = (n: number) => ({
  id: `apr_${ULID}_${n}`,
  scope: 'once' as const,
  answers: [{ by: 'root', decision: 'approve' as const, channel: 'link', at_ms: NOW }],
})
const ORIGIN = {
  reason: 'the customer asked for it',
  actor: {
    issuer: 'https://id.example.com',
    subject: 'repo:acme/app',
    client: 'deploys',
    acting: 'runner-7',
    jti_sha256: sha256('jti'),
  },
  via: { protocol: 'mcp' as const, revision: '2026-07-28', client: 'example-client' },
}

/** A call that policy asked about, an operator approved, and a worker ran. */
export function executedBundle(): Bundle {
  const call = describedCall(CALL, PLAN)
  const facts = factsOf(call, { decision: decision('ask', PLAN), approval: approvalOf(7), origin: ORIGIN })
  const proven = { cgroups: true, profile_sha256: sha256('profile') }
  const grant: Grant = {
    facts,
    worker: WORKER_ID,
    fence: 1,
    issued_at_ms: NOW,
    deadline_ms: NOW + 40_000,
    proven,
  }
  const { worker, fence, deadline_ms } = grant
  const named = { sha256: digestOf(grant), worker, fence, deadline_ms }
  const statement = statementOf({
    attestation_id: `att_${ULID}_7`,
    state: 'succeeded',
    error: null,
    facts,
    grant: named,
    execution: EXECUTION,
  })
  return complete({
    envelope: countersign(seal(STATEMENT_TYPE, statement, WORKER), EDGE),
    grant: sealGrant(grant, EDGE),
    call,
  })
}

/** A call that policy denied: nothing ran, and only the edge signed. */
export function deniedBundle(): Bundle {
  const call = describedCall(`call_${ULID}_8`, null)
  const facts = factsOf(call, { decision: decision('deny', null), approval: null })
  const execution: Execution = {
    executor: EDGE_EXECUTOR,
    sandbox_enforcement: 'policy',
    outcome: null,
    started_at_ms: null,
    ended_at_ms: NOW,
    stdout: null,
    stderr: null,
    profile_sha256: null,
    argv_sha256: null,
    connections: [],
  }
  const statement = statementOf({
    attestation_id: `att_${ULID}_8`,
    state: 'denied',
    error: 'denied',
    facts,
    grant: null,
    execution,
  })
  return complete({ envelope: seal(STATEMENT_TYPE, statement, EDGE), grant: null, call })
}

export const UPSTREAM_PLAN: UpstreamPlan = {
  tier: 'M',
  executor: {
    kind: 'upstream',
    upstream: 'docs',
    url: 'https://mcp.example.com/mcp',
    tool: 'search',
    definition: sha256('definition'),
  },
  egress: { mode: 'strict', hosts: ['mcp.example.com:443'] },
  secrets: [],
  limits: { timeout_ms: 1_000, output_bytes: 1_000, net_bytes: 1_000, net_connections: 2 },
}
export const EXCHANGE: UpstreamExchange = {
  name: 'docs',
  origin: 'https://mcp.example.com',
  era: 'modern',
  definition_sha256: sha256('definition'),
  request_sha256: sha256('request'),
  response_sha256: sha256('response'),
}

type Described = Pick<
  Execution,
  'connections' | 'executor' | 'sandbox_enforcement' | 'limits' | 'skill' | 'upstream'
>
/** A call that an operator approved: the edge executed it and alone signed. */
function bundleOfEdge(n: number, plan: Plan, described: Described): Bundle {
  const call = describedCall(`call_${ULID}_${n}`, plan)
  const facts = factsOf(call, { decision: decision('ask', plan), approval: approvalOf(n), origin: ORIGIN })
  const grant: Grant = {
    facts,
    worker: EDGE_EXECUTOR,
    fence: 1,
    issued_at_ms: NOW,
    deadline_ms: NOW + 11_000,
  }
  const { worker, fence, deadline_ms } = grant
  const execution: Execution = {
    outcome: { kind: 'returned' },
    stdout: stream('"found"'),
    stderr: stream(''),
    profile_sha256: null,
    argv_sha256: null,
    ...described,
    started_at_ms: NOW,
    ended_at_ms: NOW + 20,
  }
  const statement = statementOf({
    attestation_id: `att_${ULID}_${n}`,
    state: 'succeeded',
    error: null,
    facts,
    grant: { sha256: digestOf(grant), worker, fence, deadline_ms },
    execution,
  })
  return complete({ envelope: seal(STATEMENT_TYPE, statement, EDGE), grant: sealGrant(grant, EDGE), call })
}

const reached = (host: string): Execution['connections'] => [
  { host, port: 443, address: '', bytes_out: 10, bytes_in: 20, verdict: 'allowed' },
]

/** A call of an upstream's tool. */
export const upstreamBundle = (): Bundle =>
  bundleOfEdge(9, UPSTREAM_PLAN, {
    connections: reached('mcp.example.com'),
    executor: UPSTREAM_CLIENT,
    sandbox_enforcement: 'remote',
    limits: UPSTREAM_PLAN.limits,
    upstream: EXCHANGE,
  })

export const SKILL_PLAN: SkillPlan = {
  tier: 'A',
  executor: {
    kind: 'skill',
    skill: 'lookup',
    version: '1.0.0',
    digest: sha256('skill'),
    tool: 'find',
    capabilities: ['log', 'http'],
    methods: ['GET'],
  },
  egress: { mode: 'strict', hosts: ['api.example.com:443'] },
  secrets: [],
  limits: {
    timeout_ms: 1_000,
    fuel: 2_000_000,
    memory_bytes: 1_048_576,
    output_bytes: 1_000,
    net_bytes: 1_000,
    net_connections: 2,
  },
}

/** A call of a skill's tool, which asked one host. */
export const skillBundle = (): Bundle =>
  bundleOfEdge(6, SKILL_PLAN, {
    connections: reached('api.example.com'),
    executor: ISOLATE,
    sandbox_enforcement: 'isolate',
    limits: SKILL_PLAN.limits,
    skill: {
      digest: SKILL_PLAN.executor.digest,
      component_sha256: sha256('component'),
      modules: [{ name: 'component.js', sha256: sha256('glue') }],
      fuel_used: 8_000,
      memory_bytes: 131_072,
      host_calls: { 'log.write': 1, 'http.request': 1, 'http.response': 1 },
    },
  })

function opened(envelope: Envelope): unknown {
  const parsed = parseJson(payloadBytes(envelope))
  if (!parsed.ok) throw new Error(parsed.error.detail)
  return parsed.value
}

export const grantIn = ({ grant }: Bundle): Grant | null =>
  grant === null ? null : Grant.parse(opened(grant))
export const statementIn = ({ envelope }: Pick<Bundle, 'envelope'>): Statement =>
  Statement.parse(opened(envelope))

/** The bundle of a dishonest edge and worker: a changed statement or call, signed by both. */
export function collude(bundle: Bundle, changes: Changes, by: readonly Signer[] = [WORKER, EDGE]): Bundle {
  const { statement, call } = withChanges({ statement: statementIn(bundle), call: bundle.call }, changes)
  const [first = EDGE, ...others] = by
  const envelope = others.reduce(countersign, seal(STATEMENT_TYPE, statement, first))
  const read = Statement.safeParse(statement)
  if (!read.success) return { ...bundle, call, envelope }
  const journal = journalFor(read.data)
  return { ...bundle, call, envelope, journal, log: logFor(journal) }
}

/** Changes that replace the execution, with a matching digest. */
export function reexecuted(bundle: Bundle, changes: Changes): Changes {
  const { facts, execution } = statementIn(bundle).predicate
  const other = withChanges(execution, changes)
  return {
    'statement.predicate.execution': other,
    'statement.predicate.execution_sha256': executionDigest(facts.digest, other),
  }
}

/** The bundle with a changed grant, signed by `by` and named by the statement. */
export function regrant(bundle: Bundle, changes: Changes, by: Signer = EDGE): Bundle {
  if (bundle.grant === null) throw new Error('nothing was granted')
  const grant = withChanges(opened(bundle.grant), changes)
  return {
    ...collude(bundle, { 'statement.predicate.grant.sha256': digestOf(grant) }),
    grant: seal(GRANT_TYPE, grant, by),
  }
}

export const REMOVAL = { at_ms: NOW + 1_000, rule: 3, days: 30 }
/** The tombstone of parts of the bundle's call. `changes`: what it says instead. */
export function tombstoneOf(
  bundle: Bundle,
  removed: PartsRemoval = { arguments: REMOVAL },
  by: Signer = EDGE,
  changes: object = {},
): Envelope {
  const { tenant, call, digest } = statementIn(bundle).predicate.facts
  return sealTombstone({ of: 'parts', tenant, call, digest, removed, ...changes }, by)
}
/** The bundle after its arguments and its plan were removed. */
export const withoutArguments = (bundle: Bundle): Bundle => ({
  ...bundle,
  call: { ...bundle.call, arguments: null, plan: null },
  removed: tombstoneOf(bundle),
})

/** An exported run. `journal`: its head. */
export const runLine = (journal: { readonly seq: number; readonly head: string }) =>
  ({
    kind: 'run',
    run: {
      id: RUN,
      agent: 'dev',
      session: 's',
      channel: null,
      device: null,
      budget: { max_calls_per_run: 10, execution_timeout_ms: 1, max_denied_per_run: 1 },
      state: 'open',
      used: { calls: 1, denied: 1 },
      created_at_ms: 1,
      journal,
    },
  }) as const

/** An exported run whose journal has the entries of the bundle, and the call. */
export function exportedRun(bundle: Bundle, output = '4\n', snapshot = bundle.snapshot): ExportLine[] {
  const { envelope, grant, call, removed } = bundle
  const journal = chained(bundle.journal, 1, GENESIS.hash)
  const evidence = { envelope, grant, call, ...(removed === undefined ? {} : { removed }) }
  const { state } = statementIn(bundle).predicate
  const stdout = Buffer.from(output).toString('base64')
  return [
    runLine({ seq: journal.length, head: journal.at(-1)?.hash ?? '' }),
    ...journal.map((entry) => ({ kind: 'entry', run: RUN, entry }) as const),
    { kind: 'snapshot', snapshot },
    { kind: 'call', call: call.call, state, evidence, output: { stdout, stderr: '' } },
  ]
}

/** The text of an exported file. */
export function exportFile(
  object: string,
  lines: readonly ExportLine[],
  from = '0.0.0',
  next: string | null = null,
): string {
  const part: ExportLine = { kind: 'part', format: EXPORT_FORMAT, tenant: 'default', object, from }
  return [part, ...lines, { kind: 'end', next }].map((one) => `${JSON.stringify(one)}\n`).join('')
}
