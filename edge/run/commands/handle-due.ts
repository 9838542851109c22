// Handles calls whose deadline may have passed: approvals that expire, calls that nobody claimed,
// leases that ran out. The lifecycle judges whether time changes a call (L9); a call that it does
// not change gets its doorbell again.

import { ok } from '../../../shared/result.ts'
import { tenantObject } from '../../bindings.ts'
import { dueAt } from '../../call/due-at.ts'
import type { CallRecord, Event, Proposal } from '../../call/lifecycle.ts'
import type { RunRow } from '../../call/run.ts'
import { folderGone, holderOf, sharesFolder } from '../../call/shared-folder.ts'
import { directoryOf } from '../../directory/directory.ts'
import { whyUnclaimable } from '../../workers/eligibility.ts'
import type { EnrolledWorker } from '../../workers/request-freshness.ts'
import type { RunContext } from '../context.ts'
import type { RunTransaction } from '../transaction.ts'
import { cancelAbandoned, cancelsRunning } from './clients.ts'

/**
 * Facts about the workers that calls wait for. A fact is missing if no call depends on it, or if
 * its object can't be reached.
 */
type WorkerFacts = { readonly folderGone?: string | undefined; readonly workers?: readonly EnrolledWorker[] }
type LostFolder = { readonly proposal: Proposal; readonly worker: string }

export async function handleDueCalls(run: RunContext): Promise<void> {
  const [facts, running] = await Promise.all([lookUpWorkers(run), cancelsRunning(run, Date.now())])
  const handled = await run.transact((tx) => {
    const now = Date.now()
    const lost = run.store.due(now).flatMap((record) => handleDueCall(run, tx, record, facts, now) ?? [])
    cancelAbandoned(run, tx, running, now)
    run.uploads.dropDue(tx, now)
    return ok(lost)
  })
  if (!handled.ok) return
  for (const { proposal, worker } of handled.value) run.outbox.silence(run, proposal, worker)
}

/** Returns the lost folder if the call ended because of it. */
function handleDueCall(
  run: RunContext,
  tx: RunTransaction,
  record: CallRecord,
  facts: WorkerFacts,
  now: number,
): LostFolder | undefined {
  const { proposal, status } = record
  const holder = holderOf(tx.row?.folder ?? null, proposal.plan)
  const event = dueEvent(run, record, holder, facts, now)
  if (tx.apply(record, event).ok)
    return event.folderGone === undefined || holder === null ? undefined : { proposal, worker: holder }
  tx.ring(record)
  tx.lookAgainAt(record, dueAt(status, now, event.leaseUntil))
  return undefined
}

function dueEvent(
  run: RunContext,
  { proposal: { n, plan, pool } }: CallRecord,
  holder: string | null,
  { folderGone, workers }: WorkerFacts,
  now: number,
): Extract<Event, { kind: 'due' }> {
  const ofPool = workers?.filter((worker) => worker.pool === pool)
  const reason = plan === null || ofPool === undefined ? undefined : whyUnclaimable(plan, ofPool, now)
  return {
    kind: 'due',
    leaseUntil: run.leases.until(n),
    ...(holder === null || folderGone === undefined ? {} : { folderGone }),
    ...(reason === undefined ? {} : { unclaimable: reason }),
  }
}

/** Queries only if a waiting call may end because of the result. */
async function lookUpWorkers(run: RunContext): Promise<WorkerFacts> {
  const { row } = run
  if (row === undefined) return {}
  const now = Date.now()
  const waiting = run.store.due(now).filter(({ status }) => status.state === 'granted')
  const lapses = waiting.some(({ status }) => status.state === 'granted' && now >= status.until)
  const [heardAt, directory] = await Promise.all([
    lastHeartbeat(run, row, waiting, now),
    lapses ? directoryOf(run.env, row.record.tenant).catch(() => undefined) : undefined,
  ])
  return {
    folderGone: folderGone(heardAt, now),
    ...(directory === undefined ? {} : { workers: [...directory.workers.values()].map(({ row }) => row) }),
  }
}

/**
 * When the worker that has the run's folder last reported; now if no call waits for the folder or
 * the time is unknown.
 */
async function lastHeartbeat(
  run: RunContext,
  { folder, record }: RunRow,
  waiting: readonly CallRecord[],
  now: number,
) {
  const waits = waiting.find(({ proposal }) => sharesFolder(proposal.plan))
  if (folder === null || waits === undefined) return now
  return tenantObject(run.env, record.tenant)
    .heardOf(folder.worker, waits.proposal.pool)
    .catch(() => now)
}
