// Sends messages to other objects: doorbells to the pool, approvals to the tenant's inbox and
// channels, ended calls to the tenant's log, changed calls to its lists, events to the agent's
// webhook. Approvals, log entries, list entries and events are derived from stored state and
// delivered at least once; the receivers are idempotent. The alarm repeats a failed delivery.

import type { JournalEntry } from '../../shared/evidence/journal.ts'
import { type Failure, failure } from '../../shared/failures.ts'
import { callId, isSharedRun, splitId } from '../../shared/ids.ts'
import { isEdgePlan } from '../../shared/plan/plan.ts'
import { err, type Result } from '../../shared/result.ts'
import type { Env } from '../bindings.ts'
import { channelObject, poolObject, tenantObject } from '../bindings.ts'
import { type CallRecord, hasEnded, type Proposal } from '../call/lifecycle.ts'
import type { RunRecord, RunRow } from '../call/run.ts'
import { holderOf } from '../call/shared-folder.ts'
import type { AgentEvent } from '../directory/agent-webhook.ts'
import { agentNamed, directoryAt, roomToStore as storageOf, takeCall } from '../directory/directory.ts'
import type { LoadedDirectory } from '../directory/loaded-directory.ts'
import type { CallReport, RunReport } from '../log/call-index-store.ts'
import type { RunEnds } from '../log/log-object.ts'
import type { Leaf } from '../log/tree-store.ts'
import { localPools } from '../pool/local-pools.ts'
import type { RunContext } from './context.ts'
import { PAGE } from './object/page.ts'
import type { RunStore } from './store.ts'
import type { RunTransaction } from './transaction.ts'
import { approvalView } from './views.ts'

const RETRY_MS = 2_000
const FORWARD_EVERY_MS = 5_000
const UNCOUNTED = failure('unavailable', 'the quotas of the tenant could not be checked; try again')

export const needsWorker = ({ plan }: Pick<Proposal, 'plan'>): boolean => plan !== null && !isEdgePlan(plan)

export const queueIsFull = (proposal: Proposal): Failure =>
  failure(
    'queue_full',
    needsWorker(proposal)
      ? 'this pool’s queue is full: too many calls wait for its workers'
      : proposal.plan?.tier === 'M'
        ? 'too many calls of upstreams are under way'
        : 'too many calls of skills wait for their turn',
  )

/** Whether the tenant's quotas have room for one more call, which they count. */
export const countCall = (env: Env, tenant: string): Promise<Result<true>> =>
  takeCall(env, tenant).catch(() => err(UNCOUNTED)) // L6

/** Whether the tenant has room to store more. */
export const roomToStore = (env: Env, tenant: string): Promise<Result<true>> =>
  storageOf(env, tenant).catch(() => err(UNCOUNTED)) // L6

/** A pool that can't be reached counts as having room, because the alarm sends its doorbell again. */
export async function isPoolFull(env: Env, directory: LoadedDirectory, run: RunRecord): Promise<boolean> {
  const { tenant, id, agent } = run
  const pool = agentNamed(directory, agent)?.spec.pool ?? 'default'
  const local = localPools.get(`${tenant}/${pool}`)
  if (local !== undefined) return local.isFull({ agent, run: id }, Date.now())
  return poolObject(env, tenant, pool)
    .full({ agent, run: id })
    .catch(() => false)
}

export class Outbox {
  readonly #store: Pick<RunStore, 'markMirrored'>
  /** When a call was last forwarded to a worker that can run it. */
  readonly #forwardedAt = new Map<number, number>()
  /** The state in which the tenant's list has the run. */
  #listedAs: 'open' | 'cancelled' | null = null

  constructor(store: Pick<RunStore, 'markMirrored'>) {
    this.#store = store
  }

  /** Rings for a call. The alarm repeats a lost doorbell. */
  ring(run: RunContext, { n, pool, plan }: Proposal, until: number, worker?: string): void {
    const { record, folder } = rowOf(run)
    const { tenant, agent, id } = record
    const doorbell = {
      agent,
      run: id,
      call: callId(id, n),
      until,
      worker: holderOf(folder, plan) ?? worker ?? null,
    }
    void poolObject(run.env, tenant, pool).ring(doorbell).catch(ignore)
  }

  /**
   * Sends the doorbell only to one of these workers, because the pool's doorbell might wake the
   * same worker again. At most every 5 s for one call: workers that have less than they have proven
   * would pass it back and forth.
   */
  forward(tx: RunTransaction, record: CallRecord, workers: readonly string[], now: number): void {
    const { n } = record.proposal
    const worker = workers[Math.floor(Math.random() * workers.length)]
    if (worker === undefined || now - (this.#forwardedAt.get(n) ?? 0) < FORWARD_EVERY_MS) return
    this.#forwardedAt.set(n, now)
    tx.ring(record, worker)
  }

  /**
   * Tells the pool that this call no longer needs a worker, so that it rings the agent's next one.
   * If the message is lost, the doorbell's slot times out in a few seconds.
   */
  leave(run: RunContext, { n, pool }: Proposal): void {
    const { tenant, agent, id } = rowOf(run).record
    void poolObject(run.env, tenant, pool)
      .left({ agent, run: id, call: callId(id, n) })
      .catch(ignore)
  }

  /** Drops the doorbells for a worker that is gone; its other runs ring again. */
  silence(run: RunContext, { pool }: Proposal, worker: string): void {
    void poolObject(run.env, rowOf(run).record.tenant, pool).silence(worker).catch(ignore)
  }

  /** Delivers an approval at once, and the log in batches. The alarm retries both. */
  deliverSoon(run: RunContext, approvals: boolean): void {
    run.arm(Date.now() + RETRY_MS)
    if (approvals) run.waitUntil(nextTurn().then(() => this.deliverApprovals(run)))
    run.logSoon()
  }

  async deliverApprovals(run: RunContext): Promise<void> {
    if (run.row === undefined) return
    const { record } = run.row
    const calls = run.store.unmirrored()
    if (calls.length === 0) return
    try {
      const approvals = calls.flatMap((call) => approvalView(record, call) ?? [])
      await tenantObject(run.env, record.tenant).mirror(approvals)
      await channelObject(run.env, record.tenant).mirror(record.tenant, approvals)
      for (const call of calls) this.#store.markMirrored(call)
    } catch {
      run.arm(Date.now() + RETRY_MS)
    }
  }

  /** Returns what the tenant's log and lists lack of the run; undefined if they lack nothing. */
  news(run: RunContext): RunNews | undefined {
    if (run.row === undefined) return undefined
    const { record, cancelled, logged } = run.row
    const entries = run.store.journal(record.id, logged)
    const last = entries.at(-1)?.seq ?? Math.max(logged, 0)
    const state = cancelled ? 'cancelled' : 'open'
    const report = state === this.#listedAs ? null : runReport(record, cancelled)
    if (last === logged && (report === null || isSharedRun(record.id))) return undefined
    const { leaves, calls } = changesIn(run, record, entries, last)
    return { run, entries, last, append: { run: record.id, ends: leaves, reports: { run: report, calls } } }
  }

  /** The log and the lists have this. */
  noteSent({ run, entries, last, append: { reports } }: RunNews): void {
    if (reports?.run) this.#listedAs = reports.run.cancelled ? 'cancelled' : 'open'
    if (last <= rowOf(run).logged) return // another delivery was faster
    run.noteLogged(last)
    if (entries.length === PAGE) this.deliverSoon(run, false)
  }

  /** Whether the tenant's list has the run, as far as this object knows. */
  get isListed(): boolean {
    return this.#listedAs !== null
  }
}

/** Entries of a run's journal, up to `last`, with what the log gets of them. */
export type RunNews = {
  readonly run: RunContext
  readonly entries: readonly JournalEntry[]
  readonly last: number
  readonly append: RunEnds
}

/**
 * The log's leaves for the calls that ended in these entries, and each changed call as it is now.
 */
function changesIn(
  run: RunContext,
  { agent }: RunRecord,
  entries: readonly JournalEntry[],
  last: number,
): { leaves: Leaf[]; calls: CallReport[] } {
  const ids = new Set(entries.flatMap(({ call }) => call ?? []))
  const changed = new Map([...ids].map((id) => [id, run.store.call(splitId(id).n)]))
  const leaves = entries.flatMap((entry) => leafOf(agent, entry, changed.get(entry.call ?? '')) ?? [])
  const calls = [...changed].flatMap(([call, record]) =>
    record === undefined ? [] : [callReport(call, agent, record, last)],
  )
  return { leaves, calls }
}

/**
 * Reports events to the agent's webhook, if it has one by the directory that this isolate knows: at
 * least as new as the requests that made the entries.
 */
export async function reportToAgent({ run, entries }: RunNews): Promise<void> {
  const { tenant, agent, agentSince } = rowOf(run).record
  const { agents } = await directoryAt(run.env, tenant, 0)
  const present = agents.get(agent)
  if (present?.spec.webhook === undefined || present.since !== agentSince) return
  const events = entries.flatMap((entry) => eventsOf(run, entry))
  if (events.length > 0) await channelObject(run.env, tenant).agentEvents(tenant, agent, agentSince, events)
}

/** Entries that a person’s answer makes. A standing answer was given to another call. */
const ANSWERED: ReadonlySet<string> = new Set(['approved', 'rejected', 'edited', 'denied'])

function eventsOf(run: RunContext, { seq, call, kind, body, at_ms }: JournalEntry): AgentEvent[] {
  const record = call === null ? undefined : run.store.call(splitId(call).n)
  if (call === null || record === undefined) return []
  const { tool } = record.proposal
  const about = { run: splitId(call).run, call, tool: tool.name, state: record.status.state, at_ms }
  const isAnswer = ANSWERED.has(kind) && typeof body['by'] === 'string'
  return [
    ...(isAnswer ? [{ id: `${call}.${seq}.answered`, type: 'call.answered' as const, ...about }] : []),
    ...(body['attestation'] === undefined
      ? []
      : [{ id: `${call}.${seq}.ended`, type: 'call.ended' as const, ...about }]),
  ]
}

/** The log's leaf for the end of a call; undefined for any other entry. */
function leafOf(
  agent: string,
  { seq, call, hash, body, at_ms }: JournalEntry,
  ended: CallRecord | undefined,
): Leaf | undefined {
  if (call === null || body['attestation'] === undefined || ended === undefined) return undefined
  const { proposal, status } = ended
  return {
    seq,
    hash,
    call,
    agent,
    tool: proposal.tool.name,
    state: status.state,
    at: at_ms,
    took: at_ms - proposal.createdAt,
    shadow: proposal.shadow ?? null,
  }
}

const callReport = (
  call: string,
  agent: string,
  { proposal, status }: CallRecord,
  seq: number,
): CallReport => ({
  call,
  seq,
  agent,
  tool: proposal.tool.name,
  state: status.state,
  createdAt: proposal.createdAt,
  endedAt: hasEnded(status) ? status.at : null,
})

const runReport = ({ id, agent, session, channel, createdAt }: RunRecord, cancelled: boolean): RunReport => ({
  run: id,
  agent,
  session,
  channel,
  cancelled,
  createdAt,
})

export function rowOf({ row }: RunContext): RunRow {
  if (row === undefined) throw new Error('this run does not exist')
  return row
}

const nextTurn = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 0))
const ignore = (): undefined => undefined
