// Promise: a run has a bounded number of calls, whatever its budget.

import { expect, test } from 'vitest'
import { prepareProposal } from '../../../edge/decision/proposal.ts'
import { failure } from '../../../shared/failures.ts'

type Given = Parameters<typeof prepareProposal>

test('a run has at most a million calls (`calls_per_run`), then it accepts no more proposals', () => {
  // Only these parts are read before a proposal is decided.
  const directory = {
    agents: new Map(),
    listings: new Map(),
    tools: new Map(),
    quarantine: new Map(),
  } as unknown as Given[0]
  const budget = { max_calls_per_run: 1_000_000, max_denied_per_run: 1_000_000 }
  const row = (calls: number) =>
    ({ calls, denied: 0, cancelled: false, record: { agent: 'gone', budget } }) as unknown as Given[1]
  const proposed = { tool: 'a-tool', args: {}, files: [], origin: {} } as unknown as Given[2]
  const prepared = (calls: number) =>
    prepareProposal(directory, row(calls), proposed, { used: null, shadowUsed: null, now: 0 })
  expect(prepared(1_000_000)).toEqual({
    kind: 'closed',
    failure: failure('run_ended', 'the run has reached the limit of calls; start a new run'),
  })
  expect(prepared(999_999)).toMatchObject({
    kind: 'closed',
    failure: { detail: expect.stringContaining('agent that created this run was removed') },
  })
})
