// Every route, declared once: method, path, who may call it, which Cedar action it is, what goes in and what comes out.
// The edge's router, the typed client, /openapi.json and /docs are all read from this table.

import { z } from 'zod'
import type { Code } from './failures.ts'
import { LIMITS } from './limits.ts'
import { Bundle, CallState, Keys } from './statement.ts'
import * as wire from './wire.ts'

/** agent, operator: by API key. worker: by signature. link: by the token in the path. anyone: open. */
export type Caller = 'agent' | 'operator' | 'worker' | 'anyone'

export type Route = {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  readonly path: string
  readonly callers: readonly Caller[]
  /** The Cedar action; `null` only where the caller is anyone, or where the decision is the route's own work. */
  readonly action: string | null
  readonly summary: string
  readonly params?: z.ZodObject
  readonly query?: z.ZodObject
  readonly body?: z.ZodType
  readonly status: number
  readonly result: z.ZodType
  readonly failures: readonly Code[]
}

const routes = <const T extends Record<string, Route>>(table: T): T => table

const run = z.strictObject({ run: wire.RunId })
const call = z.strictObject({ run: wire.RunId, call: wire.CallId })
const named = z.strictObject({ name: wire.Name })
const list = <T extends z.ZodType>(item: T) => z.strictObject({ items: z.array(item) })
const number = (max: number) => z.coerce.number().int().min(0).max(max)
const Done = z.strictObject({ done: z.literal(true) })

const PROPOSE: readonly Code[] = ['invalid_arguments', 'idempotency_key_reused', 'run_cancelled', 'too_many_pending']

export const ROUTES = routes({
  // ── Agents ──
  createRun: {
    method: 'POST', path: '/v1/runs', callers: ['agent'], action: 'run.create', summary: 'Make a run: one task, one budget',
    body: wire.RunSpec, status: 201, result: wire.Run, failures: ['idempotency_key_reused'],
  },
  proposeCall: {
    method: 'POST', path: '/v1/runs/{run}/calls', callers: ['agent'], action: null, params: run,
    summary: 'Propose a call; answers at once, or after `Prefer: wait=N` seconds at most',
    body: wire.ProposedCall, status: 200, result: wire.Call, failures: ['not_found', ...PROPOSE],
  },
  proposeCallInNewRun: {
    method: 'POST', path: '/v1/calls', callers: ['agent'], action: null, summary: 'Propose a call in a run of its own',
    body: wire.ProposedCallInNewRun, status: 200, result: wire.Call, failures: PROPOSE,
  },
  readRun: {
    method: 'GET', path: '/v1/runs/{run}', callers: ['agent', 'operator'], action: 'run.read', params: run,
    summary: 'Read a run', status: 200, result: wire.Run, failures: ['not_found'],
  },
  cancelRun: {
    method: 'POST', path: '/v1/runs/{run}/cancel', callers: ['agent', 'operator'], action: 'run.cancel', params: run,
    summary: 'Cancel a run and every call of it that has not ended', status: 200, result: wire.Run, failures: ['not_found'],
  },
  readCall: {
    method: 'GET', path: '/v1/runs/{run}/calls/{call}', callers: ['agent', 'operator'], action: 'run.read', params: call,
    summary: 'Read a call; `Prefer: wait=N` waits for its end', status: 200, result: wire.Call, failures: ['not_found'],
  },
  readAttestation: {
    method: 'GET', path: '/v1/runs/{run}/calls/{call}/attestation', callers: ['agent', 'operator'], action: 'run.read', params: call,
    summary: 'The attestation of an ended call, with what it takes to verify it offline', status: 200, result: Bundle, failures: ['not_found'],
  },
  cancelCall: {
    method: 'POST', path: '/v1/runs/{run}/calls/{call}/cancel', callers: ['agent', 'operator'], action: 'run.cancel', params: call,
    summary: 'Cancel a call; a running process is killed', status: 200, result: wire.Call, failures: ['not_found', 'already_ended'],
  },
  readJournal: {
    method: 'GET', path: '/v1/runs/{run}/journal', callers: ['agent', 'operator'], action: 'run.read', params: run,
    query: z.strictObject({ after: number(1e9).default(0) }), summary: 'The hash-chained events of a run, a page at a time',
    status: 200, result: list(wire.JournalEntry), failures: ['not_found'],
  },
  listTools: {
    method: 'GET', path: '/v1/tools', callers: ['agent', 'operator'], action: 'tool.list', summary: 'The tools that the caller may see',
    status: 200, result: list(wire.ToolSummary), failures: [],
  },
  decide: {
    method: 'POST', path: '/v1/decisions', callers: ['agent'], action: 'decision.try', summary: 'What would be decided; no effect',
    body: wire.ProposedCallInNewRun, status: 200, result: wire.DryRun, failures: ['invalid_arguments'],
  },

  // ── Operators ──
  listApprovals: {
    method: 'GET', path: '/v1/approvals', callers: ['operator'], action: 'approval.list', summary: 'Approvals, newest first',
    query: z.strictObject({ status: z.enum(['pending', 'ended', 'all']).default('pending') }),
    status: 200, result: list(wire.Approval), failures: [],
  },
  readApproval: {
    method: 'GET', path: '/v1/approvals/{id}', callers: ['operator'], action: 'approval.list', params: z.strictObject({ id: wire.ApprovalId }),
    summary: 'One approval', status: 200, result: wire.Approval, failures: ['not_found'],
  },
  answerApproval: {
    method: 'POST', path: '/v1/approvals/{id}/decision', callers: ['operator'], action: 'approval.decide', params: z.strictObject({ id: wire.ApprovalId }),
    summary: 'Approve or deny', body: wire.Answer, status: 200, result: wire.Approval,
    failures: ['not_found', 'already_answered', 'approval_expired', 'approver_is_requester'],
  },
  listCalls: {
    method: 'GET', path: '/v1/calls', callers: ['operator'], action: 'run.read', summary: 'Ended calls of the tenant in the order of the log; `Prefer: wait=N` waits for the next',
    query: z.strictObject({ after: number(1e9).default(0), last: number(LIMITS.page).optional() }), status: 200,
    result: list(z.strictObject({ seq: z.int(), call: wire.CallId, agent: z.string(), tool: z.string(), state: CallState, at_ms: z.int(), took_ms: z.int() })),
    failures: [],
  },
  putTool: {
    method: 'PUT', path: '/v1/tools/{name}', callers: ['operator'], action: 'tool.write', params: z.strictObject({ name: wire.ToolName }),
    summary: 'Register a tool; every change is a new version', body: wire.ToolSpec, status: 200, result: wire.Tool, failures: ['invalid_schema', 'limit_reached'],
  },
  readTool: {
    method: 'GET', path: '/v1/tools/{name}', callers: ['operator'], action: 'tool.list', params: z.strictObject({ name: wire.ToolName }),
    summary: 'A tool as registered', status: 200, result: wire.Tool, failures: ['not_found'],
  },
  deleteTool: {
    method: 'DELETE', path: '/v1/tools/{name}', callers: ['operator'], action: 'tool.write', params: z.strictObject({ name: wire.ToolName }),
    summary: 'Withdraw a tool; its versions stay on record', status: 200, result: Done, failures: ['not_found'],
  },
  putAgent: {
    method: 'PUT', path: '/v1/agents/{name}', callers: ['operator'], action: 'agent.write', params: named,
    summary: 'Make or change an agent; a new one’s key is in the answer, once', body: wire.AgentSpec, status: 200, result: wire.WithKey(wire.Agent.shape), failures: ['limit_reached'],
  },
  listAgents: {
    method: 'GET', path: '/v1/agents', callers: ['operator'], action: 'agent.read', summary: 'Agents', status: 200, result: list(wire.Agent), failures: [],
  },
  rotateAgentKey: {
    method: 'POST', path: '/v1/agents/{name}/key', callers: ['operator'], action: 'agent.write', params: named,
    summary: 'A new key; the old one ends at once', status: 200, result: wire.WithKey(wire.Agent.shape), failures: ['not_found'],
  },
  deleteAgent: {
    method: 'DELETE', path: '/v1/agents/{name}', callers: ['operator'], action: 'agent.write', params: named,
    summary: 'Revoke an agent, at once', status: 200, result: Done, failures: ['not_found'],
  },
  putOperator: {
    method: 'PUT', path: '/v1/operators/{name}', callers: ['operator'], action: 'operator.write', params: named,
    summary: 'Make or change an operator; a new one’s key is in the answer, once', body: wire.OperatorSpec, status: 200, result: wire.WithKey(wire.Operator.shape), failures: ['limit_reached'],
  },
  listOperators: {
    method: 'GET', path: '/v1/operators', callers: ['operator'], action: 'operator.read', summary: 'Operators', status: 200, result: list(wire.Operator), failures: [],
  },
  deleteOperator: {
    method: 'DELETE', path: '/v1/operators/{name}', callers: ['operator'], action: 'operator.write', params: named,
    summary: 'Revoke an operator, at once', status: 200, result: Done, failures: ['not_found', 'conflict'],
  },
  createEnrolment: {
    method: 'POST', path: '/v1/workers/enrolments', callers: ['operator'], action: 'worker.enroll', summary: 'A token that enrols one worker, once, within 15 minutes',
    body: z.strictObject({ pool: wire.Name.default('default') }), status: 201, result: z.strictObject({ token: z.string(), expires_at: z.int() }), failures: [],
  },
  listWorkers: {
    method: 'GET', path: '/v1/workers', callers: ['operator'], action: 'worker.read', summary: 'Workers', status: 200, result: list(wire.Worker), failures: [],
  },
  revokeWorker: {
    method: 'DELETE', path: '/v1/workers/{worker}', callers: ['operator'], action: 'worker.revoke', params: z.strictObject({ worker: wire.WorkerId }),
    summary: 'Revoke a worker, at once; what it runs ends indeterminate', status: 200, result: Done, failures: ['not_found'],
  },
  putPolicies: {
    method: 'PUT', path: '/v1/policies', callers: ['operator'], action: 'policy.write', summary: 'A new version of the tenant’s policy set',
    body: z.strictObject({
      policies: z.record(wire.Name, z.string().max(LIMITS.policy_bytes)),
      note: z.string().max(LIMITS.reason_chars).default(''),
      activate: z.boolean().default(true),
    }),
    status: 200, result: z.strictObject({ version: z.int(), digest: z.string(), active: z.boolean() }), failures: ['invalid_policy', 'limit_reached'],
  },
  readPolicies: {
    method: 'GET', path: '/v1/policies', callers: ['operator'], action: 'policy.read', summary: 'The active policy set',
    status: 200, result: z.strictObject({ version: z.int(), digest: z.string(), policies: z.record(z.string(), z.string()), floor: z.record(z.string(), z.string()) }), failures: [],
  },

  // ── Workers ──
  enroll: {
    method: 'POST', path: '/v1/worker/enroll', callers: ['anyone'], action: null, summary: 'Enrol a worker with a one-time token',
    body: wire.Enrolment, status: 201, result: wire.Enrolled, failures: ['enrolment_invalid'],
  },
  claim: {
    method: 'POST', path: '/v1/worker/claims', callers: ['worker'], action: 'worker.claim', summary: 'Claim a call, once',
    body: wire.ClaimRequest, status: 200, result: wire.Claim, failures: ['not_claimable', 'already_claimed', 'sandbox_unavailable'],
  },
  output: {
    method: 'POST', path: '/v1/worker/calls/{call}/output', callers: ['worker'], action: 'worker.settle', params: z.strictObject({ call: wire.CallId }),
    summary: 'Stream output of a running call', body: wire.OutputChunk, status: 200, result: z.strictObject({ next: z.int(), stop: z.boolean() }), failures: ['stale_fence', 'already_ended'],
  },
  settle: {
    method: 'POST', path: '/v1/worker/attestations', callers: ['worker'], action: 'worker.settle', summary: 'Settle a call with its attestation',
    body: wire.Settlement, status: 200, result: wire.Settled, failures: ['stale_fence', 'already_ended', 'attestation_invalid'],
  },
  heartbeat: {
    method: 'POST', path: '/v1/worker/heartbeat', callers: ['worker'], action: 'worker.heartbeat', summary: 'Say what is running; hear what to stop',
    body: wire.Heartbeat, status: 200, result: wire.HeartbeatAnswer, failures: [],
  },

  // ── Anyone ──
  keys: {
    method: 'GET', path: '/.well-known/countersign/keys.json', callers: ['anyone'], action: null, summary: 'Public keys for offline verification',
    query: z.strictObject({ tenant: z.string().max(32).default('default') }), status: 200, result: Keys, failures: ['not_found'],
  },
  logCheckpoint: {
    method: 'GET', path: '/v1/log/checkpoint', callers: ['anyone'], action: null, summary: 'The signed head of the tenant’s Merkle log',
    query: z.strictObject({ tenant: z.string().max(32).default('default') }), status: 200,
    result: z.strictObject({ origin: z.string(), size: z.int(), root: z.string(), note: z.string() }), failures: [],
  },
  logProof: {
    method: 'GET', path: '/v1/log/proof', callers: ['anyone'], action: null, summary: 'Inclusion of leaf `index` in the tree of `size` leaves',
    query: z.strictObject({ tenant: z.string().max(32).default('default'), index: number(1e9), size: number(1e9) }), status: 200,
    result: z.strictObject({ leaf: z.string(), proof: z.array(z.string()) }), failures: ['not_found'],
  },
  logEntries: {
    method: 'GET', path: '/v1/log/entries', callers: ['anyone'], action: null, summary: 'Leaf hashes, a page at a time',
    query: z.strictObject({ tenant: z.string().max(32).default('default'), from: number(1e9).default(0) }), status: 200,
    result: list(z.string()), failures: [],
  },
  healthz: {
    method: 'GET', path: '/healthz', callers: ['anyone'], action: null, summary: 'The process answers', status: 200, result: z.strictObject({ ok: z.literal(true) }), failures: [],
  },
  readyz: {
    method: 'GET', path: '/readyz', callers: ['anyone'], action: null, summary: 'The parts it needs answer', status: 200,
    result: z.strictObject({ ok: z.boolean(), store: z.boolean(), queue: z.boolean() }), failures: ['unavailable'],
  },
})

export type Routes = typeof ROUTES
export type RouteName = keyof Routes
