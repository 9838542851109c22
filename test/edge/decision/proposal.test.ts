// Promise: a run accepts a limited number of calls, whatever its budget, and then asks for a new run.

import { join } from 'node:path'
import { expect, test } from 'vitest'
import { ROOT } from '../../../infra/state.ts'

type Row = { calls: number; denied: number; cancelled: boolean; record: object; folder: null }
/** By a variable path, because the type check of tests lacks the types of workerd that it needs. */
const { prepareProposal } = (await import(/* @vite-ignore */ join(ROOT, 'edge/decision/proposal.ts'))) as {
  prepareProposal: (directory: object, row: Row, proposal: object, used: object) => object
}

/** The answer of a run with this many calls, whose agent was removed. */
const answerAfter = (calls: number): object => {
  const record = { budget: { max_denied_per_run: 1, max_calls_per_run: 2_000_000 }, agent: 'gone' }
  const row = { calls, denied: 0, cancelled: false, record, folder: null }
  return prepareProposal(
    { agents: new Map(), listings: new Map(), tools: new Map() },
    row,
    { tool: 'x', args: {} },
    { now: 1 },
  )
}

test('a run with a million calls (`calls_per_run`) accepts no more, whatever its budget', () => {
  const closed = (detail: string) => ({ kind: 'closed', failure: { code: 'run_ended', detail } })
  expect(answerAfter(1_000_000)).toMatchObject(
    closed('the run has reached the limit of calls; start a new run'),
  )
  expect(answerAfter(999_999)).toMatchObject(
    closed('the agent that created this run was removed; create another run'),
  )
})
