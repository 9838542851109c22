// Cancels one call, or a run with all its live calls. A running call is only asked to stop: its
// worker settles it.

import { failure } from '../../../shared/failures.ts'
import type { Result } from '../../../shared/result.ts'
import { err, ok } from '../../../shared/result.ts'
import type { Call } from '../../../shared/wire/calls.ts'
import type { Run } from '../../../shared/wire/runs.ts'
import type { Canceller } from '../../call/lifecycle.ts'
import type { RunOwner } from '../../call/run.ts'
import type { RunContext } from '../context.ts'
import { mayRead, readableCall, viewCall } from '../reads.ts'
import { runView } from '../views.ts'

const NO_CALL = failure('not_found', 'no such call')
const NO_RUN = failure('not_found', 'no such run')

/**
 * `agent` is null if the caller may cancel every agent's calls. A second request for the same
 * running call changes nothing.
 */
export async function cancelCall(
  run: RunContext,
  agent: RunOwner | null,
  n: number,
  by: Canceller,
): Promise<Result<Call>> {
  const cancelled = await run.transact((tx) => {
    const record = readableCall(run, agent, n)
    if (record === undefined) return err(NO_CALL)
    if (record.status.state === 'running' && record.status.cancelRequested) return ok(record)
    return tx.apply(record, { kind: 'cancel', by })
  })
  return cancelled.ok ? ok(viewCall(run, cancelled.value)) : cancelled
}

export async function cancelRun(
  run: RunContext,
  agent: RunOwner | null,
  by: Canceller,
): Promise<Result<Run>> {
  return run.transact((tx) => {
    const { row } = tx
    if (row === undefined || !mayRead(row, agent)) return err(NO_RUN)
    for (const record of run.store.live()) tx.apply(record, { kind: 'cancel', by })
    if (!row.cancelled) tx.cancelRun(by)
    return ok(runView(tx.row ?? row))
  })
}
