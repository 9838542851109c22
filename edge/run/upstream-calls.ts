// Calls tools of upstreams: look at the upstream if the last look is old, claim the call, send one
// request, and settle it with a statement that the edge signs. It applies the same events as for a
// worker (L1, L2). If this object dies in between, the lease of the call expires and the call ends
// `indeterminate`; nothing sends it again.

import { sha256 } from '../../shared/bytes/json.ts'
import { seal } from '../../shared/evidence/dsse.ts'
import type { Statement } from '../../shared/evidence/statement.ts'
import { STATEMENT_TYPE, UPSTREAM_CLIENT } from '../../shared/evidence/statement.ts'
import { failure } from '../../shared/failures.ts'
import { attestationId, callId } from '../../shared/ids.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Outcome, StreamSummary, UpstreamPlan } from '../../shared/plan/plan.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import { identityOf, outboundNetwork, tenantUpstreams } from '../bindings.ts'
import type { CallRecord } from '../call/lifecycle.ts'
import type { RunRow } from '../call/run.ts'
import { executedAtEdge } from '../call/settlement.ts'
import { directoryOf } from '../directory/directory.ts'
import { completeUtf8Length } from '../platform/utf8-boundary.ts'
import { executeUpstreamCall, type UpstreamExecution, unsentExecution } from '../upstreams/execute.ts'
import { claimForUpstream, type UpstreamClaim } from './commands/claim.ts'
import { attest, heldBy } from './commands/settle.ts'
import type { RunContext } from './context.ts'

const NO_CALL = failure('stale_fence', 'no such call')

/** Looks, claims, sends and settles a granted call. `cancelled` stops it waiting for the answer. */
export async function carryOutUpstreamCall(
  run: RunContext,
  { record: { id, tenant } }: RunRow,
  n: number,
  plan: UpstreamPlan,
  cancelled: AbortSignal,
): Promise<void> {
  const { upstream } = plan.executor
  const upstreams = tenantUpstreams(run.env, tenant)
  const look = (again: boolean) =>
    upstreams
      .look(upstream, again)
      .catch(() => err('the edge could not compare its tools with the accepted ones')) // L6
  const looked = await look(false)
  const claimed = await claimForUpstream(run, n) // refuses what the look has quarantined
  if (!claimed.ok) return
  const claim = claimed.value
  const unsent = (outcome: Outcome) => settle(run, claim, unsentExecution(plan, outcome))
  if (cancelled.aborted) return void (await unsent({ kind: 'cancelled' }))
  if (!looked.ok)
    return void (await unsent({
      kind: 'refused',
      code: 'upstream_unavailable',
      detail: `nothing was executed: ${looked.error}`,
    }))
  const alive = setInterval(() => run.leases.hold(n, claim.grant.deadline_ms), LIMITS.heartbeat_ms)
  try {
    const execution = await executeUpstreamCall({
      id: callId(id, n),
      plan,
      args: claim.args,
      era: looked.value,
      secret: claim.secret,
      known: claim.known,
      ...outboundNetwork(run.env),
      cancelled,
      deadline: claim.grant.issued_at_ms + plan.limits.timeout_ms,
      lookAgain: async () => {
        const again = await look(true)
        const { quarantine } = await directoryOf(run.env, tenant)
        return again.ok && !quarantine.has(claim.tool) ? again.value : null // U01
      },
      show: (text) => showNote(run, claim, text),
    })
    if (execution.outdated) await upstreams.changed(upstream).catch(() => undefined)
    await settle(run, claim, execution)
  } finally {
    clearInterval(alive)
  }
}

/** Stores live output. The settlement replaces it. */
async function showNote(run: RunContext, { n, grant }: UpstreamClaim, text: string): Promise<void> {
  await run.transact((tx) => {
    const record = run.store.call(n)
    if (record === undefined || !heldBy(record, grant).ok) return err(NO_CALL)
    tx.saveOutput(n, 'stderr', run.store.outputEnd(n, 'stderr'), Buffer.from(text))
    return ok(true)
  })
}

function settle(
  run: RunContext,
  claim: UpstreamClaim,
  execution: UpstreamExecution,
): Promise<Result<CallRecord>> {
  return run.transact((tx) => {
    const record = run.store.call(claim.n)
    if (tx.row === undefined || record === undefined) return err(NO_CALL)
    const running = heldBy(record, claim.grant)
    if (!running.ok) return running
    const most = claim.plan.limits.output_bytes
    const [stdout, stderr] = [cut(execution.stdout, most), cut(execution.stderr, most)]
    const described = describe(attestationId(tx.row.record.id, claim.n), claim, execution, { stdout, stderr })
    if (!described.ok) throw new Error(`our own statement contradicts its grant at ${described.error}`)
    const statement = described.value
    const envelope = seal(STATEMENT_TYPE, statement, identityOf(run.env).signer)
    return attest(tx, record, running.value, {
      statement,
      envelope,
      output: { stdout: stdout.kept, stderr: stderr.kept },
    })
  })
}

type CutStream = { readonly summary: StreamSummary; readonly kept: Buffer }

/** Keeps the head. The digest covers everything. */
function cut(bytes: Buffer, most: number): CutStream {
  const head = bytes.subarray(0, most)
  const kept = bytes.byteLength <= most ? bytes : head.subarray(0, completeUtf8Length(head))
  return {
    kept,
    summary: {
      bytes: bytes.byteLength,
      sha256: sha256(bytes),
      kept: kept.byteLength,
      truncated: kept.byteLength < bytes.byteLength,
    },
  }
}

function describe(
  id: string,
  { grant, plan }: UpstreamClaim,
  { outcome, exchange, connections }: UpstreamExecution,
  { stdout, stderr }: { readonly stdout: CutStream; readonly stderr: CutStream },
): Result<Statement, string> {
  return executedAtEdge(id, grant, plan, {
    outcome,
    stdout: stdout.summary,
    stderr: stderr.summary,
    connections: [...connections],
    executor: UPSTREAM_CLIENT,
    sandbox_enforcement: 'remote',
    profile_sha256: null,
    argv_sha256: null,
    limits: plan.limits,
    upstream: exchange,
    started_at_ms: grant.issued_at_ms,
    ended_at_ms: Date.now(),
  })
}
