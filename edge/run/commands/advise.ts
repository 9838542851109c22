// Decides a call that the agent's own program executes, and hands the answer out once. The call is
// proposed, asked about and granted like any other; instead of a claim, the program's request
// releases it. What the program then does is not known here.

import { digestOf } from '../../../shared/bytes/json.ts'
import { failure } from '../../../shared/failures.ts'
import { splitId } from '../../../shared/ids.ts'
import type { Result } from '../../../shared/result.ts'
import { err, ok } from '../../../shared/result.ts'
import type { Call } from '../../../shared/wire/calls.ts'
import type { CallRecord } from '../../call/lifecycle.ts'
import type { RunContext } from '../context.ts'
import { readableCall, viewCall } from '../reads.ts'
import { judgeAtClaim, lookUpClaim } from './claim.ts'
import { type ProposalInput, proposeCall } from './propose.ts'

const NO_CALL = failure('not_found', 'no such call')

/**
 * Resolves when the call has ended, or with the waiting call after `waitMs`. A request for the same
 * tool and arguments as a waiting call joins it, so that a program that asks again gets the answer.
 */
export async function adviseOn(run: RunContext, input: ProposalInput): Promise<Result<Call>> {
  const number = await callNumber(run, input)
  if (!number.ok) return number
  const n = number.value
  await waitForAnswer(run, n, Date.now() + input.waitMs)
  if (run.store.call(n)?.status.state === 'granted') return releaseCall(run, input.agent, n)
  const record = readableCall(run, input.agent, n)
  return record === undefined ? err(NO_CALL) : ok(viewCall(run, record))
}

/** The number of the waiting call that the request joins, or of a new one. */
async function callNumber(run: RunContext, input: ProposalInput): Promise<Result<number>> {
  const digest = digestOf(input.args)
  const isSame = ({ proposal: { plan, tool, argsSha256 } }: CallRecord): boolean =>
    plan === null && tool.name === input.tool && argsSha256 === digest
  const joined = run.row?.record.agent === input.agent ? run.store.live().find(isSame) : undefined
  if (joined !== undefined) return ok(joined.proposal.n)
  const proposed = await proposeCall(run, { ...input, advice: true, waitMs: 0 })
  return proposed.ok ? ok(splitId(proposed.value.call.id).n) : proposed
}

async function waitForAnswer(run: RunContext, n: number, until: number): Promise<void> {
  for (;;) {
    const left = until - Date.now()
    if (run.store.call(n)?.status.state !== 'awaiting_approval' || left <= 0) return
    await run.waiters.wait('journal', left)
  }
}

/** Of several requests for one granted call, the first gets the yes (L2). */
async function releaseCall(run: RunContext, agent: string, n: number): Promise<Result<Call>> {
  const facts = await lookUpClaim(run, n)
  if (!facts.ok) return facts
  const released = await run.transact((tx) => {
    const record = readableCall(run, agent, n)
    if (tx.row === undefined || record === undefined) return err(NO_CALL)
    const { decision, snapshot, onRecord } = judgeAtClaim(run, tx.row, facts.value, record)
    const ended = tx.apply(record, { kind: 'released', decision, onRecord })
    if (ended.ok && snapshot !== null) tx.keepSnapshot(snapshot)
    return ended
  })
  return released.ok ? ok(viewCall(run, released.value)) : released
}
