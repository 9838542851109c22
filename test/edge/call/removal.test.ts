// Promise: a call loses what the rule no longer keeps, not before its time, and nothing else.

import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterEach, expect, test, vi } from 'vitest'
import type { ApprovalRecord, CallRecord } from '../../../edge/call/lifecycle.ts'
import { expiredAfter, removalOf, withoutExpired } from '../../../edge/call/removal.ts'
import type { RunRow } from '../../../edge/call/run.ts'
import { usageOf } from '../../../edge/call/usage.ts'
import { ROOT } from '../../../infra/state.ts'
import type { Envelope } from '../../../shared/evidence/dsse.ts'
import { type JournalEntry, verifyChain } from '../../../shared/evidence/journal.ts'
import type { EvidenceRemoval } from '../../../shared/evidence/removal.ts'
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
  const keep = { outputs: 1, arguments: 3, evidence: 5 }
  const after = (ms: number) => expiredAfter(keep, ms, DAY)
  expect([after(0), after(999), after(1_000), after(2_999), after(3_000), after(5_000)]).toEqual([
    [],
    [],
    ['outputs'],
    ['outputs'],
    ['outputs', 'arguments'],
    ['outputs', 'arguments', 'evidence'],
  ])
  expect(expiredAfter({ outputs: null, arguments: null, evidence: null }, 1e12, DAY)).toEqual([])
  expect(expiredAfter({ outputs: 1, arguments: null, evidence: null }, 1e12, DAY)).toEqual(['outputs'])
})

test('a call without its arguments has no text of them, and keeps digests, answers and attestation', () => {
  const left = withoutExpired(RECORD, { outputs: REMOVAL, arguments: REMOVAL })
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
  const once = withoutExpired(RECORD, { outputs: REMOVAL })
  expect(once).toEqual({ ...RECORD, removed: { outputs: REMOVAL } })
  const later = { at_ms: 2e12, rule: 4, days: 2 }
  expect(withoutExpired(once, { outputs: later })).toBe(once)
  expect(withoutExpired(once, { outputs: later, arguments: later }).removed).toEqual({
    outputs: REMOVAL,
    arguments: later,
  })
  expect(removalOf(once, 'arguments')).toBeUndefined()
  expect(removalOf(once, 'outputs')).toMatchObject({
    code: 'removed',
    detail:
      'the outputs of this call were removed on 2026-11-20 by retention rule 3, which keeps outputs for 1 day',
  })
})

const EVIDENCE: EvidenceRemoval = {
  ...REMOVAL,
  statement_sha256: 'a'.repeat(64),
  entry: { seq: 3, hash: 'b'.repeat(64) },
  head: { seq: 9, hash: 'c'.repeat(64) },
}
const ALL = { outputs: REMOVAL, arguments: REMOVAL, evidence: EVIDENCE }

test('a call without its evidence has state, digests and times, and nobody’s name or reason', () => {
  const { approval } = RECORD.status
  const record = {
    proposal: {
      ...RECORD.proposal,
      origin: { reason: 'as told by Eve' },
      shadow: { code: 'p' },
      createdAt: 7,
    },
    status: {
      ...RECORD.status,
      decision: { ...RECORD.status.decision, policies: ['by-eve'], reason: 'Eve may', policy_set: 's' },
      approval: { ...approval, requestedAt: 8, expiresAt: 9, answers: [{ by: 'Eve', reason: 'by Eve' }] },
      at: 10,
      error: null,
      detail: 'Eve was here',
      finished: { exit_code: 0, truncated: false, detail: 'Eve', files: { files: [] } },
    },
  } as unknown as CallRecord
  const left = withoutExpired(record, ALL)
  expect(JSON.stringify(left)).not.toMatch(/eve|tell nobody/i)
  expect(left).toMatchObject({
    proposal: { n: 1, tool: { name: 'tool' }, digest: 'digest', argsSha256: 'args', createdAt: 7 },
    status: {
      state: 'succeeded',
      at: 10,
      error: null,
      finished: null,
      decision: { effect: 'ask', policies: [], reason: '', policy_set: 's' },
      attestation: { id: 'att_1' },
    },
    removed: ALL,
  })
  expect(removalOf(left, 'evidence')?.detail).toBe(
    'the evidence of this call was removed on 2026-11-20 by retention rule 3, which keeps evidence for 1 day',
  )
  expect(withoutExpired(left, { ...ALL, evidence: { ...EVIDENCE, rule: 4 } })).toBe(left)
})

test('L1 usage counts a call without its evidence as before, so a cap that was reached stays reached', () => {
  const answer = (more: object) => ({ by: 'root', decision: 'approve', ...more })
  const approvals: Partial<ApprovalRecord>[] = [
    { answers: [] },
    { answers: [answer({})] as never, enough: true },
    { answers: [answer({ standing: 'sta_1' })] as never, enough: true },
    { answers: [answer({ standing: 'sta_1' })] as never },
    { answers: [answer({ standing: 'sta_1', decision: 'deny' })] as never },
    { answers: [answer({ standing: 'sta_1' }), answer({ by: 'eve' })] as never, enough: true },
  ]
  const asked = approvals.map((approval) => ({ ...RECORD.status.approval, ...approval }))
  for (const approval of [null, ...asked])
    for (const ended of [{ state: 'succeeded', took: 70 }, { state: 'denied' }, { state: 'rejected' }]) {
      const { proposal, status } = RECORD
      const record = {
        proposal: { ...proposal, spent: 5, before: { run: {} } },
        status: { ...status, approval, ...ended },
      } as unknown as CallRecord
      expect(usageOf(withoutExpired(record, ALL), 0)).toEqual(usageOf(record, 0))
    }
})

/** By a variable path, because the type check of tests lacks the types of workerd that stores need. */
const storeIn = <Store>(file: string): Promise<Store> =>
  import(/* @vite-ignore */ join(ROOT, 'edge/run', file))
const { ObjectStore } = await storeIn<{
  ObjectStore: new (ctx: ReturnType<typeof objectOn>) => { removedOfAll: () => number }
}>('object/object-store.ts')
const { RunStore } = await storeIn<{
  RunStore: new (
    object: unknown,
    id: string,
  ) => {
    newRun: (record: { id: string }) => RunRow
    createRun: (row: RunRow) => void
    saveRun: (row: RunRow) => void
    insertCall: (
      record: CallRecord,
      keys: { key: string | null; joinKey: null },
      dueAt: null,
      unmirrored: boolean,
    ) => void
    everyCall: () => CallRecord[]
    callByKey: (key: string) => CallRecord | undefined
    append: (row: RunRow, at: number, kind: string, n: number | null, body: object) => RunRow
    saveAttestation: (n: number, envelope: Envelope, grant: null) => void
    attestation: (n: number) => unknown
    keepSnapshot: (snapshot: { digest: string; text: string }) => void
    snapshot: (digest: string) => string | undefined
    journal: (run: string, after: number, whole?: boolean) => JournalEntry[]
  }
}>('store.ts')
type Step = (
  store: unknown,
  rule: { rule: number; keep: Keep },
  place: { after: number; last: number; now: number },
) => { next: number | null; approvals: Array<{ id: string }>; forgotten: string[] } | null
const { removeFromCalls, removeJournals } = await storeIn<{
  removeFromCalls: Step
  removeJournals: Step
}>('sealing/removal-store.ts')
const { removeExpired } = await storeIn<{ removeExpired: (runs: object) => Promise<void> }>(
  'sealing/removal.ts',
)
const { GroupCommit } = await storeIn<{ GroupCommit: new (storage: object) => object }>(
  '../platform/group-commit.ts',
)

/** The first step of a pass over runs whose last event was long ago. */
const first = (after = -1) => ({ after, last: 1, now: Date.now() })

test('one transaction removes the outputs and arguments of 50 calls (`removal_calls`), and the next one goes on there', () => {
  expect(LIMITS.removal_calls).toBe(50)
  const object = new ObjectStore(objectOn(new DatabaseSync(':memory:')))
  const id = 'run_00000000000000000000000001'
  const store = new RunStore(object, id)
  store.createRun(store.newRun({ id }))
  const { proposal, status } = RECORD
  for (let n = 1; n <= 120; n++) {
    const call = { proposal: { ...proposal, n }, status: { ...status, approval: null } } as CallRecord
    store.insertCall(call, { key: null, joinKey: null }, null, false)
  }
  const removed = () => store.everyCall().filter((call) => call.removed?.arguments !== undefined).length
  const page = (after: number) =>
    removeFromCalls(object, { rule: 1, keep: { outputs: 1, arguments: 1, evidence: null } }, first(after))
  expect([page(-1)?.next, removed()]).toEqual([50, 50])
  expect([page(50)?.next, removed()]).toEqual([100, 100])
  expect([page(100)?.next, removed()]).toEqual([null, 120])
})

/** A SHA-256 that `sha256sum` printed, of the bytes of `payload` below. */
const STATEMENT = {
  text: 'statement',
  sha256: 'b111c6e1d318f203063e5c16bab43c108326af0aa2f7b65760c95547a43dbe52',
}

/** An object with two runs that share it, each with two ended calls. */
function twoRuns() {
  const db = new DatabaseSync(':memory:')
  const object = new ObjectStore(objectOn(db))
  const ids = ['run_40000000000000000000000001', 'run_40000000000000000000000002'] as const
  const stores = ids.map((id) => {
    const store = new RunStore(object, id)
    let row = store.newRun({ id })
    for (const n of [1, 2]) {
      const { proposal, status } = RECORD
      const approval = n === 1 ? { ...status.approval, id: `${id}.1` } : null
      const decision = { ...status.decision, snapshot: 'snapshot' }
      const record = {
        proposal: { ...proposal, n, origin: {} },
        status: { ...status, decision, approval },
      } as CallRecord
      store.keepSnapshot({ digest: 'snapshot', text: '{}' })
      store.insertCall(record, { key: `key ${n}`, joinKey: null }, null, false)
      row = store.append(row, n, 'allowed', n, { reason: 'tell nobody' })
      row = store.append(row, n, 'succeeded', n, { attestation: `att_${n}` })
      const payload = Buffer.from(STATEMENT.text).toString('base64')
      store.saveAttestation(n, { payloadType: '', payload, signatures: [] }, null)
    }
    store.createRun({ ...row, calls: 2 })
    return store
  })
  return { db, object, ids, stores }
}
const RULE = { rule: 3, keep: { outputs: 1, arguments: 1, evidence: 1 } }

test('evidence is removed in two passes: calls become tombstones with their digests, then journals become their last hash', () => {
  const { db, object, ids, stores } = twoRuns()
  const [run] = ids
  const [store = raise()] = stores
  const [, end, , last = raise()] = store.journal(run, 0)
  const step = removeFromCalls(object, RULE, first())
  expect(step).toMatchObject({ approvals: [], forgotten: ids.map((id) => `${id}.1`), next: null })
  // After a crash here the journals are whole, and the next pass goes on.
  expect(store.journal(run, 0)).toHaveLength(4)
  expect(store.callByKey('key 1')?.removed?.evidence).toMatchObject({
    rule: 3,
    days: 1,
    statement_sha256: STATEMENT.sha256,
    entry: { seq: 2, hash: end?.hash },
    head: { seq: 4, hash: last.hash },
  })
  expect([store.attestation(1), store.attestation(2)]).toEqual([undefined, undefined])
  const again = removeFromCalls(object, { ...RULE, rule: 4 }, first())
  expect(again).toMatchObject({ forgotten: ids.map((id) => `${id}.1`) }) // the inbox may not have heard
  expect(store.callByKey('key 1')?.removed?.evidence?.rule).toBe(3)

  expect(removeJournals(object, RULE, first())).toMatchObject({ next: null })
  expect([store.snapshot('snapshot'), store.journal(run, 4)]).toEqual([undefined, []])
  expect(store.journal(run, 0)).toMatchObject([
    { seq: 4, kind: 'removed', call: null, hash: last.hash, body: { rule: 3, days: 1 } },
  ])
  expect(db.prepare('select count(*) as n from journal').get()).toEqual({ n: 2 })
  expect(JSON.stringify(db.prepare('select * from journal').all())).not.toContain('tell nobody')
  removeJournals(object, { ...RULE, rule: 4 }, first())
  expect(store.journal(run, 0)[0]?.body).toMatchObject({ rule: 3 })

  // The run goes on where it ended, and its chain holds from there. Its calls have their snapshots.
  store.keepSnapshot({ digest: 'snapshot', text: '{}' })
  expect(store.snapshot('snapshot')).toBe('{}')
  const row = { ...(store as unknown as { run: () => RunRow }).run() }
  store.saveRun(store.append(row, 5, 'allowed', 3, {}))
  const next = store.journal(run, 4)
  expect(verifyChain(next, { seq: 4, hash: last.hash })).toMatchObject({ ok: true, value: { seq: 5 } })
})

test('a rule that keeps evidence for ever leaves journals, attestations and snapshots', () => {
  const { object, ids, stores } = twoRuns()
  const rule = { rule: 3, keep: { outputs: 1, arguments: 1, evidence: null } }
  expect(removeFromCalls(object, rule, first())?.next).toBeNull()
  expect(removeJournals(object, rule, first())?.next).toBeNull()
  for (const [i, store] of stores.entries()) {
    expect(store.journal(ids[i] ?? '', 0)).toHaveLength(4)
    expect([store.attestation(1), store.snapshot('snapshot')]).not.toContain(undefined)
  }
})

type Force = { rule: typeof RULE; held: string[] } | null
const FREE: Force = { rule: RULE, held: [] }
type TwoRuns = ReturnType<typeof twoRuns>

/** The object removes what has expired. Returns whether it has sealed itself, thus whether it has finished. */
async function hasRemoved(
  { db, object, ids }: TwoRuns,
  inForce: () => Force,
  on: { putBack?: () => void; committed?: () => void } = {},
): Promise<boolean> {
  const retention = { inForce: async () => inForce(), redact: async () => undefined }
  const { storage } = objectOn(db)
  let isSealed = false
  await removeExpired({
    env: { TENANT: { getByName: () => ({ retention, exportTarget: async () => null }) } },
    store: object,
    commits: new GroupCommit({ ...storage, sync: async () => undefined }),
    archived: {
      tenant: 'acme',
      object: 'object',
      ids: async () => new Map([[0, ids[0]]]),
      putBack: async () => on.putBack?.(),
    },
    isErased: false,
    committed: () => on.committed?.(),
    sealAgain: async () => {
      isSealed = true
    },
  })
  return isSealed
}

const removedOf = ({ stores }: TwoRuns) =>
  stores.map((store) => store.everyCall().map(({ removed }) => Object.keys(removed ?? {})))
const entriesOf = ({ ids, stores }: TwoRuns) =>
  stores.map((store, i) => store.journal(ids[i] ?? '', 0).length)
const each = <T>(value: T): T[][] => [
  [value, value],
  [value, value],
]
const ALL_KINDS = ['outputs', 'arguments', 'evidence']

afterEach(() => {
  vi.useRealTimers()
})

test('evidence that expires during a removal stays until the next one, which makes its tombstones', async () => {
  const runs = twoRuns()
  const rule = { rule: 3, keep: { outputs: 30, arguments: 90, evidence: 90 } }
  const expiry = 90 * LIMITS.retention_day_ms + 2 // the last entry is of 2 ms after 1970
  vi.useFakeTimers({ toFake: ['Date'], now: expiry - 1 })
  const committed = () => {
    vi.setSystemTime(expiry)
  }
  expect(await hasRemoved(runs, () => ({ rule, held: [] }), { committed })).toBe(true)
  expect([removedOf(runs), entriesOf(runs)]).toEqual([each(['outputs']), [4, 4]])
  expect(await hasRemoved(runs, () => ({ rule, held: [] }))).toBe(true)
  expect([removedOf(runs), entriesOf(runs)]).toEqual([each(ALL_KINDS), [1, 1]])
})

test.each<[string, Force]>([
  ['a hold on the tenant', null],
  ['a hold on the run', { rule: RULE, held: ['object'] }],
  ['another rule', { rule: { ...RULE, rule: 4 }, held: [] }],
])(
  '%s stops a removal that has begun before its next step, and a later one removes the rest',
  async (_, stop) => {
    const runs = twoRuns()
    let force: Force = FREE
    const putIt = () => {
      force = stop
    }
    expect(await hasRemoved(runs, () => force, { putBack: putIt })).toBe(false)
    expect([removedOf(runs), entriesOf(runs), runs.object.removedOfAll()]).toEqual([each([]), [4, 4], 0])

    force = FREE
    expect(await hasRemoved(runs, () => force, { committed: putIt })).toBe(false)
    // The archive must not take the evidence for removed, or it would never ask for the journals.
    expect([removedOf(runs), entriesOf(runs), runs.object.removedOfAll()]).toEqual([
      each(ALL_KINDS),
      [4, 4],
      2,
    ])

    force = FREE
    expect(await hasRemoved(runs, () => force)).toBe(true)
    expect([removedOf(runs), entriesOf(runs), runs.object.removedOfAll()]).toEqual([
      each(ALL_KINDS),
      [1, 1],
      3,
    ])
  },
)

const raise = (): never => {
  throw new Error('there is no such entry')
}
