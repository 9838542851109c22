// Promise: while 300 calls run, runs are sealed, a retention rule removes what is older than seconds, and
// backups are taken, `kill -9` of worker, Redis and workerd at random moments loses no call and runs none
// twice (L2, L4, L5). Of a call whose evidence the rule no longer keeps, exactly a tombstone is left. A
// restored backup has every call that was acknowledged before it began, and runs none again. Each call appends a line to a file of
// its run on the worker's host, and the test counts executions by these lines.

import { existsSync, globSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { JournalEntry } from '../../shared/evidence/journal.ts'
import type { Call } from '../../shared/wire/calls.ts'
import { attested, endsIn, journalLeft, logHolds } from '../support/auditor.ts'
import { countersign } from '../support/countersign.ts'
import { eventually } from '../support/eventually.ts'
import { unwrap } from '../support/fixtures.ts'
import { HurtStack, insist } from '../support/stack/hurt-stack.ts'
import { timedKey } from '../support/timed-key.ts'

/** `npm run test:chaos` makes 3,000. */
const CALLS = Number(process.env['COUNTERSIGN_STORM'] ?? '300')
/** Runs that live for the whole storm. Half of the calls are in them. */
const LONG_RUNS = 8
const CALLS_OF_SHORT_RUN = 10
const PROPOSED_WITHIN_MS = CALLS * 133
/** Each part dies at least this often. */
const STRIKES = Math.ceil(CALLS / 60)
/** Another seed gives another storm: `STORM_SEED=7 npm test -- test/faults/storm`. */
const SEED = Number(process.env['STORM_SEED'] ?? 1)
const SEAL_AFTER_S = 1
/** A day of the retention rule. */
const DAY_MS = 5_000
const KEPT_DAYS = { outputs: 1, arguments: 1, evidence: 2 }
const FOR_EVER = { outputs: null, arguments: null, evidence: null }
const INDETERMINATE_WITHIN_MS = 20_000
const AT_ONCE = 32

/** mulberry32, so that a seed always gives the same storm. */
function dice(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

type Part = 'worker' | 'redis' | 'edge'
type Struck = { readonly parts: readonly Part[]; readonly at: number; back: number }

const state = mkdtempSync(join(tmpdir(), 'countersign-storm-'))
let hurt: HurtStack
beforeAll(async () => {
  const limits = { retention_day_ms: DAY_MS, removal_retry_ms: 1_000 }
  hurt = await HurtStack.start({ state, sealAfterS: SEAL_AFTER_S, limits })
})
afterAll(async () => {
  await hurt?.stop()
  rmSync(state, { recursive: true, force: true })
})

/**
 * One call of a client. `mark` is the line that it appends. A call without a run makes its own.
 */
type Wanted = {
  readonly mark: string
  readonly key: string
  readonly run: string | undefined
  readonly tool: string
  readonly args: Record<string, string>
  readonly at: number
}

/** Of four blocks of ten calls, two are in long runs, one is in a short run, and in one each makes a run. */
function wanted(n: number, long: readonly string[], short: readonly string[], random: () => number): Wanted {
  const mark = `call-${String(n).padStart(4, '0')}`
  const block = Math.floor(n / CALLS_OF_SHORT_RUN)
  const run = [long[n % LONG_RUNS], short[Math.floor(block / 4)], undefined, long[n % LONG_RUNS]][block % 4]
  const call = { mark, run, at: random() * PROPOSED_WITHIN_MS, key: n % 2 === 0 ? mark : timedKey() }
  const kind = n % 10
  if (kind < 3) return { ...call, tool: 'text_stats', args: { text: `${mark}\n` } }
  const args = { mark: `${mark}\n` }
  if (kind < 5) return { ...call, tool: 'mark_quickly', args }
  if (kind < 8)
    return { ...call, tool: 'mark_slowly', args: { ...args, seconds: (0.2 + random()).toFixed(2) } }
  return { ...call, tool: 'mark_asking', args }
}

/** Proposes under its key until the edge acknowledges it. */
async function proposed({ key, run, tool, args }: Wanted): Promise<Call> {
  const request = { body: { tool, args }, headers: { 'idempotency-key': key }, wait: 1 }
  return unwrap(
    await insist(
      () =>
        run === undefined
          ? hurt.agent('proposeCallInNewRun', request)
          : hurt.agent('proposeCall', { ...request, params: { run } }),
      90_000,
    ),
  )
}

/** Approves waiting calls until the storm is over. */
async function approveAll(over: AbortSignal): Promise<number> {
  let approved = 0
  while (!over.aborted) {
    const pending = await insist(
      () => hurt.operator('listApprovals', { query: { status: 'pending' } }),
      90_000,
    )
    for (const { id } of unwrap(pending).items) {
      const answer = await insist(
        () => hurt.operator('answerApproval', { params: { id }, body: { decision: 'approve' } }),
        90_000,
      )
      // The response to an accepted answer got lost, or the inbox is behind: neither loses a call.
      if (!answer.ok && answer.error.code !== 'already_answered')
        throw new Error(JSON.stringify(answer.error))
      approved += 1
    }
    await sleep(100)
  }
  return approved
}

/** Sets the retention rule again and again. At the end it keeps all that is left, which is then checked. */
async function prune(over: AbortSignal): Promise<void> {
  while (!over.aborted) {
    await keep(KEPT_DAYS)
    await sleep(2_000)
  }
  await keep(FOR_EVER)
}

const keep = async (body: typeof KEPT_DAYS | typeof FOR_EVER) =>
  unwrap(await insist(() => hurt.operator('putRetention', { body }), 90_000))

async function strikeAll(random: () => number): Promise<Struck[]> {
  const single = (['worker', 'redis', 'edge'] as const).flatMap((part) =>
    Array.from({ length: STRIKES - 1 }, (): Part[] => [part]),
  )
  const order = single.map((parts) => ({ parts, at: random() })).toSorted((a, b) => a.at - b.at)
  const strikes: Part[][] = [
    ...order.map(({ parts }) => parts),
    ['worker', 'edge'],
    ['worker', 'redis', 'edge'],
    ['redis', 'edge'],
  ]
  const struck: Struck[] = []
  for (const parts of strikes) {
    await sleep(300 + random() * 2_500)
    const strike: Struck = { parts, at: Date.now(), back: 0 }
    struck.push(strike)
    const back = await Promise.all(parts.map((part) => hurt.stack[part].restart()))
    for (const started of back) if (!started.ok) throw new Error(started.error)
    strike.back = Date.now()
  }
  return struck
}

/** A backup, and the calls that were acknowledged before it began. */
type Backup = { readonly dir: string; readonly at: number; readonly known: ReadonlyMap<string, Call> }

const ofState = (...args: readonly string[]) =>
  countersign([...args, '--json'], { env: { COUNTERSIGN_STATE: state } })

/**
 * Takes backups until most calls are acknowledged, so that the last one lacks some. A backup fails if the
 * edge dies while it is taken, and does not count.
 */
async function backUp(known: ReadonlyMap<string, Call>, random: () => number): Promise<Backup> {
  let last: Backup | undefined
  for (let n = 0; known.size < CALLS * 0.7 || last === undefined; n++) {
    await sleep(1_000 + random() * 5_000)
    const backup = { dir: join(state, `backup-${n}`), at: Date.now(), known: new Map(known) }
    const { code } = await ofState('backup', backup.dir)
    expect(existsSync(join(backup.dir, 'manifest.json'))).toBe(code === 0)
    const stale = code === 0 ? last : backup
    if (stale !== undefined) rmSync(stale.dir, { recursive: true, force: true })
    if (code === 0) last = backup
  }
  return last
}

/** Objects of runs that were sealed, by the files of the archives. */
const sealedObjects = (): number =>
  globSync(join(state, 'edge/objects/countersign-archive/*.sqlite'))
    .filter((file) => !file.endsWith('metadata.sqlite'))
    .reduce((sum, file) => {
      const db = new DatabaseSync(file, { readOnly: true })
      const isMade = db.prepare("select 1 from sqlite_schema where name = 'entries'").get() !== undefined
      const row = isMade
        ? db.prepare('select count(*) as n from entries where digest is not null').get()
        : undefined
      db.close()
      return sum + Number(row?.['n'] ?? 0)
    }, 0)

/** Some at a time, in order. */
async function each<T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<R[]> {
  const done: R[] = []
  for (let i = 0; i < items.length; i += AT_ONCE)
    done.push(...(await Promise.all(items.slice(i, i + AT_ONCE).map(work))))
  return done
}

/**
 * Returns the journals of these runs, and the calls whose evidence was removed. Fails unless all evidence
 * verifies, each of the latter is exactly a tombstone, and the log has the end of each call once.
 */
async function verified(
  runs: readonly string[],
  given: readonly Call[],
): Promise<{ entries: JournalEntry[]; gone: Call[] }> {
  const calls = await storedCalls(given)
  const [gone, kept] = [calls.filter(isTombstone), calls.filter((call) => !isTombstone(call))]
  const ofRun = Map.groupBy(calls, ({ run }) => run)
  const entries = (await each(runs, (run) => journalLeft(hurt, run, ofRun.get(run) ?? []))).flat()
  const ends = new Map(endsIn(entries).map(({ call, hash }) => [call ?? '', hash]))
  for (const { id, removed } of gone) {
    const hash = removed?.evidence?.entry.hash ?? ''
    expect(ends.get(id) ?? hash).toBe(hash) // the journal goes after its calls
    ends.set(id, hash)
  }
  expect([...ends.keys()].toSorted()).toEqual(calls.map(({ id }) => id).toSorted())
  const rules = await tenantJournal()
  await logHolds(hurt, [...[...ends.values()].map((hash) => ({ hash })), ...rules])
  await each(kept, (call) => attested(hurt, call))
  await each(gone, buried)
  return { entries, gone }
}

/** The changes of the retention rule, which are leaves of the log, too. */
async function tenantJournal(): Promise<JournalEntry[]> {
  const entries: JournalEntry[] = []
  for (;;) {
    const query = { after: entries.length }
    const { items } = unwrap(await insist(() => hurt.operator('readTenantJournal', { query })))
    if (items.length === 0) return entries
    entries.push(...items)
  }
}

const isTombstone = ({ removed }: Call): boolean => removed?.evidence !== undefined

/** The call has ended, was removed after its days, and has nothing of what is gone. */
async function buried({
  run,
  id,
  ended_at_ms = 0,
  result,
  approval,
  origin,
  plan,
  removed,
}: Call): Promise<void> {
  const params = { run, call: id }
  const read = await insist(() => hurt.agent('readAttestation', { params }))
  expect([read.ok ? 200 : read.error.code, result?.output, approval, origin, plan]).toEqual([
    'removed',
    '',
    undefined,
    undefined,
    undefined,
  ])
  expect((removed?.evidence?.at_ms ?? 0) - ended_at_ms).toBeGreaterThanOrEqual(2 * DAY_MS)
}

const marksOf = (runs: readonly string[]): string[] => runs.flatMap((run) => hurt.marks(run))

/** All calls of these runs that still exist. */
async function storedCalls(ids: readonly Call[]): Promise<Call[]> {
  const read = await each(ids, ({ run, id }) =>
    insist(() => hurt.agent('readCall', { params: { run, call: id } })),
  )
  return read.flatMap((call) => {
    if (!call.ok && call.error.code !== 'not_found') throw new Error(JSON.stringify(call.error))
    return call.ok ? [call.value] : []
  })
}

test(
  `Q04 L2 while worker, Redis and workerd are killed with -9, each of ${CALLS} calls ends once, attested, and none runs twice, also after a restore (seed ${SEED})`,
  async () => {
    const random = dice(SEED)
    const long = await Promise.all(Array.from({ length: LONG_RUNS }, () => hurt.run()))
    const short = await Promise.all(
      Array.from({ length: Math.ceil(CALLS / (4 * CALLS_OF_SHORT_RUN)) }, () => hurt.run()),
    )
    // Half of the calls are kept by legal holds; the others are removed, at the latest after the strikes.
    for (const subject of long)
      unwrap(await hurt.operator('putHold', { params: { subject }, body: { reason: 'a case' } }))
    const all = Array.from({ length: CALLS }, (_, n) => wanted(n, long, short, random))
    const known = new Map<string, Call>()
    const over = new AbortController()
    const approving = approveAll(over.signal)
    const backingUp = backUp(known, random)
    const removed = new AbortController()
    const pruning = prune(removed.signal)
    const [struck, calls] = await Promise.all([
      strikeAll(random),
      Promise.all(
        all.map(async (call) => {
          await sleep(call.at)
          const made = await proposed(call)
          known.set(call.mark, made)
          return made
        }),
      ),
    ])

    await each(calls, (call) => hurt.ended(call, 60_000))
    await eventually(
      'evidence is removed',
      async () => (await storedCalls(calls)).filter(isTombstone).length > CALLS / 30,
      60_000,
    )
    removed.abort()
    await pruning
    const ended = await each(calls, (call) => hurt.ended(call, 60_000))
    over.abort()
    expect(await approving).toBeGreaterThanOrEqual(CALLS / 5)
    for (const part of ['worker', 'redis', 'edge'] as const) {
      expect(struck.filter(({ parts }) => parts.includes(part)).length).toBeGreaterThanOrEqual(STRIKES)
    }
    const backup = await backingUp

    // No call is lost, and no repeated proposal made a second one. Each ended once in journal and log,
    // and is attested.
    expect(new Set(ended.map(({ id }) => id)).size).toBe(CALLS)
    const runs = [...new Set([...long, ...short, ...ended.map(({ run }) => run)])]
    const { entries, gone } = await verified(runs, ended)
    expect(new Set([...entries.map(({ call }) => call), ...gone.map(({ id }) => id)]).size).toBe(CALLS)
    for (const some of [gone.length, CALLS - gone.length]) expect(some).toBeGreaterThan(CALLS / 30)

    // None ran twice, succeeded calls ran, and calls with an unknown end are indeterminate.
    const marks = marksOf(runs)
    const ran = new Map([...Map.groupBy(marks, (mark) => mark)].map(([mark, lines]) => [mark, lines.length]))
    expect([...ran].filter(([, times]) => times > 1)).toEqual([])
    const outcomes = ended.map(({ state: end, result }, n) => ({
      ...all[n],
      end,
      error: result?.error?.code,
      ran: ran.get(all[n]?.mark ?? '') ?? 0,
    }))
    // If the worker died between the claim of a run's first call and making its folder, the others are refused.
    const isFolderless = (id: string | undefined) =>
      hurt.marks(id ?? '').length === 0 &&
      ended.some(({ run, state }) => run === id && state === 'indeterminate')
    const isExpected = ({ end, error, run }: (typeof outcomes)[number]) =>
      end === 'succeeded' ||
      end === 'indeterminate' ||
      (end === 'failed' && error === 'workspace_lost' && isFolderless(run))
    expect(outcomes.filter((outcome) => !isExpected(outcome))).toEqual([])
    const marking = outcomes.filter(({ tool }) => tool !== 'text_stats')
    expect(marking.filter(({ end, ran: times }) => end === 'succeeded' && times !== 1)).toEqual([])
    expect(outcomes.filter(({ tool, end }) => tool === 'text_stats' && end !== 'succeeded')).toEqual([]) // idempotent: tried again

    // A call is indeterminate only if its worker died while it ran, and becomes so in time. A journal that
    // was removed no longer says when the call was claimed.
    const buriedIds = new Set(gone.map(({ id }) => id))
    const lost = ended.filter(({ id, state }) => state === 'indeterminate' && !buriedIds.has(id))
    for (const { id, ended_at_ms = 0 } of lost) {
      const claimed = entries.findLast(({ call, kind }) => call === id && kind === 'claimed')?.at_ms ?? 0
      const deadly = struck.find(
        ({ parts, at, back }) => parts.includes('worker') && claimed <= back && at <= ended_at_ms,
      )
      expect(deadly, `${id} was claimed at ${claimed} and lost, and no worker died`).toBeDefined()
      // If the edge was restarted in between, it has renewed each lease.
      const since = struck
        .filter(({ parts, back }) => parts.includes('edge') && back <= ended_at_ms)
        .map(({ back }) => back)
      expect(ended_at_ms - Math.max(deadly?.at ?? 0, ...since)).toBeLessThan(INDETERMINATE_WITHIN_MS)
    }

    // After the restore, each call that was acknowledged before the backup is there once, with the end
    // that it had or as indeterminate. Its key finds it, and nothing runs again.
    await hurt.stop()
    const sealed = sealedObjects()
    expect(sealed).toBeGreaterThan(0)
    const restored = await ofState('restore', backup.dir, '--replace', '--accept-rollback', 'a storm')
    expect(restored).toMatchObject({ code: 0 })
    hurt = await HurtStack.start({ state, sealAfterS: SEAL_AFTER_S })
    await keep(FOR_EVER) // the backup has the rule of its time
    const stored = await storedCalls(ended)
    const after = new Map(stored.map((call) => [call.id, call]))
    expect([...backup.known.values()].filter(({ id }) => !after.has(id))).toEqual([])
    for (const call of ended) {
      const now = after.get(call.id)
      if (now === undefined || now.state === call.state) continue
      expect(now).toMatchObject({ state: 'indeterminate', result: { error: { code: 'restored' } } })
      expect(call.ended_at_ms).toBeGreaterThan(backup.at)
    }
    const kept = all.filter(({ mark }) => backup.known.has(mark))
    expect((await each(kept, proposed)).map(({ id }) => id)).toEqual(
      kept.map(({ mark }) => known.get(mark)?.id),
    )
    await verified([...new Set([...long, ...short, ...stored.map(({ run }) => run)])], stored)
    expect(marksOf(runs).toSorted()).toEqual(marks.toSorted())
    console.log(
      `${struck.length} strikes; ${ended.length - lost.length} succeeded, ${lost.length} indeterminate; ${marks.length} marks; ${sealed} objects sealed; ${gone.length} tombstones; ${stored.length} calls restored, ${backup.known.size} known before the backup`,
    )
  },
  240_000 + CALLS * 600,
)
