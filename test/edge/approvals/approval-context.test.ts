// A yes counts only from operators who may answer now, and not from the agent's owners if policy
// requires others (P09).

import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { RecordedAnswer } from '../../../edge/call/lifecycle.ts'
import { ROOT } from '../../../infra/state.ts'

type Approvers = ReadonlyMap<string, readonly string[]>
type Context = Record<string, unknown>
/**
 * Imported by a variable path, because the type check of tests lacks the types of workerd that it
 * needs.
 */
const { givenApprovals, possibleApprovals } = (await import(
  /* @vite-ignore */ join(ROOT, 'edge/decision/approval-context.ts')
)) as {
  givenApprovals: (
    approvers: Approvers,
    owners: readonly string[],
    answers: readonly RecordedAnswer[],
  ) => Context
  possibleApprovals: (
    approvers: Approvers,
    owners: readonly string[],
    answers: readonly RecordedAnswer[],
  ) => Context[]
}

const APPROVERS: Approvers = new Map([
  ['ann', ['finance', 'lead']],
  ['bob', ['finance']],
  ['cid', ['legal']],
])
const answerBy = (
  by: string,
  decision: RecordedAnswer['decision'] = 'approve',
  channel = 'api',
): RecordedAnswer => ({
  by,
  since_ms: 0,
  decision,
  channel,
  scope: 'once',
  reason: '',
  at_ms: 0,
})

test('P09 a yes by an operator who may no longer answer does not count', () => {
  const context = givenApprovals(APPROVERS, [], [answerBy('ann'), answerBy('eve')])
  expect(context).toMatchObject({
    granted: true,
    count: 1,
    approvers: ['ann'],
    quorum: ['1 of finance', '1 of lead'],
  })
  expect(givenApprovals(APPROVERS, [], [answerBy('eve')])).toMatchObject({
    granted: false,
    count: 0,
    approvers: [],
    assurance: 'none',
  })
})

test('a denial never counts as a yes', () => {
  expect(givenApprovals(APPROVERS, [], [answerBy('ann', 'deny'), answerBy('bob')])).toMatchObject({
    count: 1,
    approvers: ['bob'],
  })
  expect(givenApprovals(APPROVERS, [], [answerBy('ann', 'deny')])).toMatchObject({ granted: false, count: 0 })
})

test('P09 the yes of an agent’s owner counts, but not as an independent one', () => {
  const context = givenApprovals(APPROVERS, ['ann'], [answerBy('ann'), answerBy('bob')])
  expect(context).toMatchObject({
    count: 2,
    independent: { count: 1, roles: ['finance'], quorum: ['1 of finance'] },
  })
  expect(givenApprovals(APPROVERS, ['ann'], [answerBy('ann')])).toMatchObject({
    independent: { count: 0, roles: [], quorum: [] },
  })
})

test('an approval has the assurance of its weakest yes', () => {
  expect(givenApprovals(APPROVERS, [], [answerBy('ann'), answerBy('bob', 'approve', 'slack')])).toMatchObject(
    {
      assurance: 'slack',
    },
  )
  expect(givenApprovals(APPROVERS, [], [answerBy('ann', 'approve', 'link'), answerBy('bob')])).toMatchObject({
    assurance: 'link',
  })
  expect(
    givenApprovals(APPROVERS, [], [answerBy('ann'), answerBy('bob', 'approve', 'a way that nobody knows')]),
  ).toMatchObject({ assurance: 'link' })
})

test('no possible further answer raises the assurance above that of a yes already given', () => {
  const ways = possibleApprovals(APPROVERS, [], [answerBy('ann', 'approve', 'link')]).map(
    (context) => context['assurance'],
  )
  expect([...new Set(ways)]).toEqual(['link'])
})
