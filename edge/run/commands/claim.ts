// Claims a granted call for its executor: a worker, or the edge itself for a call of a skill or of
// an upstream. All take the same steps: policy decides again, the edge signs a grant, and one event moves the call
// to `running`.

import type { Envelope } from '../../../shared/evidence/dsse.ts'
import type { Grant } from '../../../shared/evidence/statement.ts'
import { EDGE_EXECUTOR, sealGrant } from '../../../shared/evidence/statement.ts'
import {
  intersectResources,
  unmetNeeds,
  type WorkerResources,
} from '../../../shared/evidence/worker-proof.ts'
import { failure } from '../../../shared/failures.ts'
import { LIMITS } from '../../../shared/limits.ts'
import {
  isEdgePlan,
  mcpRequestOf,
  type Plan,
  type ProcessPlan,
  type SkillPlan,
  secretsOf,
  type UpstreamPlan,
} from '../../../shared/plan/plan.ts'
import type { Result } from '../../../shared/result.ts'
import { err, ok } from '../../../shared/result.ts'
import type { Claim } from '../../../shared/wire/workers.ts'
import { identityOf, sessionObject } from '../../bindings.ts'
import { decisionAtClaim } from '../../call/decision-of-record.ts'
import type { CallRecord, Proposal, RecordedAnswer } from '../../call/lifecycle.ts'
import type { RunRow } from '../../call/run.ts'
import type { WorkerKey } from '../../call/settlement.ts'
import { holderOf, sharesFolder } from '../../call/shared-folder.ts'
import { judgeAgain } from '../../decision/proposal.ts'
import { directoryOf } from '../../directory/directory.ts'
import type { EnabledSkill } from '../../directory/enabled-skill.ts'
import type { LoadedDirectory } from '../../directory/loaded-directory.ts'
import type { KnownValues } from '../../secrets/known-values.ts'
import { upstreamSecret } from '../../upstreams/look.ts'
import { currentResources } from '../../workers/eligibility.ts'
import type { EnrolledWorker } from '../../workers/request-freshness.ts'
import type { RunContext } from '../context.ts'
import { roomToStore } from '../outbox.ts'
import type { RunTransaction } from '../transaction.ts'
import type { UsageReservation } from '../usage-ledger.ts'
import { factsOf } from '../views.ts'

/** `process`: the worker's process that claims. */
export type Claimant = WorkerKey & Pick<EnrolledWorker, 'pool' | 'tiers' | 'proven' | 'process'>

/** A claimed call of a skill, and all that its isolate needs. */
export type SkillClaim = {
  readonly n: number
  readonly grant: Grant
  readonly plan: SkillPlan
  readonly args: Record<string, unknown>
  readonly skill: EnabledSkill
  readonly secrets: Readonly<Record<string, string>>
}

/** A claimed call of an upstream, and all that the request to its server needs. */
export type UpstreamClaim = {
  readonly n: number
  /** Our name of the tool. */
  readonly tool: string
  readonly grant: Grant
  readonly plan: UpstreamPlan
  readonly args: Record<string, unknown>
  /** The value of the secret with which the edge authenticates. */
  readonly secret: string | null
  /** Every secret of the tenant. */
  readonly known: KnownValues
}

const NO_CALL = failure('not_claimable', 'no such call')
const NOT_IN_POOL = failure('not_claimable', 'no such call in your pool')
const NOT_WAITING = failure('not_claimable', 'the call is not waiting for a worker')
const FOLDER_ELSEWHERE = failure('not_claimable', 'the folder of its run is on another worker')
const NOT_ALLOWED = failure('not_claimable', 'policy no longer allows the call')
const SECRET_GONE = failure('not_claimable', 'the tool of the call may no longer have a secret that it needs')
const SESSION_UNREACHABLE = failure(
  'unavailable',
  'the session could not be asked whether the approval is still valid',
)

/**
 * Claims a call of tier B or C for a worker of its pool. `reported`: the tiers and features that
 * the worker has now, which may be fewer than it has proven. If the response got lost, the worker
 * receives the same grant again.
 */
export async function claimForWorker(
  run: RunContext,
  n: number,
  worker: Claimant,
  reported: WorkerResources,
): Promise<Result<Claim>> {
  const facts = await lookUpClaim(run, n)
  if (!facts.ok) return facts
  const { directory } = facts.value
  return run.transact((tx) => {
    const waiting = callForPool(run, n, worker.pool)
    if (!waiting.ok) return waiting
    const { record, plan } = waiting.value
    const repeated = repeatedGrant(run, record, worker)
    if (repeated !== undefined) return handOver(directory, record.proposal, plan, repeated)
    const folder = checkFolder(tx, record, worker)
    if (!folder.ok) return folder
    const means = checkMeans(run, tx, record, plan, { directory, worker, reported })
    if (!means.ok) return means
    const executor = {
      worker: worker.id,
      process: worker.process,
      time_ms: timeFor(plan),
      proven: provenFor(plan, means.value),
    }
    const granted = claimCall(run, tx, facts.value, record, executor)
    if (!granted.ok) return granted
    run.leases.forget(n) // the lease has reports from an earlier fence
    return handOver(directory, record.proposal, plan, granted.value.envelope)
  })
}

/** Claims a call of tier A for the edge, which runs it in an isolate. */
export async function claimForSkill(run: RunContext, n: number): Promise<Result<SkillClaim>> {
  const facts = await lookUpClaim(run, n)
  if (!facts.ok) return facts
  const { directory } = facts.value
  return run.transact((tx) => {
    const record = run.store.call(n)
    const plan = record?.proposal.plan
    if (record === undefined || plan?.tier !== 'A' || record.status.state !== 'granted')
      return err(NOT_WAITING)
    const secrets = secretsFor(directory, record.proposal, plan)
    if (secrets === undefined) return err(SECRET_GONE)
    const time_ms = plan.limits.timeout_ms + LIMITS.settle_grace_ms
    const granted = claimCall(run, tx, facts.value, record, { worker: EDGE_EXECUTOR, process: null, time_ms })
    if (!granted.ok) return granted
    const skill = directory.skills.get(plan.executor.skill)
    if (skill === undefined) return err(NOT_ALLOWED)
    return ok({ n, grant: granted.value.grant, plan, args: record.proposal.args, skill, secrets })
  })
}

/** Claims a call of tier M for the edge, which sends it to its upstream. */
export async function claimForUpstream(run: RunContext, n: number): Promise<Result<UpstreamClaim>> {
  const facts = await lookUpClaim(run, n)
  if (!facts.ok) return facts
  const { directory } = facts.value
  return run.transact((tx) => {
    const record = run.store.call(n)
    const plan = record?.proposal.plan
    if (record === undefined || plan?.tier !== 'M' || record.status.state !== 'granted')
      return err(NOT_WAITING)
    const { upstream: name, url, auth } = plan.executor
    const time_ms = plan.limits.timeout_ms + LIMITS.settle_grace_ms
    const granted = claimCall(run, tx, facts.value, record, { worker: EDGE_EXECUTOR, process: null, time_ms })
    if (!granted.ok) return granted
    const secret = upstreamSecret(directory, { name, url, ...(auth && { auth }) })
    if (!secret.ok) return err(SECRET_GONE) // `claimCall` has just checked it in the same directory
    const { grant } = granted.value
    return ok({
      n,
      tool: record.proposal.tool.name,
      grant,
      plan,
      args: record.proposal.args,
      secret: secret.value,
      known: directory.vault.known,
    })
  })
}

/**
 * Facts from other objects: the directory, the reservation in the session's counts, the standing
 * answers still in force, and whether the tenant has room for what the call will leave.
 */
export type ClaimFacts = {
  readonly directory: LoadedDirectory
  readonly reservation: UsageReservation | null
  readonly standing: readonly string[]
  readonly room: Result<true>
}

export async function lookUpClaim(run: RunContext, n: number): Promise<Result<ClaimFacts>> {
  const { row } = run
  if (row === undefined) return err(NO_CALL)
  const { tenant } = row.record
  const [directory, room] = await Promise.all([directoryOf(run.env, tenant), roomToStore(run.env, tenant)])
  const reservation = await run.usage.reserveForCall(directory, row.record, n)
  const standing = await standingInForce(run, row, n)
  return standing === null ? err(SESSION_UNREACHABLE) : ok({ directory, reservation, standing, room }) // L6
}

/**
 * The call's standing answers that its session still stores; null if the session can't be reached.
 */
async function standingInForce(
  run: RunContext,
  { record }: RunRow,
  n: number,
): Promise<readonly string[] | null> {
  const status = run.store.call(n)?.status
  const ids = status?.approval?.answers.flatMap(({ standing }) => standing ?? []) ?? []
  if (status?.state !== 'granted' || ids.length === 0) return []
  return sessionObject(run.env, record)
    .stillStanding(ids)
    .catch(() => null)
}

/** `time_ms`: the time from the claim to the grant's deadline. */
type Executor = {
  readonly worker: string
  readonly process: string | null
  readonly time_ms: number
  readonly proven?: NonNullable<Grant['proven']>
}

/**
 * The claim itself: the current policy's decision on the stored call, a grant under it, and the
 * event. The decision of record is computed once, for the grant and for the call. If policy no
 * longer allows the call, the event ends it.
 */
function claimCall(
  run: RunContext,
  tx: RunTransaction,
  facts: ClaimFacts,
  record: CallRecord,
  { worker, process, time_ms, proven }: Executor,
): Result<{ grant: Grant; envelope: Envelope }> {
  const { row } = tx
  if (row === undefined) return err(NO_CALL)
  if (!facts.room.ok) return facts.room // a call that runs is settled, whatever it leaves
  const { proposal, status } = record
  const now = Date.now()
  const { decision, snapshot, onRecord } = judgeAtClaim(run, row, facts, record)
  const grant: Grant = {
    facts: factsOf(row.record, { proposal, status: { ...status, decision: onRecord } }),
    worker,
    fence: status.state === 'granted' ? status.fence + 1 : 1,
    issued_at_ms: now,
    deadline_ms: now + time_ms,
    ...(proven === undefined ? {} : { proven }),
    ...(sharesFolder(proposal.plan)
      ? { folder: row.folder?.used === true ? ('kept' as const) : ('new' as const) }
      : {}),
  }
  const envelope = sealGrant(grant, identityOf(run.env).signer)
  const claimed = tx.apply(record, {
    kind: 'claimed',
    worker,
    process,
    deadline: grant.deadline_ms,
    grant: envelope,
    decision,
    onRecord,
  })
  if (!claimed.ok) return claimed
  if (snapshot !== null) tx.keepSnapshot(snapshot)
  return claimed.value.status.state === 'running' ? ok({ grant, envelope }) : err(NOT_ALLOWED)
}

/** The current policy's decision, with the answers still in force, and the decision of record. */
export function judgeAtClaim(
  run: RunContext,
  row: RunRow,
  { directory, reservation, standing }: ClaimFacts,
  record: CallRecord,
) {
  const { approval, decision: before } = record.status
  const answers = (approval?.answers ?? []).filter((answer) => isInForce(run, answer, standing))
  const facts = run.usage.decisionFacts(directory, row, record, answers, reservation)
  const { decision, snapshot } = judgeAgain(directory, row, record, facts) // L1
  return { decision, snapshot, onRecord: decisionAtClaim(before, decision) }
}

/** Policy decides without standing answers that their session has revoked. */
const isInForce = (
  { withdrawnAnswers }: RunContext,
  { standing }: RecordedAnswer,
  inForce: readonly string[],
): boolean => standing === undefined || (inForce.includes(standing) && !withdrawnAnswers.has(standing))

/** A call of tier B or C in this pool. The edge executes the others itself. */
function callForPool(
  run: RunContext,
  n: number,
  pool: string,
): Result<{ record: CallRecord; plan: ProcessPlan }> {
  const record = run.store.call(n)
  const plan = record?.proposal.plan ?? null
  if (record === undefined || plan === null || isEdgePlan(plan) || record.proposal.pool !== pool)
    return err(NOT_IN_POOL)
  return ok({ record, plan })
}

/**
 * The grant of an earlier claim by the same process, which did not receive it. A process that has
 * reported on the call has its grant, and another process of the same worker never claimed it (L2,
 * D6).
 */
function repeatedGrant(
  run: RunContext,
  { proposal: { n }, status }: CallRecord,
  { id, process }: Claimant,
): Envelope | undefined {
  if (status.state !== 'running' || status.worker !== id || status.cancelRequested) return undefined
  if (process === null || status.process !== process) return undefined
  if (Date.now() - status.claimedAt > LIMITS.claim_again_ms) return undefined
  const hasReported =
    run.leases.isHeld(n) || run.store.outputEnd(n, 'stdout') + run.store.outputEnd(n, 'stderr') > 0
  return hasReported ? undefined : status.grant
}

/** If the calls of the run share a folder, only the worker that has it may claim them. */
function checkFolder(tx: RunTransaction, record: CallRecord, { id }: Claimant): Result<true> {
  const holder = holderOf(tx.row?.folder ?? null, record.proposal.plan)
  if (holder === null || holder === id) return ok(true)
  tx.ring(record) // its doorbell went to the whole pool before the run had a folder
  return err(FOLDER_ELSEWHERE)
}

type Ability = {
  readonly directory: LoadedDirectory
  readonly worker: Claimant
  readonly reported: WorkerResources
}

/**
 * Refuses a worker that has not proven everything that the call needs (L8, K04), and forwards the
 * doorbell to one that has.
 */
function checkMeans(
  run: RunContext,
  tx: RunTransaction,
  record: CallRecord,
  plan: ProcessPlan,
  { directory, worker, reported }: Ability,
): Result<WorkerResources> {
  const now = Date.now()
  const means = intersectResources(currentResources(worker, now), reported)
  const lacking = unmetNeeds(plan, means)
  if (lacking.length === 0) return ok(means)
  const able = [...directory.workers.values()].filter(
    ({ row }) =>
      row.pool === worker.pool &&
      row.id !== worker.id &&
      unmetNeeds(plan, currentResources(row, now)).length === 0,
  )
  run.outbox.forward(
    tx,
    record,
    able.map(({ row }) => row.id),
    now,
  )
  return err(
    failure('sandbox_unavailable', `the worker has not proven what the call needs: ${lacking.join(', ')}`),
  )
}

/** The proven properties of the worker's sandbox, which limit the claims of its statement. */
function provenFor(
  { profile }: ProcessPlan,
  { cgroups, profiles }: WorkerResources,
): NonNullable<Grant['proven']> {
  const own = profiles.find(({ name }) => name === profile)
  return { cgroups, ...(own === undefined ? {} : { profile_sha256: own.sha256 }) }
}

/** For files, execution and settlement. */
const timeFor = ({ files, outputs, limits }: ProcessPlan): number =>
  (files === undefined && outputs === undefined ? 0 : LIMITS.files_ms) +
  limits.timeout_ms +
  LIMITS.settle_grace_ms

/**
 * Secrets leave the edge only here, in a response that is stored nowhere, and only while the tool
 * may have them (L7).
 */
function handOver(
  directory: LoadedDirectory,
  proposal: Proposal,
  plan: ProcessPlan,
  grant: Envelope,
): Result<Claim> {
  const secrets = secretsFor(directory, proposal, plan)
  if (secrets === undefined) return err(SECRET_GONE)
  return ok({ grant, plan, args: proposal.args, facts_digest: proposal.digest, secrets })
}

function secretsFor(
  { vault }: LoadedDirectory,
  { tool }: Proposal,
  plan: Plan,
): Record<string, string> | undefined {
  const upstream = mcpRequestOf(plan)?.upstream
  const name = upstream === undefined ? tool.name : `upstream:${upstream}`
  const withheld = vault.withholds({ name, secrets: plan.secrets, credentials: plan.credentials })
  return withheld === undefined ? vault.values(secretsOf(plan)) : undefined
}
