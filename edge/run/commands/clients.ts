// Clients of a connection, besides their proposals: they receive an answer, go away without it, or
// cancel their request. A call outlives the connection that proposed it (M04).

import { failure } from '../../../shared/failures.ts'
import { callId, splitId } from '../../../shared/ids.ts'
import { LIMITS } from '../../../shared/limits.ts'
import { err, ok, type Result } from '../../../shared/result.ts'
import type { Call } from '../../../shared/wire/calls.ts'
import { type CallRecord, type Canceller, hasEnded } from '../../call/lifecycle.ts'
import type { RunOwner } from '../../call/run.ts'
import { directoryOf } from '../../directory/directory.ts'
import { isWatched } from '../call-watch.ts'
import type { RunContext } from '../context.ts'
import { readableCall, readCall } from '../reads.ts'
import type { RunTransaction } from '../transaction.ts'
import { cancelCall } from './cancel.ts'
import { type ProposalInput, type ProposedCall, proposeCall } from './propose.ts'

const NO_CALL = failure('not_found', 'no such call')

export async function proposeForClient(
  run: RunContext,
  input: ProposalInput,
  request: string | null,
): Promise<Result<ProposedCall>> {
  if (request === null) return proposeCall(run, input)
  const proposed = await proposeCall(run, { ...input, waitMs: 0 })
  if (!proposed.ok || proposed.value.call.ended_at_ms !== undefined) return proposed
  const { n } = splitId(proposed.value.call.id)
  keepRequest(run, request, n) // before the wait: a client may cancel its request at once
  const waited = await readCall(run, input.agent, n, input.waitMs)
  return waited.ok ? ok({ ...proposed.value, call: waited.value }) : waited
}

/** A client that goes away leaves its request behind, because it may still cancel it. */
function keepRequest({ requests }: RunContext, request: string, n: number): void {
  requests.delete(request)
  requests.set(request, n)
  const oldest = requests.keys().next()
  if (requests.size > LIMITS.mcp_requests_run && !oldest.done) requests.delete(oldest.value)
}

/** `delivered`: the answer was the call's end, and the client has received it. */
export async function noteAnswer(
  run: RunContext,
  agent: RunOwner,
  n: number,
  request: string | null,
  delivered: boolean,
): Promise<void> {
  if (request !== null) run.requests.delete(request)
  if (!delivered || readableCall(run, agent, n) === undefined || run.store.isDelivered(n)) return
  await run.transact((tx) => {
    tx.markDelivered(n)
    return ok(true)
  })
}

/** Reads a call for a client that asks for it again: it is no longer abandoned. */
export async function readForClient(
  run: RunContext,
  agent: RunOwner,
  n: number,
  waitMs: number,
): Promise<Result<Call>> {
  if (readableCall(run, agent, n) !== undefined && run.store.isAbandoned(n))
    await run.transact((tx) => {
      tx.cancelAt(n, null)
      return ok(true)
    })
  return readCall(run, agent, n, waitMs)
}

/** The client is gone. It may ask again for a while; then a call that still waits is cancelled. */
export async function abandonCall(run: RunContext, agent: RunOwner, n: number): Promise<void> {
  await run.transact((tx) => {
    const record = readableCall(run, agent, n)
    if (record === undefined || hasEnded(record.status)) return err(NO_CALL)
    tx.cancelAt(n, Date.now() + LIMITS.mcp_abandoned_ms)
    return ok(true)
  })
}

/** Cancels the call of a request that is still being answered; does nothing about any other. */
export async function cancelRequest(
  run: RunContext,
  agent: RunOwner,
  request: string,
  by: Canceller,
): Promise<void> {
  const n = run.requests.get(request)
  if (n !== undefined) await cancelCall(run, agent, n, by)
}

/**
 * Whether running calls of this run's agent are cancelled too; false if that can't be found out.
 */
export async function cancelsRunning({ env, row, store }: RunContext, now: number): Promise<boolean> {
  const runs = store.abandoned(now).some(({ status }) => status.state === 'running')
  if (row === undefined || !runs) return false
  const { tenant, agent } = row.record
  const directory = await directoryOf(env, tenant).catch(() => undefined)
  return directory?.agents.get(agent)?.spec.mcp?.cancel_running ?? false
}

/** Cancels the calls whose clients have been gone for long enough. */
export function cancelAbandoned(run: RunContext, tx: RunTransaction, running: boolean, now: number): void {
  for (const record of run.store.abandoned(now)) {
    const { n } = record.proposal
    const id = callId(tx.row?.record.id ?? '', n)
    const isAwaited = run.waiters.isAwaited(n) || run.output.isAwaited(n) || isWatched(id) // another client has joined it
    tx.cancelAt(n, isAwaited ? now + LIMITS.mcp_abandoned_ms : null)
    if (!isAwaited && isCancelled(record, running))
      tx.apply(record, { kind: 'cancel', by: { kind: 'agent', name: tx.row?.record.agent ?? '' } })
  }
}

const isCancelled = ({ status }: CallRecord, running: boolean): boolean =>
  !hasEnded(status) && (status.state !== 'running' || running)
