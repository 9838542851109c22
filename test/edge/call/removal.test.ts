// Promise: a call loses what the rule no longer keeps, not before its time, and nothing else.

import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect, test } from 'vitest'
import type { CallRecord } from '../../../edge/call/lifecycle.ts'
import { expiredAfter, removalOf, withoutExpired } from '../../../edge/call/removal.ts'
import { ROOT } from '../../../infra/state.ts'
import { LIMITS } from '../../../shared/limits.ts'
import type { Keep } from '../../../shared/wire/retention.ts'
import { objectOn } from '../../support/stack/object-storage.ts'

const DAY = 1_000
const REMOVAL = { at_ms: Date.UTC(2026, 10, 20), rule: 3, days: 1 }

const RECORD = {
  proposal: {
    n: 1,
    tool: { name: 'tool', version: 1, digest: 'd' },
    args: { text: 'tell nobody' },
    plan: { tier: 'C', executor: { argv: ['tell nobody'] } },
    digest: 'digest',
    argsSha256: 'args',
    planSha256: 'plan',
    files: [{ path: 'tell nobody', sha256: 'f', bytes: 1 }],
  },
  status: {
    state: 'succeeded',
    decision: { effect: 'ask', policies: ['p'], explanation: { changes: ['tell nobody'] } },
    approval: {
      id: 'apr_1',
      answers: [{ by: 'root' }],
      edits: [{ changes: ['tell nobody'] }],
      prompt: {
        title: 'agent wants to run tool',
        agent: 'agent',
        command: 'tell nobody',
        plan: 'tell nobody',
        arguments: 'tell nobody',
        standing: { covers: 'tell nobody', most_s: 1 },
        files: [{ path: 'tell nobody', sha256: 'f', bytes: 1 }],
        policies: ['p'],
      },
    },
    attestation: { id: 'att_1' },
  },
} as unknown as CallRecord // the members that removal reads, and some that stay

test('a kind expires when its days are over, and never without a number of days', () => {
  const keep = { outputs: 1, arguments: 3 }
  const after = (ms: number) => expiredAfter(keep, ms, DAY)
  expect([after(0), after(999), after(1_000), after(2_999), after(3_000)]).toEqual([
    [],
    [],
    ['outputs'],
    ['outputs'],
    ['outputs', 'arguments'],
  ])
  expect(expiredAfter({ outputs: null, arguments: null }, 1e12, DAY)).toEqual([])
  expect(expiredAfter({ outputs: 1, arguments: null }, 1e12, DAY)).toEqual(['outputs'])
})

test('a call without its arguments has no text of them, and keeps digests, answers and attestation', () => {
  const left = withoutExpired(RECORD, ['outputs', 'arguments'], () => REMOVAL)
  expect(JSON.stringify(left)).not.toContain('tell nobody')
  expect(left).toMatchObject({
    proposal: { n: 1, args: {}, plan: null, digest: 'digest', argsSha256: 'args', planSha256: 'plan' },
    status: {
      state: 'succeeded',
      decision: { effect: 'ask', policies: ['p'] },
      approval: { id: 'apr_1', answers: [{ by: 'root' }], prompt: { title: 'agent wants to run tool' } },
      attestation: { id: 'att_1' },
    },
    removed: { outputs: REMOVAL, arguments: REMOVAL },
  })
})

test('a call that has lost a kind keeps the date and the rule of that', () => {
  const once = withoutExpired(RECORD, ['outputs'], () => REMOVAL)
  expect(once).toEqual({ ...RECORD, removed: { outputs: REMOVAL } })
  const later = { at_ms: 2e12, rule: 4, days: 2 }
  expect(withoutExpired(once, ['outputs'], () => later)).toBe(once)
  expect(withoutExpired(once, ['outputs', 'arguments'], () => later).removed).toEqual({
    outputs: REMOVAL,
    arguments: later,
  })
  expect(removalOf(once, 'arguments')).toBeUndefined()
  expect(removalOf(once, 'outputs')).toMatchObject({
    code: 'removed',
    detail:
      'the outputs of this call were removed on 2026-11-20 by retention rule 3, which keeps them for 1 day',
  })
})

/** By a variable path, because the type check of tests lacks the types of workerd that stores need. */
const storeIn = <Store>(file: string): Promise<Store> =>
  import(/* @vite-ignore */ join(ROOT, 'edge/run', file))
const { ObjectStore } = await storeIn<{ ObjectStore: new (ctx: ReturnType<typeof objectOn>) => unknown }>(
  'object/object-store.ts',
)
const { RunStore } = await storeIn<{
  RunStore: new (
    object: unknown,
    id: string,
  ) => {
    createRun: (record: { id: string }) => unknown
    insertCall: (
      record: CallRecord,
      keys: { key: null; joinKey: null },
      dueAt: null,
      unmirrored: boolean,
    ) => void
    everyCall: () => CallRecord[]
  }
}>('store.ts')
const { removePage } = await storeIn<{
  removePage: (
    store: unknown,
    rule: { rule: number; keep: Keep },
    of: { after: number; last: number },
  ) => { last: number | null } | null
}>('sealing/removal-store.ts')

test('one transaction removes the outputs and arguments of 50 calls (`removal_calls`), and the next one goes on there', () => {
  expect(LIMITS.removal_calls).toBe(50)
  const object = new ObjectStore(objectOn(new DatabaseSync(':memory:')))
  const id = 'run_00000000000000000000000001'
  const store = new RunStore(object, id)
  store.createRun({ id })
  const { proposal, status } = RECORD
  for (let n = 1; n <= 120; n++) {
    const call = { proposal: { ...proposal, n }, status: { ...status, approval: null } } as CallRecord
    store.insertCall(call, { key: null, joinKey: null }, null, false)
  }
  const removed = () => store.everyCall().filter((call) => call.removed?.arguments !== undefined).length
  const page = (after: number) =>
    removePage(object, { rule: 1, keep: { outputs: 1, arguments: 1 } }, { after, last: 1 })
  expect([page(-1)?.last, removed()]).toEqual([50, 50])
  expect([page(50)?.last, removed()]).toEqual([100, 100])
  expect([page(100)?.last, removed()]).toEqual([null, 120])
})
