// Decides a call that the agent's own program executes, and hands the answer out once. The call is
// proposed, asked about and granted like any other; instead of a claim, the program's request
// releases it. The edge does not learn what the program then does.

import { randomUUID } from 'node:crypto'
import { failure } from '../../../shared/failures.ts'
import { splitId } from '../../../shared/ids.ts'
import type { Result } from '../../../shared/result.ts'
import { err, ok } from '../../../shared/result.ts'
import type { Call } from '../../../shared/wire/calls.ts'
import { tenantObject } from '../../bindings.ts'
import { hasEnded } from '../../call/lifecycle.ts'
import type { RunOwner } from '../../call/run.ts'
import type { RunContext } from '../context.ts'
import { readableCall, viewCall } from '../reads.ts'
import { judgeAtClaim, lookUpClaim } from './claim.ts'
import { type ProposalInput, proposeCall } from './propose.ts'

const NO_CALL = failure('not_found', 'no such call')
const HANDED_OUT = failure(
  'already_ended',
  'another request for the same call received the approval; ask again',
)

/**
 * Resolves when the call has ended, or with the waiting call after `waitMs`. A request for the same
 * tool and arguments as a call that waits, or whose answer was not handed out, joins it: a program
 * that asks again gets the answer, and nobody is asked twice.
 */
export async function adviseOn(run: RunContext, input: ProposalInput): Promise<Result<Call>> {
  const proposed = await proposeCall(run, { ...input, advice: true, join: true, waitMs: 0 })
  if (!proposed.ok) return proposed
  const { n } = splitId(proposed.value.call.id)
  await waitForAnswer(run, input.agent, n, Date.now() + input.waitMs)
  return handOut(run, input.agent, n)
}

async function handOut(run: RunContext, agent: RunOwner, n: number): Promise<Result<Call>> {
  const record = readableCall(run, agent, n)
  if (record === undefined) return err(NO_CALL)
  const { state, approval } = record.status
  if (state === 'granted') return releaseCall(run, agent, n)
  if (state === 'released') return err(HANDED_OUT)
  if (hasEnded(record.status) && approval !== null)
    // a later request asks people again
    await run.transact((tx) => {
      tx.markDelivered(n)
      return ok(true)
    })
  return ok(viewCall(run, record))
}

/**
 * If no place is free, the program learns at once that people have been asked; it may ask again.
 */
async function waitForAnswer(run: RunContext, agent: RunOwner, n: number, until: number): Promise<void> {
  const left = () => (isAsked(run, n) ? until - Date.now() : 0)
  if (run.row === undefined || left() <= 0) return
  const tenant = tenantObject(run.env, run.row.record.tenant)
  const place = randomUUID()
  if (!(await tenant.holdRequest(place, agent.name))) return
  try {
    for (let ms = left(); ms > 0; ms = left()) await run.waiters.wait('journal', ms)
  } finally {
    run.waitUntil(tenant.releaseRequest(place))
  }
}

const isAsked = ({ store }: RunContext, n: number): boolean =>
  store.call(n)?.status.state === 'awaiting_approval'

/** Of several requests for one granted call, the first gets the yes (L2). */
async function releaseCall(run: RunContext, agent: RunOwner, n: number): Promise<Result<Call>> {
  const facts = await lookUpClaim(run, n)
  if (!facts.ok) return facts
  const released = await run.transact((tx) => {
    const record = readableCall(run, agent, n)
    if (tx.row === undefined || record === undefined) return err(NO_CALL)
    const { decision, snapshot, onRecord } = judgeAtClaim(run, tx.row, facts.value, record)
    const ended = tx.apply(record, { kind: 'released', decision, onRecord })
    if (!ended.ok) return ended
    if (snapshot !== null) tx.keepSnapshot(snapshot)
    tx.markDelivered(n)
    return ended
  })
  return released.ok ? ok(viewCall(run, released.value)) : released
}
